#include "engine/kernels/softmax/softmax.h"

#include <algorithm>

namespace tandem::kernels {

int64_t SoftmaxUnits(const SoftmaxShape& shape) {
  return shape.outer * ((shape.inner + kSoftmaxColumns - 1) / kSoftmaxColumns);
}

SoftmaxFunction FindSoftmax(SoftmaxOp op, DType dtype, Isa isa) {
  if (isa != Isa::kReference && dtype == DType::kFloat) {
    const SoftmaxFunction function = FindSoftmaxSimd(op, isa);
    if (function != nullptr) return function;
  }
  return FindSoftmaxReference(op, dtype);
}

void RunSoftmax(SoftmaxFunction function, const SoftmaxShape& shape, const void* x, void* y,
                const Parallel& parallel) {
  if (shape.length == 0) return;
  const int64_t unit = shape.length * std::min(shape.inner, kSoftmaxColumns);
  const int64_t grain = GrainOf(kGrainSlowElements, unit);
  parallel.For(SoftmaxUnits(shape), grain,
               [&](int64_t begin, int64_t end) { function(shape, x, y, begin, end); });
}

}  // namespace tandem::kernels
