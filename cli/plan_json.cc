// A plan as JSON.
#include "cli/json.h"
#include "cli/plan_formats.h"
#include "engine/work.h"

namespace tandem::cli {
namespace {

void AddBytes(JsonWriter& json, std::string_view key, size_t bytes) {
  json.Key(key).Number(static_cast<int64_t>(bytes));
}

void AddIfKnown(JsonWriter& json, std::string_view key, const std::optional<double>& number) {
  json.Key(key);
  if (number) {
    json.Real(*number);
  } else {
    json.Null();
  }
}

void AddValue(JsonWriter& json, const ValueReport& value) {
  json.Open('{').Key("name").Text(value.name).Key("dtype").Text(DTypeName(value.dtype));
  json.Key("extents").Text(value.extents).Key("shape");
  if (value.shape) {
    json.Open('[');
    for (const int64_t extent : value.shape->dims()) json.Number(extent);
    json.Close(']');
  } else {
    json.Null();
  }
  json.Key("layout").Text(LayoutName(value.layout)).Key("memory").Text(value.memory);
  json.Key("content").Text(value.content);
  AddBytes(json, "bytes", value.bytes);
  json.Close('}');
}

void AddPorts(JsonWriter& json, std::string_view key, const std::vector<int>& values) {
  json.Key(key).Open('[');
  for (const int value : values) {
    if (value < 0) {
      json.Null();
    } else {
      json.Number(value);
    }
  }
  json.Close(']');
}

void AddSteps(JsonWriter& json, const PlanReport& report);

void AddTask(JsonWriter& json, const TaskReport& task) {
  json.Open('{').Key("name").Text(task.name).Key("kernel").Text(task.kernel);
  json.Key("prologue").Open('[');
  for (const std::string& stage : task.prologue) json.Text(stage);
  json.Close(']');
  json.Key("epilogue").Open('[');
  for (const std::string& stage : task.epilogue) json.Text(stage);
  json.Close(']').Key("attributes").Open('[');
  for (const std::string& attribute : task.attributes) json.Text(attribute);
  json.Close(']');
  AddPorts(json, "inputs", task.inputs);
  json.Key("packed").Open('[');
  for (const bool packed : task.packed) json.Bool(packed);
  json.Close(']');
  AddPorts(json, "outputs", task.outputs);
  json.Key("mode").Text(task.mode);
  AddBytes(json, "scratch_bytes", task.scratch_bytes);
  json.Key("in_parts").Bool(task.in_parts);
  json.Key("estimated_seconds").Real(task.estimated_seconds);
  AddIfKnown(json, "multiply_adds", task.multiply_adds);
  AddIfKnown(json, "moved_bytes", task.moved_bytes);
  json.Key("cost_unknown").Text(task.cost_unknown);
  json.Key("bodies").Open('[');
  for (size_t i = 0; i < task.bodies.size(); ++i) {
    json.Open('{').Key("name").Text(task.body_names[i]);
    AddSteps(json, task.bodies[i]);
    json.Close('}');
  }
  json.Close(']').Close('}');
}

void AddSchedule(JsonWriter& json, const PlanReport& report, int block) {
  json.Open('[');
  for (const ScheduleReport& item : report.blocks[static_cast<size_t>(block)]) {
    if (item.branches.empty()) {
      json.Number(item.task);
      continue;
    }
    json.Open('[');
    for (const int branch : item.branches) AddSchedule(json, report, branch);
    json.Close(']');
  }
  json.Close(']');
}

void AddSteps(JsonWriter& json, const PlanReport& report) {
  AddPorts(json, "inputs", report.inputs);
  AddPorts(json, "outputs", report.outputs);
  json.Key("values").Open('[');
  for (const ValueReport& value : report.values) AddValue(json, value);
  json.Close(']').Key("tasks").Open('[');
  for (const TaskReport& task : report.tasks) AddTask(json, task);
  json.Close(']').Key("schedule");
  AddSchedule(json, report, 0);
}

void AddTotals(JsonWriter& json, const PlanReport& report) {
  AddBytes(json, "constant_bytes", report.constant_bytes);
  AddBytes(json, "pack_bytes", report.pack_bytes);
  AddBytes(json, "arena_bytes", report.arena_bytes.value_or(0));
  const Work work = WorkOf(report);
  json.Key("multiply_adds").Real(work.multiply_adds).Key("moved_bytes").Real(work.moved_bytes);
  json.Key("tasks_of_unknown_cost").Number(work.unknown_tasks);
  json.Key("folded_nodes").Number(static_cast<int64_t>(report.folded_nodes.size()));
  json.Key("folded").Open('[');
  for (const std::string& node : report.folded_nodes) json.Text(node);
  json.Close(']');
  AddBytes(json, "folded_bytes", report.folded_bytes);
  json.Key("parts").Number(report.parts).Key("forks").Number(report.forks);
  json.Key("joinable").Bool(report.joinable);
  json.Key("not_joinable_reason").Text(report.not_joinable_reason);
  json.Key("batch_fixed_at_one").Bool(report.batch_fixed_at_one);
  AddPorts(json, "merged", report.merged);
}

}  // namespace

std::string ToJson(const PlanReport& report) {
  JsonWriter json;
  json.Open('{');
  AddTotals(json, report);
  AddSteps(json, report);
  json.Key("packs").Open('[');
  for (const PackReport& pack : report.packs) {
    json.Open('{').Key("name").Text(pack.name);
    AddBytes(json, "bytes", pack.bytes);
    json.Close('}');
  }
  json.Close(']').Key("passes").Open('[');
  for (const PassReport& pass : report.passes) {
    json.Open('{').Key("name").Text(pass.pass).Key("changes").Number(pass.changes);
    json.Key("seconds").Real(std::chrono::duration<double>(pass.time).count()).Close('}');
  }
  json.Close(']').Key("declines").Open('[');
  for (const Decline& decline : report.declines) {
    json.Open('{').Key("pass").Text(decline.pass).Key("node").Text(decline.node);
    json.Key("role").Text(decline.role).Key("rule").Text(decline.rule);
    json.Key("numbers").Text(decline.numbers).Close('}');
  }
  json.Close(']').Close('}');
  return json.text() + "\n";
}

}  // namespace tandem::cli
