// What two plans do differently.
#include <fmt/format.h>

#include <algorithm>
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

// Which content a constant has; a few digits of its hash tell contents apart.
constexpr size_t kContentDigits = 12;

// Names, with what tells apart what has the same name.
std::string Names(const PlanReport& report, const std::vector<int>& ports) {
  std::string text;
  for (const int port : ports) {
    if (!text.empty()) text += ", ";
    if (port < 0) {
      text += "-";
      continue;
    }
    const ValueReport& value = report.values[static_cast<size_t>(port)];
    text += value.name;
    if (value.layout != Layout::kNative) text += fmt::format(" {}", LayoutName(value.layout));
    if (!value.content.empty()) text += " #" + value.content.substr(0, kContentDigits);
  }
  return text;
}

std::string ShapedNames(const PlanReport& report, const std::vector<int>& ports) {
  std::string text;
  for (const int port : ports) {
    if (port < 0) continue;
    const ValueReport& value = report.values[static_cast<size_t>(port)];
    text += fmt::format(", {} {}{}", value.name, DTypeName(value.dtype),
                        value.shape ? ToString(*value.shape) : value.extents);
    if (value.layout != Layout::kNative) text += fmt::format(" {}", LayoutName(value.layout));
  }
  return text;
}

// What is compared of a task but for its bodies, in a line.
std::string LineOf(const PlanReport& report, const TaskReport& task) {
  std::string line = fmt::format("{}: {}", task.name, KernelText(task));
  for (const std::string& attribute : task.attributes) line += " " + attribute;
  line += ShapedNames(report, task.outputs);
  if (!task.inputs.empty()) line += " from " + Names(report, task.inputs);
  for (const std::string& body : task.body_names) line += ", body " + body;
  return line;
}

// Every line of `text`, which ends in a newline, further to the right.
std::string Indented(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t end = text.find('\n') + 1;
    result += "    ";
    result += text.substr(0, end);
    text.remove_prefix(end);
  }
  return result;
}

std::string StepsDiff(const PlanReport& before, const PlanReport& after);

// Bodies of the same name.
std::string BodiesDiff(const TaskReport& before, const TaskReport& after) {
  std::string text;
  for (size_t i = 0; i < std::min(before.bodies.size(), after.bodies.size()); ++i) {
    if (before.body_names[i] != after.body_names[i]) continue;
    const std::string diff = StepsDiff(before.bodies[i], after.bodies[i]);
    if (diff.empty()) continue;
    text += fmt::format("  body {} of {}\n", after.body_names[i], after.name) + Indented(diff);
  }
  return text;
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
    changed[key] += BodiesDiff(*old_task->second, task);
  }
  std::string text = behind[""];
  for (const TaskReport& task : before.tasks) {
    const std::string key = KeyOf(before, task);
    if (!common.contains(key)) text += "- " + LineOf(before, task) + "\n";
    text += changed[key] + behind[key];
  }
  return text;
}

std::string PortsDiff(std::string_view what, const std::string& before, const std::string& after) {
  if (before == after) return "";
  return fmt::format("- {0}: {1}\n+ {0}: {2}\n", what, before, after);
}

// Inputs, tasks and outputs.
std::string StepsDiff(const PlanReport& before, const PlanReport& after) {
  return PortsDiff("inputs", Names(before, before.inputs), Names(after, after.inputs)) +
         TasksDiff(before, after) +
         PortsDiff("outputs", Names(before, before.outputs), Names(after, after.outputs));
}

std::string DeclinesDiff(const PlanReport& before, const PlanReport& after) {
  std::set<std::string> old_lines, new_lines;
  for (const Decline& decline : before.declines) old_lines.insert(ToText(decline));
  for (const Decline& decline : after.declines) new_lines.insert(ToText(decline));
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
  compare("folded nodes", before.folded_nodes.size(), after.folded_nodes.size());
  if (JoinText(before) != JoinText(after)) {
    text += fmt::format("- requests {}\n+ requests {}\n", JoinText(before), JoinText(after));
  }
  text += StepsDiff(before, after) + DeclinesDiff(before, after);
  return text.empty() ? "the plans are alike\n" : text;
}

}  // namespace tandem::cli
