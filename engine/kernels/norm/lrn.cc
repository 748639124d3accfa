#include "engine/kernels/norm/lrn.h"

#include <algorithm>
#include <cmath>

#include "engine/kernels/compute_type.h"

namespace tandem::kernels {
namespace {

// One element; x and y are those of channel 0, neighbours `inner` apart.
template <typename T>
void Element(const Lrn& lrn, const T* x, T* y, int64_t c) {
  using A = ComputeType<T>;
  const int64_t first = std::max<int64_t>(0, c - lrn.before());
  const int64_t last = std::min(lrn.channels - 1, c + lrn.after());
  A sum = 0;
  for (int64_t k = first; k <= last; ++k) {
    const A value = ToCompute(x[k * lrn.inner]);
    sum += value * value;
  }
  const A base = lrn.bias + static_cast<A>(lrn.alpha) / static_cast<A>(lrn.size) * sum;
  y[c * lrn.inner] =
      FromCompute<T>(ToCompute(x[c * lrn.inner]) * std::pow(base, -static_cast<A>(lrn.beta)));
}

template <typename T>
void Units(const Lrn& lrn, const void* x, void* y, int64_t begin, int64_t end) {
  const int64_t blocks = (lrn.inner + kLrnColumns - 1) / kLrnColumns;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t base = unit / blocks * lrn.channels * lrn.inner;
    const int64_t first = unit % blocks * kLrnColumns;
    const int64_t last = std::min(lrn.inner, first + kLrnColumns);
    for (int64_t c = 0; c < lrn.channels; ++c) {
      for (int64_t i = first; i < last; ++i) {
        Element(lrn, static_cast<const T*>(x) + base + i, static_cast<T*>(y) + base + i, c);
      }
    }
  }
}

}  // namespace

LrnFunction FindLrnReference(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return Units<float>;
    case DType::kDouble:
      return Units<double>;
    case DType::kFloat16:
      return Units<Float16>;
    case DType::kBfloat16:
      return Units<Bfloat16>;
    default:
      return nullptr;
  }
}

LrnFunction FindLrn(DType dtype, const Lrn& lrn, Isa isa) {
  if (isa != Isa::kReference && dtype == DType::kFloat) {
    const LrnFunction function = FindLrnSimd(lrn, isa);
    if (function != nullptr) return function;
  }
  return FindLrnReference(dtype);
}

void RunLrn(LrnFunction function, const Lrn& lrn, const void* x, void* y,
            const Parallel& parallel) {
  const int64_t unit = lrn.channels * std::min(lrn.inner, kLrnColumns);
  const int64_t grain = GrainOf(kGrainSlowElements, unit);
  parallel.For(LrnUnits(lrn), grain,
               [&](int64_t begin, int64_t end) { function(lrn, x, y, begin, end); });
}

}  // namespace tandem::kernels
