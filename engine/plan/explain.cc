// A plan as a report, and a report as text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "engine/graph/dump.h"
#include "engine/plan/shape_plan.h"
#include "engine/work.h"

namespace tandem {
namespace plan {
namespace {

std::string MemoryOf(const Plan& plan, const ShapePlan& shape_plan, size_t v) {
  const auto quoted = [&](ValueIndex other) {
    return fmt::format("'{}'", plan.values[static_cast<size_t>(other)].name);
  };
  const ValuePlace& place = shape_plan.values[v];
  switch (place.storage) {
    case Storage::kInput:
      return "input";
    case Storage::kConstant:
      return "constant";
    case Storage::kKnown:
      return "known";
    case Storage::kArena:
      return "arena";
    case Storage::kOutput:
      return "output";
    case Storage::kView:
      return "view of " + quoted(plan.values[v].view_of);
    case Storage::kShared:
      return "in place of " + quoted(place.in_place_of);
    case Storage::kDynamic:
      return "allocated while running";
    case Storage::kUnused:
      return plan.values[v].def < 0 ? "packed" : "not read";
  }
  return "";
}

ValueReport ReportValue(const PlanValue& value) {
  ValueReport report{.name = value.name, .dtype = value.dtype, .layout = value.layout};
  report.extents = value.dims ? graph::ToString(*value.dims) : "[...]";
  if (value.constant != nullptr) report.memory = "constant";
  if (value.content) report.content = ToString(*value.content);
  return report;
}

void AddShape(const Plan& plan, const ShapePlan& shape_plan, size_t v, ValueReport& report) {
  const ValuePlace& place = shape_plan.values[v];
  report.memory = MemoryOf(plan, shape_plan, v);
  if (place.storage == Storage::kDynamic) return;
  report.shape = place.shape;
  const bool own = place.storage != Storage::kView && place.storage != Storage::kShared &&
                   place.storage != Storage::kUnused;
  if (own) report.bytes = DTypeBytes(report.dtype, place.shape.elements());
}

std::string_view ModeName(TaskMode mode) {
  switch (mode) {
    case TaskMode::kRun:
      return "run";
    case TaskMode::kSkip:
      return "once";
    case TaskMode::kDynamic:
      return "sized";
  }
  return "";
}

// What an execution with the extents of `shape_plan` costs.
void AddCost(const Plan& plan, const ShapePlan& shape_plan, size_t t, TaskReport& report) {
  const Task& task = plan.tasks[t];
  if (task.step == nullptr) return;
  const auto shapes_of = [&](const std::vector<ValueIndex>& ports) {
    std::vector<Shape> shapes;
    for (const ValueIndex value : ports) {
      const auto v = static_cast<size_t>(value);
      shapes.push_back(value == kOmitted ? Shape() : shape_plan.values[v].shape);
      const bool open = value != kOmitted && shape_plan.values[v].storage == Storage::kDynamic;
      if (open && report.cost_unknown.empty()) {
        report.cost_unknown =
            fmt::format("the extents of '{}' depend on data", plan.values[v].name);
      }
    }
    return shapes;
  };
  const std::vector<Shape> inputs = shapes_of(task.inputs);
  const std::vector<Shape> outputs = shapes_of(task.outputs);
  if (!task.bodies.empty()) report.cost_unknown = "how often its bodies run depends on data";
  if (!report.cost_unknown.empty()) return;
  const ValueIndex first = task.outputs.empty() ? kOmitted : task.outputs[0];
  const DType dtype =
      first == kOmitted ? DType::kUndefined : plan.values[static_cast<size_t>(first)].dtype;
  const ops::Cost cost = ops::OpOf(task.node).EstimateCost({inputs, outputs, 1}, dtype);
  report.multiply_adds = cost.multiply_adds;
  report.moved_bytes = cost.bytes;
}

// An attribute's value, and which content its tensors have.
std::string ValueOf(const graph::Attribute& attribute) {
  std::string text = graph::ToString(attribute);
  if (const auto* tensor = attribute.get_if<graph::ConstantRef>()) {
    text += " of " + ToString((*tensor)->hash());
  } else if (const auto* tensors = attribute.get_if<std::vector<graph::ConstantRef>>()) {
    for (const graph::ConstantRef& tensor : *tensors) text += " of " + ToString(tensor->hash());
  }
  return text;
}

// Bodies are left out: they are plans of their own.
void AddAttributes(const graph::Attributes& attributes, std::string_view prefix,
                   std::vector<std::string>& texts) {
  for (const auto& [name, attribute] : attributes) {
    const bool is_body = attribute.holds<std::shared_ptr<const graph::Graph>>() ||
                         attribute.holds<std::vector<std::shared_ptr<const graph::Graph>>>();
    if (!is_body) texts.push_back(fmt::format("{}{}={}", prefix, name, ValueOf(attribute)));
  }
}

std::vector<std::string> AttributesOf(const graph::Node& node) {
  std::vector<std::string> texts;
  AddAttributes(node.attributes, "", texts);
  for (const auto* stages : {&node.prologue, &node.epilogue}) {
    for (const graph::EpilogueStage& stage : *stages) {
      AddAttributes(stage.attributes, stage.op + ".", texts);
      if (stage.operand < 0) continue;
      texts.push_back(fmt::format("{}.operand={}{}", stage.op, stage.operand,
                                  stage.operand_is_first ? " first" : ""));
    }
  }
  return texts;
}

TaskReport ReportTask(const Task& task) {
  TaskReport report{.name = task.name, .kernel = task.kernel};
  for (const graph::EpilogueStage& stage : task.node.prologue) report.prologue.push_back(stage.op);
  for (const graph::EpilogueStage& stage : task.node.epilogue) report.epilogue.push_back(stage.op);
  report.attributes = AttributesOf(task.node);
  report.inputs.assign(task.inputs.begin(), task.inputs.end());
  report.packed = task.packed;
  report.outputs.assign(task.outputs.begin(), task.outputs.end());
  report.estimated_seconds = task.seconds;
  const std::vector<graph::Body> bodies = graph::BodiesOf(task.node);
  for (size_t i = 0; i < task.bodies.size(); ++i) {
    report.body_names.push_back(bodies[i].attribute);
    report.bodies.push_back(Report(*task.bodies[i]));
  }
  return report;
}

}  // namespace

PlanReport Report(const Plan& plan) {
  PlanReport report;
  report.inputs.assign(plan.whole.inputs.begin(), plan.whole.inputs.end());
  report.outputs.assign(plan.whole.outputs.begin(), plan.whole.outputs.end());
  for (const PlanValue& value : plan.values) report.values.push_back(ReportValue(value));
  for (const Task& task : plan.tasks) report.tasks.push_back(ReportTask(task));
  for (const Block& block : plan.schedule.blocks) {
    std::vector<ScheduleReport>& items = report.blocks.emplace_back();
    for (const ScheduleItem& item : block.items) items.push_back({item.task, item.branches});
  }
  report.forks = plan.schedule.forks();
  for (const ops::PackRef& pack : plan.packs) {
    report.packs.push_back({pack->key, pack->buffer.size()});
  }
  report.passes = plan.optimized.passes;
  report.declines = plan.optimized.declines;
  std::ranges::copy(plan.declines, std::back_inserter(report.declines));
  report.folded_nodes = plan.optimized.folded.nodes;
  report.folded_bytes = plan.optimized.folded.made_bytes;
  report.joinable = plan.batch.joinable || plan.batch.fixed_at_one;
  if (!report.joinable) report.not_joinable_reason = plan.batch.reason;
  report.batch_fixed_at_one = plan.batch.fixed_at_one;
  if (plan.cut) {
    report.merged.assign(plan.cut->front.outputs.begin(), plan.cut->front.outputs.end());
    for (size_t t = 0; t < plan.tasks.size(); ++t)
      report.tasks[t].in_parts = plan.cut->front.runs[t];
  }
  report.constant_bytes = plan.constant_bytes;
  report.pack_bytes = plan.pack_bytes;
  return report;
}

PlanReport Report(const Plan& plan, const ShapePlan& shape_plan) {
  PlanReport report = Report(plan);
  for (size_t v = 0; v < plan.values.size(); ++v) AddShape(plan, shape_plan, v, report.values[v]);
  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    report.tasks[t].mode = ModeName(shape_plan.tasks[t].mode);
    report.tasks[t].scratch_bytes = shape_plan.tasks[t].scratch_bytes;
    AddCost(plan, shape_plan, t, report.tasks[t]);
  }
  report.arena_bytes = shape_plan.arena_bytes;
  return report;
}

}  // namespace plan

