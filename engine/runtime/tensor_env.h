// The tensors of one run. Everything that changes while a plan runs lives here; the plan, its packs
// and its constants are shared and read-only. fork() makes the environment of one branch: it shares
// the parent's values by reference and owns the scratch and the values its own tasks define, for
// which the shape plan has given every branch a part of the arena of its own.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/plan/shape_plan.h"

namespace tandem::runtime {

// What all environments of one run share. Not thread-safe but for values of different tasks.
class RunValues {
 public:
  // `arena` holds shape_plan.arena_bytes.
  RunValues(const plan::Plan& plan, const plan::ShapePlan& shape_plan, std::span<std::byte> arena);

  // Before the run: the caller's tensor for plan input `i`, and memory for plan output `i` of the
  // shape plan's shape (not for outputs whose size depends on data).
  void BindInput(size_t i, const TensorView& view);
  void BindOutput(size_t i, const MutableTensorView& view);

  const plan::Plan& plan() const { return plan_; }
  const plan::ShapePlan& shape_plan() const { return shape_plan_; }
  const TensorView& view(plan::ValueIndex value) const { return At(value); }
  const MutableTensorView& mutable_view(plan::ValueIndex value) const { return At(value); }
  std::span<std::byte> arena() const { return arena_; }

  // Values whose size depends on data, or that are views of such.
  StatusOr<MutableTensorView> Allocate(plan::ValueIndex value, const Shape& shape);
  void ShareDynamic(plan::ValueIndex value, plan::ValueIndex source, const Shape& shape);
  // The tensor of plan output `i`, when it is dynamic.
  const Tensor& dynamic(plan::ValueIndex value) const {
    return dynamic_[static_cast<size_t>(value)];
  }

  // After the run: copies outputs whose value lies in an input, a constant or another output.
  void CopyOutputs();

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
  std::vector<MutableTensorView> views_;    // by plan value
  std::vector<MutableTensorView> outputs_;  // by plan output, as bound
  std::vector<Tensor> dynamic_;             // by plan value
  bool resolved_ = false;

  friend class TensorEnv;
};

class TensorEnv {
 public:
  // The environment in which a run starts. `stopped` may be empty.
  TensorEnv(RunValues& values, const Parallel& parallel, const std::function<bool()>& stopped)
      : TensorEnv(values, parallel, stopped, 0) {}

  // Runs everything; Cancelled when `stopped` answered true between tasks. Errors that depend on
  // data carry the task they came from.
  Status Run() const;

 private:
  TensorEnv(RunValues& values, const Parallel& parallel, const std::function<bool()>& stopped,
            int block)
      : values_(values), parallel_(parallel), stopped_(stopped), block_(block) {}

  TensorEnv Fork(int block) const { return {values_, parallel_, stopped_, block}; }
  Status RunFork(std::span<const int> branches) const;
  Status RunTask(plan::TaskIndex index) const;

  RunValues& values_;
  const Parallel& parallel_;
  const std::function<bool()>& stopped_;
  const int block_;
};

}  // namespace tandem::runtime
