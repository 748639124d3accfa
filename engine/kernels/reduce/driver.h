// The loop nest of a reduction, shared by the scalar and the vector kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/kernels/reduce/reduce.h"

namespace tandem::kernels {

// Walks the reduced axes of a plan in row-major order: f(offset of the run or of the first column).
template <typename F>
void ForEachReduced(const ReducePlan& plan, const F& f) {
  if (plan.count == 0) return;
  absl::InlinedVector<int64_t, 4> index(plan.reduced.size(), 0);
  int64_t offset = 0;
  while (true) {
    f(offset);
    size_t axis = plan.reduced.size();
    while (axis > 0) {
      --axis;
      offset += plan.reduced[axis].stride;
      if (++index[axis] < plan.reduced[axis].extent) break;
      offset -= plan.reduced[axis].extent * plan.reduced[axis].stride;
      index[axis] = 0;
      if (axis == 0) return;
    }
    if (plan.reduced.empty()) return;
  }
}

// One block of output elements and where its inputs begin.
struct ReduceUnit {
  int64_t output = 0;
  int64_t input = 0;
  int64_t columns = 1;
};

inline ReduceUnit UnitOf(const ReducePlan& plan, int64_t unit) {
  const int64_t blocks = (plan.columns + kReduceColumns - 1) / kReduceColumns;
  const int64_t column = unit % blocks * kReduceColumns;
  int64_t rest = unit / blocks;
  ReduceUnit result{rest * plan.columns + column, column,
                    std::min(kReduceColumns, plan.columns - column)};
  for (size_t axis = plan.kept.size(); axis-- > 0;) {
    result.input += rest % plan.kept[axis].extent * plan.kept[axis].stride;
    rest /= plan.kept[axis].extent;
  }
  return result;
}

// Op: types In, Out and State; kPasses of 1 or 2;
//   void Start(State&)                                    the empty set
//   void Row<kPass>(State&, const In*, int64_t n)         n elements of one output
//   void Columns<kPass>(State*, const In*, int64_t n)     one element of each of n outputs
//   Out Finish(const State&, int64_t count)
template <typename Op>
void ReduceUnits(const ReducePlan& plan, const void* x, void* y, int64_t begin, int64_t end) {
  typename Op::State states[kReduceColumns];
  for (int64_t number = begin; number < end; ++number) {
    const ReduceUnit unit = UnitOf(plan, number);
    const auto* input = static_cast<const typename Op::In*>(x) + unit.input;
    for (int64_t c = 0; c < unit.columns; ++c) Op::Start(states[c]);
    const auto pass = [&]<int kPass>() {
      ForEachReduced(plan, [&](int64_t offset) {
        if (plan.columns == 1) {
          Op::template Row<kPass>(states[0], input + offset, plan.run);
        } else {
          Op::template Columns<kPass>(states, input + offset, unit.columns);
        }
      });
    };
    pass.template operator()<0>();
    if constexpr (Op::kPasses == 2) pass.template operator()<1>();
    auto* output = static_cast<typename Op::Out*>(y) + unit.output;
    for (int64_t c = 0; c < unit.columns; ++c) output[c] = Op::Finish(states[c], plan.count);
  }
}

}  // namespace tandem::kernels