namespace {

std::string ValueText(const PlanReport& report, int index) {
  if (index < 0) return "-";
  const ValueReport& value = report.values[static_cast<size_t>(index)];
  std::string text = fmt::format("'{}' {}{}", value.name, DTypeName(value.dtype), value.extents);
  if (value.shape && ToString(*value.shape) != value.extents) {
    text += " = " + ToString(*value.shape);
  }
  if (value.layout != Layout::kNative) text += fmt::format(" {}", LayoutName(value.layout));
  if (!value.memory.empty()) text += ", " + value.memory;
  if (value.bytes > 0) text += fmt::format(", {} bytes", value.bytes);
  return text;
}

// Every line of `text`, which ends in a newline, further to the right.
std::string Indented(const std::string& text) {
  std::string result;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin) + 1;
    result += "      " + text.substr(begin, end - begin);
    begin = end;
  }
  return result;
}

std::string StepsText(const PlanReport& report);

std::string TaskText(const PlanReport& report, size_t index) {
  const TaskReport& task = report.tasks[index];
  std::string text = fmt::format("task {} {}: {}", index, task.name, KernelText(task));
  if (!task.mode.empty() && task.mode != "run") text += fmt::format(" ({})", task.mode);
  if (task.in_parts) text += ", in parts of a batch";
  if (task.scratch_bytes > 0) text += fmt::format(", {} bytes of scratch", task.scratch_bytes);
  if (task.multiply_adds.value_or(0) > 0) {
    text += fmt::format(", {:.0f} multiply-adds", *task.multiply_adds);
  }
  if (task.moved_bytes) text += fmt::format(", {:.0f} bytes moved", *task.moved_bytes);
  if (!task.cost_unknown.empty()) text += ", cost unknown: " + task.cost_unknown;
  text += "\n";
  for (const int input : task.inputs) {
    text += fmt::format("    in  {}\n", ValueText(report, input));
  }
  for (const int output : task.outputs) {
    text += fmt::format("    out {}\n", ValueText(report, output));
  }
  for (size_t i = 0; i < task.bodies.size(); ++i) {
    text += fmt::format("    body {}\n", task.body_names[i]) + Indented(StepsText(task.bodies[i]));
  }
  return text;
}

