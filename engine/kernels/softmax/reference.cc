#include <algorithm>
#include <cmath>

#include "engine/kernels/compute_type.h"
#include "engine/kernels/softmax/softmax.h"

namespace tandem::kernels {
namespace {

// One row: n elements, `step` apart.
template <typename T, SoftmaxOp kOp>
void ExponentRow(const T* x, T* y, int64_t n, int64_t step) {
  using A = ComputeType<T>;
  A max = ToCompute(x[0]);
  for (int64_t i = 1; i < n; ++i) max = std::max(max, ToCompute(x[i * step]));
  A sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(ToCompute(x[i * step]) - max);
  const A log_sum = std::log(sum);
  for (int64_t i = 0; i < n; ++i) {
    const A shifted = ToCompute(x[i * step]) - max;
    if constexpr (kOp == SoftmaxOp::kSoftmax) {
      y[i * step] = FromCompute<T>(std::exp(shifted) / sum);
    } else {
      y[i * step] = FromCompute<T>(shifted - log_sum);
    }
  }
}

template <typename T>
void HardmaxRow(const T* x, T* y, int64_t n, int64_t step) {
  int64_t best = 0;
  auto max = ToCompute(x[0]);
  for (int64_t i = 1; i < n && !std::isnan(max); ++i) {
    const auto value = ToCompute(x[i * step]);
    if (!(value > max) && !std::isnan(value)) continue;
    best = i;
    max = value;
  }
  using A = ComputeType<T>;
  for (int64_t i = 0; i < n; ++i) y[i * step] = FromCompute<T>(A{i == best ? 1.0f : 0.0f});
}

template <typename T, SoftmaxOp kOp>
void Units(const SoftmaxShape& shape, const void* x, void* y, int64_t begin, int64_t end) {
  const int64_t blocks = (shape.inner + kSoftmaxColumns - 1) / kSoftmaxColumns;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t first = unit % blocks * kSoftmaxColumns;
    const int64_t last = std::min(shape.inner, first + kSoftmaxColumns);
    const int64_t base = unit / blocks * shape.length * shape.inner;
    for (int64_t column = first; column < last; ++column) {
      const T* from = static_cast<const T*>(x) + base + column;
      T* to = static_cast<T*>(y) + base + column;
      if constexpr (kOp == SoftmaxOp::kHardmax) {
        HardmaxRow(from, to, shape.length, shape.inner);
      } else {
        ExponentRow<T, kOp>(from, to, shape.length, shape.inner);
      }
    }
  }
}

template <SoftmaxOp kOp>
SoftmaxFunction Find(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return Units<float, kOp>;
    case DType::kDouble:
      return Units<double, kOp>;
    case DType::kFloat16:
      return Units<Float16, kOp>;
    case DType::kBfloat16:
      return Units<Bfloat16, kOp>;
    default:
      return nullptr;
  }
}

}  // namespace

SoftmaxFunction FindSoftmaxReference(SoftmaxOp op, DType dtype) {
  switch (op) {
    case SoftmaxOp::kSoftmax:
      return Find<SoftmaxOp::kSoftmax>(dtype);
    case SoftmaxOp::kLogSoftmax:
      return Find<SoftmaxOp::kLogSoftmax>(dtype);
    case SoftmaxOp::kHardmax:
      return Find<SoftmaxOp::kHardmax>(dtype);
  }
  return nullptr;
}

}  // namespace tandem::kernels
