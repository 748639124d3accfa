#include "engine/runtime/tensor_env.h"

#include "engine/base/check.h"
#include "engine/ops/native_copy.h"
#include "engine/runtime/task_context.h"

namespace tandem::runtime {
namespace {

using plan::ValueIndex;
using std::chrono::steady_clock;

constexpr int64_t kMaxContent = 65536;  // elements of integer tensors that shapes may depend on

// Now, where the run is profiled.
steady_clock::time_point TimeOf(const RunValues& values) {
  return values.profiled() ? steady_clock::now() : steady_clock::time_point();
}

// Facts of a value that exists: its shape, and its content where a shape may depend on it.
ops::ValueFacts FactsOfRun(const RunValues& values, ValueIndex value) {
  const TensorView& view = values.view(value);
  ops::ValueFacts facts;
  facts.dtype = view.dtype();
  facts.dims = graph::ToDims(view.shape());
  const bool small = view.shape().rank() <= 1 && view.elements() <= kMaxContent;
  if (small && view.layout() == Layout::kNative && view.dtype() != DType::kString) {
    facts = ops::FactsOf(Tensor::Share(nullptr, view.dtype(), view.shape(), view.raw()));
  }
  return facts;
}

// Shapes of a task's outputs from the tensors it reads; outputs whose size the step itself decides
// are left out.
StatusOr<std::vector<std::optional<Shape>>> OutputShapes(const RunValues& values,
                                                         const plan::Task& task) {
  std::vector<ops::ValueFacts> facts(task.inputs.size());
  std::vector<const ops::ValueFacts*> inputs;
  for (size_t port = 0; port < task.inputs.size(); ++port) {
    const ValueIndex value = task.inputs[port];
    if (value == plan::kOmitted) {
      inputs.push_back(nullptr);
      continue;
    }
    if (task.packed[port]) {
      const plan::PlanValue& weight = values.plan().values[static_cast<size_t>(value)];
      facts[port].dtype = weight.dtype;
      facts[port].dims = weight.dims;
    } else {
      facts[port] = FactsOfRun(values, value);
    }
    inputs.push_back(&facts[port]);
  }
  ops::InferContext context(task.node, inputs);
  RETURN_IF_ERROR(ops::OpOf(task.node).Infer(context));
  std::vector<std::optional<Shape>> shapes;
  for (const ops::ValueFacts& result : context.results()) shapes.push_back(result.shape());
  return shapes;
}

// Runs a task whose shapes appear only now, with memory of its own. Bodies tell the shapes of their
// results themselves.
Status RunDynamic(RunValues& values, const plan::Task& task, const RunScope& scope) {
  std::vector<std::optional<Shape>> shapes(task.outputs.size());
  if (task.bodies.empty()) {
    ASSIGN_OR_RETURN(shapes, OutputShapes(values, task));
  }
  if (task.step == nullptr) {
    CHECK(shapes[0].has_value(), "a view of a known tensor has a known shape");
    values.ShareDynamic(task.outputs[0], task.inputs[0], *shapes[0]);
    return absl::OkStatus();
  }
  std::vector<Shape> inputs;
  for (const ValueIndex value : task.inputs) {
    inputs.push_back(value == plan::kOmitted ? Shape() : values.view(value).shape());
  }
  std::vector<Shape> outputs;
  for (size_t port = 0; port < task.outputs.size(); ++port) {
    outputs.push_back(shapes[port].value_or(Shape()));
    const ValueIndex value = task.outputs[port];
    if (value == plan::kOmitted || !shapes[port]) continue;
    const plan::ValuePlace& place = values.shape_plan().values[static_cast<size_t>(value)];
    if (place.storage != plan::Storage::kDynamic) continue;
    RETURN_IF_ERROR(values.Allocate(value, *shapes[port]).status());
  }
  const ops::StepShapes step_shapes{inputs, outputs, scope.parallel.threads()};
  const size_t scratch_bytes = task.step->ScratchBytes(step_shapes);
  RETURN_IF_ERROR(values.budget().Take(scratch_bytes));
  ASSIGN_OR_RETURN(Buffer scratch, Buffer::Allocate(scratch_bytes));
  TaskContext context(values, task, scratch.bytes(), scope);
  return task.step->Run(context);
}

}  // namespace

Status TensorEnv::Run() const {
  if (!values_.resolved_) values_.ResolveViews();
  const plan::Block& block = values_.plan().schedule.blocks[static_cast<size_t>(block_)];
  auto since = TimeOf(values_);
  for (const plan::ScheduleItem& item : block.items) {
    if (item.is_fork()) {
      RETURN_IF_ERROR(RunFork(item.branches));
      since = TimeOf(values_);
    } else {
      RETURN_IF_ERROR(RunTask(item.task, since));
    }
  }
  return block_ == 0 ? values_.CopyOutputs() : absl::OkStatus();
}

Status TensorEnv::RunFork(std::span<const int> branches) const {
  const auto count = static_cast<int64_t>(branches.size());
  std::vector<Status> results(branches.size());
  // Who observes is told one value after the other.
  const int64_t grain = scope_.observe ? count : 1;
  scope_.parallel.For(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto branch = static_cast<size_t>(i);
      results[branch] = Fork(branches[branch]).Run();
    }
  });
  for (const Status& result : results) RETURN_IF_ERROR(result);
  return absl::OkStatus();
}

Status TensorEnv::RunTask(plan::TaskIndex index, steady_clock::time_point& since) const {
  const plan::Task& task = values_.plan().tasks[static_cast<size_t>(index)];
  const plan::TaskPlace& place = values_.shape_plan().tasks[static_cast<size_t>(index)];
  if (place.mode != plan::TaskMode::kSkip) {
    if (scope_.is_stopped()) return Cancelled("the run was stopped before {}", task.name);
    RETURN_IF_ERROR(RunStep(index));
    const auto now = TimeOf(values_);
    if (values_.profiled()) values_.SetTime(index, now - since);
    since = now;
  }
  if (!scope_.observe) return absl::OkStatus();
  RETURN_IF_ERROR(Observe(index));
  since = TimeOf(values_);
  return absl::OkStatus();
}

Status TensorEnv::Observe(plan::TaskIndex index) const {
  for (const ValueIndex value : values_.plan().tasks[static_cast<size_t>(index)].outputs) {
    if (value == plan::kOmitted) continue;
    const auto v = static_cast<size_t>(value);
    if (values_.shape_plan().values[v].storage == plan::Storage::kUnused) continue;
    ASSIGN_OR_RETURN(const Tensor tensor, ops::NativeCopy(values_.view(value), scope_.parallel));
    scope_.observe(values_.plan().values[v].name, tensor);
  }
  return absl::OkStatus();
}

Status TensorEnv::RunStep(plan::TaskIndex index) const {
  const plan::Task& task = values_.plan().tasks[static_cast<size_t>(index)];
  const plan::TaskPlace& place = values_.shape_plan().tasks[static_cast<size_t>(index)];
  if (place.mode == plan::TaskMode::kDynamic) {
    return Annotate(RunDynamic(values_, task, scope_), task.name);
  }
  TaskContext context(values_, task,
                      values_.arena().subspan(place.scratch_offset, place.scratch_bytes), scope_);
  return Annotate(task.step->Run(context), task.name);
}

}  // namespace tandem::runtime
