#include <fmt/format.h>

#include "engine/plan/plan.h"

namespace tandem::plan {
namespace {

std::string ValueText(const Plan& plan, ValueIndex index) {
  if (index == kOmitted) return "-";
  const PlanValue& value = plan.values[static_cast<size_t>(index)];
  std::string text = fmt::format("'{}' {}{}", value.name, DTypeName(value.dtype),
                                 value.dims ? graph::ToString(*value.dims) : std::string("[...]"));
  if (value.layout != Layout::kNative) text += fmt::format(" {}", LayoutName(value.layout));
  if (value.constant != nullptr) text += " constant";
  return text;
}

std::string TaskText(const Plan& plan, TaskIndex index) {
  const Task& task = plan.tasks[static_cast<size_t>(index)];
  std::string text = fmt::format("task {} {}: {}", index, task.name, task.kernel);
  for (const graph::EpilogueStage& stage : task.node.epilogue) text += " +" + stage.op;
  text += "\n";
  for (size_t port = 0; port < task.inputs.size(); ++port) {
    text += fmt::format("    in  {}{}\n", ValueText(plan, task.inputs[port]),
                        task.packed[port] ? " packed" : "");
  }
  for (const ValueIndex output : task.outputs) {
    text += fmt::format("    out {}\n", ValueText(plan, output));
  }
  return text;
}

void AppendBlock(const Plan& plan, int block, int depth, std::string& text) {
  const std::string indent(static_cast<size_t>(depth) * 2, ' ');
  for (const ScheduleItem& item : plan.schedule.blocks[static_cast<size_t>(block)].items) {
    if (!item.is_fork()) {
      text += fmt::format("{}task {}\n", indent, item.task);
      continue;
    }
    text += fmt::format("{}fork of {} towers\n", indent, item.branches.size());
    for (size_t i = 0; i < item.branches.size(); ++i) {
      text += fmt::format("{}tower {}\n", indent, i);
      AppendBlock(plan, item.branches[i], depth + 1, text);
    }
  }
}

}  // namespace

std::string Explain(const Plan& plan) {
  std::string text = fmt::format(
      "{} tasks, {} forks, {} bytes of constants, {} packs of {} bytes\n", plan.tasks.size(),
      plan.schedule.forks(), plan.constant_bytes, plan.packs.size(), plan.pack_bytes);
  text += plan.batch.joinable ? "requests join along axis 0\n"
                              : fmt::format("requests do not join: {}\n", plan.batch.reason);
  for (size_t task = 0; task < plan.tasks.size(); ++task) {
    text += TaskText(plan, static_cast<TaskIndex>(task));
  }
  text += "schedule\n";
  AppendBlock(plan, 0, 1, text);
  for (const optimizer::PassReport& pass : plan.optimized.passes) {
    text += fmt::format("pass {}: {} changes, {} us\n", pass.pass, pass.changes,
                        std::chrono::duration_cast<std::chrono::microseconds>(pass.time).count());
  }
  for (const optimizer::Decline& decline : plan.optimized.declines) {
    text += fmt::format("declined {}: {}, {}: {} ({})\n", decline.pass, decline.node, decline.role,
                        decline.rule, decline.numbers);
  }
  return text;
}

}  // namespace tandem::plan
