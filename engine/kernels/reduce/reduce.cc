#include "engine/kernels/reduce/reduce.h"

#include <algorithm>

namespace tandem::kernels {

ReducePlan MakeReducePlan(std::span<const int64_t> extents, const std::vector<bool>& reduced) {
  // Neighbouring axes of one kind become one axis.
  struct Group {
    ReduceAxis axis;
    bool reduced;
  };
  absl::InlinedVector<Group, 8> groups;  // innermost first
  ReducePlan plan;
  int64_t stride = 1;
  for (size_t axis = extents.size(); axis-- > 0;) {
    (reduced[axis] ? plan.count : plan.outputs) *= extents[axis];
    if (extents[axis] == 1) continue;
    if (!groups.empty() && groups.back().reduced == reduced[axis]) {
      groups.back().axis.extent *= extents[axis];
    } else {
      groups.push_back({{extents[axis], stride}, reduced[axis]});
    }
    stride *= extents[axis];
  }
  size_t next = 0;
  if (!groups.empty()) {
    (groups[0].reduced ? plan.run : plan.columns) = groups[0].axis.extent;
    next = 1;
  }
  for (size_t i = groups.size(); i-- > next;) {
    (groups[i].reduced ? plan.reduced : plan.kept).push_back(groups[i].axis);
  }
  return plan;
}

ReduceFunction FindReduce(ReduceOp op, DType dtype, Isa isa) {
  if (isa != Isa::kReference && dtype == DType::kFloat) {
    const ReduceFunction function = FindReduceSimd(op, isa);
    if (function != nullptr) return function;
  }
  return FindReduceReference(op, dtype);
}

void RunReduce(ReduceFunction function, const ReducePlan& plan, const void* x, void* y,
               const Parallel& parallel) {
  if (plan.outputs == 0) return;
  const int64_t blocks = (plan.columns + kReduceColumns - 1) / kReduceColumns;
  const int64_t units = plan.outputs / plan.columns * blocks;
  const int64_t work = std::max<int64_t>(1, plan.count) * std::min(plan.columns, kReduceColumns);
  const int64_t grain = GrainOf(kGrainElements, work);
  parallel.For(units, grain, [&](int64_t begin, int64_t end) { function(plan, x, y, begin, end); });
}

}  // namespace tandem::kernels