std::string BlockText(const PlanReport& report, int block, size_t depth) {
  const std::string indent(depth * 2, ' ');
  std::string text;
  for (const ScheduleReport& item : report.blocks[static_cast<size_t>(block)]) {
    if (item.branches.empty()) {
      text += fmt::format("{}task {}\n", indent, item.task);
      continue;
    }
    text += fmt::format("{}fork of {} towers\n", indent, item.branches.size());
    for (size_t i = 0; i < item.branches.size(); ++i) {
      text += fmt::format("{}tower {}\n", indent, i);
      text += BlockText(report, item.branches[i], depth + 1);
    }
  }
  return text;
}

// The tasks and, where there are forks, the schedule.
std::string StepsText(const PlanReport& report) {
  std::string text;
  for (size_t task = 0; task < report.tasks.size(); ++task) text += TaskText(report, task);
  if (report.forks > 0) text += "schedule\n" + BlockText(report, 0, 1);
  return text;
}

// How many nodes were folded, and the first of them.
std::string FoldedText(const PlanReport& report) {
  constexpr size_t kNamed = 3;
  const std::vector<std::string>& nodes = report.folded_nodes;
  std::string text =
      fmt::format("folded {} nodes into {} bytes", nodes.size(), report.folded_bytes);
  for (size_t i = 0; i < std::min(nodes.size(), kNamed); ++i) {
    text += (i == 0 ? ": " : ", ") + nodes[i];
  }
  return text + (nodes.size() > kNamed ? ", ...\n" : "\n");
}

