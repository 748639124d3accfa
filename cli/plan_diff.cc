// What two plans do differently.
#include <fmt/format.h>

#include <map>
#include <set>

#include "cli/plan_formats.h"

namespace tandem::cli {
namespace {

// What a task is known by: the first value that it computes.
std::string KeyOf(const PlanReport& report, const TaskReport& task) {
  for (const int output : task.outputs) {
    if (output < 0) continue;
    const ValueReport& value = report.values[static_cast<size_t>(output)];
    return fmt::format("{} {}", value.name, LayoutName(value.layout));
  }
  return task.name;
}

// What is compared of a task, in a line.
std::string LineOf(const PlanReport& report, const TaskReport& task) {
  std::string line = fmt::format("{}: {}", task.name, KernelText(task));
  for (const int output : task.outputs) {
    if (output < 0) continue;
    const ValueReport& value = report.values[static_cast<size_t>(output)];
    line += fmt::format(", {} {}{}", value.name, DTypeName(value.dtype),
                        value.shape ? ToString(*value.shape) : value.extents);
    if (value.layout != Layout::kNative) line += fmt::format(" {}", LayoutName(value.layout));
  }
  return line;
}

// Lines of both sides in the order of `before`; what only `after` has follows its predecessor
// there.
std::string TasksDiff(const PlanReport& before, const PlanReport& after) {
  std::map<std::string, const TaskReport*> old_tasks;
  for (const TaskReport& task : before.tasks) old_tasks[KeyOf(before, task)] = &task;
  std::map<std::string, std::string> behind;  // by key of a common task, "" at the start
  std::map<std::string, std::string> changed;
  std::string last;
  std::set<std::string> common;
  for (const TaskReport& task : after.tasks) {
    const std::string key = KeyOf(after, task);
    const std::string line = LineOf(after, task);
    const auto old_task = old_tasks.find(key);
    if (old_task == old_tasks.end()) {
      behind[last] += "+ " + line + "\n";
      continue;
    }
    common.insert(key);
    last = key;
    const std::string old_line = LineOf(before, *old_task->second);
    if (old_line != line) changed[key] = fmt::format("- {}\n+ {}\n", old_line, line);
  }
  std::string text = behind[""];
  for (const TaskReport& task : before.tasks) {
    const std::string key = KeyOf(before, task);
    if (!common.contains(key)) text += "- " + LineOf(before, task) + "\n";
    text += changed[key] + behind[key];
  }
  return text;
}

std::string DeclineLine(const Decline& decline) {
  return fmt::format("declined {}: {}, {}: {} ({})", decline.pass, decline.node, decline.role,
                     decline.rule, decline.numbers);
}

std::string DeclinesDiff(const PlanReport& before, const PlanReport& after) {
  std::set<std::string> old_lines, new_lines;
  for (const Decline& decline : before.declines) old_lines.insert(DeclineLine(decline));
  for (const Decline& decline : after.declines) new_lines.insert(DeclineLine(decline));
  std::string text;
  for (const std::string& line : old_lines) {
    if (!new_lines.contains(line)) text += "- " + line + "\n";
  }
  for (const std::string& line : new_lines) {
    if (!old_lines.contains(line)) text += "+ " + line + "\n";
  }
  return text;
}

}  // namespace

std::string DiffText(const PlanReport& before, const PlanReport& after) {
  std::string text;
  const auto compare = [&text](std::string_view name, size_t old_number, size_t new_number) {
    if (old_number != new_number)
      text += fmt::format("{} {} -> {}\n", name, old_number, new_number);
  };
  compare("tasks", before.tasks.size(), after.tasks.size());
  compare("forks", static_cast<size_t>(before.forks), static_cast<size_t>(after.forks));
  compare("bytes of weights", before.constant_bytes, after.constant_bytes);
  compare("packs", before.packs.size(), after.packs.size());
  compare("bytes of packs", before.pack_bytes, after.pack_bytes);
  compare("bytes of the arena", before.arena_bytes.value_or(0), after.arena_bytes.value_or(0));
  compare("folded nodes", static_cast<size_t>(before.folded_nodes),
          static_cast<size_t>(after.folded_nodes));
  if (before.joinable != after.joinable) {
    text += fmt::format("requests join {} -> {}\n", before.joinable, after.joinable);
  }
  text += TasksDiff(before, after) + DeclinesDiff(before, after);
  return text.empty() ? "the plans are alike\n" : text;
}

}  // namespace tandem::cli
