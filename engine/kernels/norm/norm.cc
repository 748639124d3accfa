#include "engine/kernels/norm/norm.h"

#include <algorithm>

#include "engine/base/check.h"

namespace tandem::kernels {
namespace {

// True when `outer`, followed by `inner`, is one longer axis.
bool Merges(const NormAxis& outer, const NormAxis& inner) {
  return outer.role == inner.role && outer.scale == inner.scale * inner.extent &&
         outer.bias == inner.bias * inner.extent;
}

}  // namespace

NormPlan MakeNormPlan(std::span<const NormAxis> axes) {
  NormPlan plan;
  NormAxes merged;  // innermost first
  int64_t stride = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    (axis->role == NormAxisRole::kReduced ? plan.count : plan.sets) *= axis->extent;
    if (axis->extent == 1) continue;
    if (!merged.empty() && Merges(*axis, merged.back())) {
      merged.back().extent *= axis->extent;
    } else {
      merged.push_back(*axis);
      merged.back().data = stride;
    }
    stride *= axis->extent;
  }
  if (merged.empty()) return plan;
  plan.inner = merged.front();
  CHECK(plan.inner.scale <= 1 && plan.inner.bias <= 1, "scale and bias are read in order");
  for (size_t i = merged.size(); i-- > 1;) {
    (merged[i].role == NormAxisRole::kReduced ? plan.reduced : plan.kept).push_back(merged[i]);
  }
  return plan;
}

int64_t NormUnits(const NormPlan& plan) {
  if (plan.inner.role == NormAxisRole::kReduced || plan.inner.extent == 0) return plan.sets;
  const int64_t blocks = (plan.inner.extent + kNormColumns - 1) / kNormColumns;
  return plan.sets / plan.inner.extent * blocks;
}

DType NormComputeType(DType in, DType out) {
  return in == DType::kDouble || out == DType::kDouble ? DType::kDouble : DType::kFloat;
}

NormFunction FindNorm(DType in, DType out, Isa isa) {
  if (isa != Isa::kReference && in == DType::kFloat && out == DType::kFloat) {
    return FindNormSimd(isa);
  }
  return FindNormReference(in, out);
}

void RunNorm(NormFunction function, const NormCall& call, const Parallel& parallel) {
  const NormPlan& plan = call.plan;
  const bool columns = plan.inner.role == NormAxisRole::kKept;
  const int64_t unit =
      std::max<int64_t>(1, plan.count) * (columns ? std::min(kNormColumns, plan.inner.extent) : 1);
  const int64_t grain = GrainOf(kGrainSlowElements, unit);
  parallel.For(NormUnits(plan), grain,
               [&](int64_t begin, int64_t end) { function(call, begin, end); });
}

}  // namespace tandem::kernels