// How far a batch runs in parts.
std::string CutText(const PlanReport& report) {
  const auto in_parts = std::ranges::count_if(report.tasks, &TaskReport::in_parts);
  std::vector<std::string> merged;
  for (const int value : report.merged) {
    merged.push_back(fmt::format("'{}'", report.values[static_cast<size_t>(value)].name));
  }
  std::string text = fmt::format("a batch runs {} of {} tasks in parts, up to {}", in_parts,
                                 report.tasks.size(), fmt::join(merged, ", "));
  if (report.parts > 1) text += fmt::format("; here in {}", report.parts);
  return text + "\n";
}

}  // namespace

std::string KernelText(const TaskReport& task) {
  std::string text = task.kernel;
  for (const std::string& stage : task.prologue) text += " " + stage + "+";
  for (const std::string& stage : task.epilogue) text += " +" + stage;
  return text;
}

Work WorkOf(const PlanReport& report) {
  Work work;
  for (const TaskReport& task : report.tasks) {
    work.multiply_adds += task.multiply_adds.value_or(0);
    work.moved_bytes += task.moved_bytes.value_or(0);
    work.unknown_tasks += task.cost_unknown.empty() ? 0 : 1;
  }
  return work;
}

std::string ToText(const Work& work) {
  std::string text =
      fmt::format("{:.0f} multiply-adds, {:.0f} bytes moved", work.multiply_adds, work.moved_bytes);
  if (work.unknown_tasks > 0) {
    text += fmt::format(", and {} tasks of unknown cost", work.unknown_tasks);
  }
  return text;
}

std::string JoinText(const PlanReport& report) {
  if (!report.joinable) return "do not join: " + report.not_joinable_reason;
  if (!report.batch_fixed_at_one) return "join along axis 0";
  return "run item by item: the model fixes its batch at 1";
}

std::string ToText(const Decline& decline) {
  std::string text = fmt::format("declined {}: {}, {}: {}", decline.pass, decline.node,
                                 decline.role, decline.rule);
  if (!decline.numbers.empty()) text += fmt::format(" ({})", decline.numbers);
  return text;
}

std::string ToText(const PlanReport& report) {
  std::string text = fmt::format("{} tasks, {} forks\n", report.tasks.size(), report.forks);
  text += fmt::format("weights {} bytes, {} packs of {} bytes", report.constant_bytes,
                      report.packs.size(), report.pack_bytes);
  const bool apart = report.parts > 1 && report.merged.empty();
  const std::string parts = apart ? fmt::format(" for each of {} parts\n", report.parts) : "\n";
  if (report.arena_bytes) {
    text += fmt::format(", arena {} bytes{}work {}", *report.arena_bytes, parts,
                        ToText(WorkOf(report)));
  }
  text += parts;
  text += FoldedText(report) + "requests " + JoinText(report) + "\n";
  if (!report.merged.empty()) text += CutText(report);
  text += StepsText(report);
  for (const PackReport& pack : report.packs) {
    text += fmt::format("pack {}: {} bytes\n", pack.name, pack.bytes);
  }
  for (const PassReport& pass : report.passes) {
    text += fmt::format("pass {}: {} changes, {} us\n", pass.pass, pass.changes,
                        std::chrono::duration_cast<std::chrono::microseconds>(pass.time).count());
  }
  for (const Decline& decline : report.declines) {
    text += ToText(decline) + "\n";
  }
  return text;
}

}  // namespace tandem
