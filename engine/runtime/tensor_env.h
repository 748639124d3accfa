// The tensors of one run. Everything that changes while a plan runs lives here; the plan, its packs
// and its constants are shared and read-only. fork() makes the environment of one branch: it shares
// the parent's values by reference and owns the scratch and the values its own tasks define, for
// which the shape plan has given every branch a part of the arena of its own.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "engine/base/parallel.h"
#include "engine/plan/shape_plan.h"
#include "engine/runtime/memory_budget.h"

namespace tandem::runtime {

// Time of one task since the one before it in its environment, and who ran it.
struct TaskRun {
  std::chrono::nanoseconds time{0};
  absl::InlinedVector<std::thread::id, 1> threads;
};
using TaskRuns = std::vector<TaskRun>;

// Told what a task computed.
using Observer = std::function<void(const std::string& value, const Tensor& tensor)>;

// What all environments of one run share. Not thread-safe but for values of different tasks.
class RunValues {
 public:
  // `arena` holds shape_plan.arena_bytes; `budget` bounds what is allocated beside it.
  RunValues(const plan::Plan& plan, const plan::ShapePlan& shape_plan, std::span<std::byte> arena,
            MemoryBudget& budget);

  // Before the run: the caller's tensor for input `i` of the stage, and memory for its output `i`
  // of the shape plan's shape (not for outputs whose size depends on data).
  void BindInput(size_t i, const TensorView& view);
  void BindOutput(size_t i, const MutableTensorView& view);

  const plan::Plan& plan() const { return plan_; }
  const plan::ShapePlan& shape_plan() const { return shape_plan_; }
  const TensorView& view(plan::ValueIndex value) const { return At(value); }
  const MutableTensorView& mutable_view(plan::ValueIndex value) const { return At(value); }
  std::span<std::byte> arena() const { return arena_; }
  MemoryBudget& budget() const { return budget_; }

  // Values whose size depends on data, or that are views of such.
  StatusOr<MutableTensorView> Allocate(plan::ValueIndex value, const Shape& shape);
  void ShareDynamic(plan::ValueIndex value, plan::ValueIndex source, const Shape& shape);
  // The value is `tensor`, with its memory.
  void TakeDynamic(plan::ValueIndex value, const Tensor& tensor);
  // The tensor of an output that is dynamic.
  const Tensor& dynamic(plan::ValueIndex value) const {
    return dynamic_[static_cast<size_t>(value)];
  }

  // From now on every task leaves its time.
  void StartProfile() { runs_.resize(plan_.tasks.size()); }
  bool profiled() const { return !runs_.empty(); }
  void SetTime(plan::TaskIndex task, std::chrono::nanoseconds time) {
    runs_[static_cast<size_t>(task)] = {time, {std::this_thread::get_id()}};
  }
  // By task; empty when the run was not profiled.
  TaskRuns TakeTaskRuns() { return std::move(runs_); }

  // After the run: copies outputs whose value lies in an input, a constant or another output.
  Status CopyOutputs();

 private:
  const MutableTensorView& At(plan::ValueIndex value) const {
    return views_[static_cast<size_t>(value)];
  }
  void SetMemory(plan::ValueIndex value, const void* data);
  const void* MemoryOf(plan::ValueIndex value) const;
  void ResolveViews();

  const plan::Plan& plan_;
  const plan::ShapePlan& shape_plan_;
  std::span<std::byte> arena_;
  MemoryBudget& budget_;
  std::vector<MutableTensorView> views_;    // by plan value
  std::vector<MutableTensorView> outputs_;  // by output of the stage, as bound
  std::vector<Tensor> dynamic_;             // by plan value
  TaskRuns runs_;                           // by task
  bool resolved_ = false;

  friend class TensorEnv;
};

// Runs the bodies of control flow, each on an environment of its own.
class BodyRunner {
 public:
  virtual ~BodyRunner() = default;

  struct Call {
    plan::TaskIndex task = -1;
    int body = 0;                    // as Task::bodies
    std::vector<TensorView> inputs;  // all of the body's: by reference
    std::vector<Tensor> memory;      // by output: may be written into, where dtype and shape fit
  };
  // Outputs of the body; none lies in the memory of an input.
  virtual StatusOr<std::vector<Tensor>> RunBody(Call call, MemoryBudget budget,
                                                const std::function<bool()>& stopped) const = 0;
};

// What all environments of one run compute with.
struct RunScope {
  const Parallel& parallel;
  const std::function<bool()>& stopped;  // may be empty
  const BodyRunner& bodies;
  const Observer& observe;  // may be empty; without it, branches may run in parallel

  bool is_stopped() const { return stopped && stopped(); }
};

class TensorEnv {
 public:
  // The environment in which a run starts.
  TensorEnv(RunValues& values, const RunScope& scope) : TensorEnv(values, scope, 0) {}

  // Runs everything; Cancelled when `stopped` answered true between tasks. Errors that depend on
  // data carry the task they came from.
  Status Run() const;

 private:
  TensorEnv(RunValues& values, const RunScope& scope, int block)
      : values_(values), scope_(scope), block_(block) {}

  TensorEnv Fork(int block) const { return {values_, scope_, block}; }
  Status RunFork(std::span<const int> branches) const;
  Status RunTask(plan::TaskIndex index, std::chrono::steady_clock::time_point& since) const;
  Status RunStep(plan::TaskIndex index) const;
  Status Observe(plan::TaskIndex index) const;

  RunValues& values_;
  const RunScope& scope_;
  const int block_;
};

}  // namespace tandem::runtime
