#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/kernels/softmax/softmax.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/softmax/simd.cc"
// First of all.
#include "hwy/foreach_target.h"
// After it.
#include "engine/kernels/math-inl.h"
#include "engine/kernels/simd.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// The first n < lanes elements at x, then `fill`.
HWY_INLINE V LoadRest(D d, const float* x, int64_t n, float fill) {
  HWY_ALIGN float buffer[HWY_MAX_BYTES / sizeof(float)];
  std::fill(buffer, buffer + hn::Lanes(d), fill);
  std::copy(x, x + n, buffer);
  return hn::Load(d, buffer);
}

HWY_INLINE void StoreRest(D d, V y, float* output, int64_t n) {
  HWY_ALIGN float buffer[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(y, d, buffer);
  std::copy(buffer, buffer + n, output);
}

HWY_INLINE float MaxOfRow(D d, const float* x, int64_t n) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  V max = hn::Set(d, kLowest);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) max = hn::Max(max, hn::LoadU(d, x + i));
  if (i < n) max = hn::Max(max, LoadRest(d, x + i, n - i, kLowest));
  return hn::GetLane(hn::MaxOfLanes(d, max));
}

// The sum of exp(x - max); kStore writes the terms to y.
template <bool kStore>
HWY_INLINE float SumOfRow(D d, const float* x, float* y, int64_t n, V max) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const V e = Exp(d, hn::Sub(hn::LoadU(d, x + i), max));
    if constexpr (kStore) hn::StoreU(e, d, y + i);
    sum = hn::Add(sum, e);
  }
  if (i < n) {
    const V e = Exp(d, hn::Sub(LoadRest(d, x + i, n - i, 0), max));
    if constexpr (kStore) StoreRest(d, e, y + i, n - i);
    HWY_ALIGN float terms[HWY_MAX_BYTES / sizeof(float)];
    hn::Store(e, d, terms);
    sum = hn::Add(sum, LoadRest(d, terms, n - i, 0));
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// y = f(x), whole vectors and the rest alike.
template <class F>
HWY_INLINE void MapRow(D d, const float* x, float* y, int64_t n, const F& f) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, x + i)), d, y + i);
  if (i < n) StoreRest(d, f(LoadRest(d, x + i, n - i, 0)), y + i, n - i);
}

template <SoftmaxOp kOp>
void Row(const float* x, float* y, int64_t n) {
  const D d;
  const V max = hn::Set(d, MaxOfRow(d, x, n));
  if constexpr (kOp == SoftmaxOp::kSoftmax) {
    const V sum = hn::Set(d, SumOfRow<true>(d, x, y, n, max));
    MapRow(d, y, y, n, [sum](V e) HWY_ATTR { return hn::Div(e, sum); });
  } else {
    const V log_sum = hn::Set(d, std::log(SumOfRow<false>(d, x, y, n, max)));
    MapRow(d, x, y, n, [&](V v) HWY_ATTR { return hn::Sub(hn::Sub(v, max), log_sum); });
  }
}

// The rows of up to one vector of neighbouring columns, one column a lane; elements of a row are
// `step` apart.
template <SoftmaxOp kOp>
HWY_INLINE void Columns(const float* x, float* y, int64_t n, int64_t step, int64_t columns) {
  const D d;
  const bool whole = columns == static_cast<int64_t>(hn::Lanes(d));
  const auto load = [&](const float* from, int64_t i) HWY_ATTR {
    return whole ? hn::LoadU(d, from + i * step) : LoadRest(d, from + i * step, columns, 0);
  };
  const auto store = [&](V value, int64_t i) HWY_ATTR {
    if (whole) {
      hn::StoreU(value, d, y + i * step);
    } else {
      StoreRest(d, value, y + i * step, columns);
    }
  };
  V max = load(x, 0);
  for (int64_t i = 1; i < n; ++i) max = hn::Max(max, load(x, i));
  V sum = hn::Zero(d);
  for (int64_t i = 0; i < n; ++i) {
    const V e = Exp(d, hn::Sub(load(x, i), max));
    if constexpr (kOp == SoftmaxOp::kSoftmax) store(e, i);
    sum = hn::Add(sum, e);
  }
  if constexpr (kOp == SoftmaxOp::kSoftmax) {
    for (int64_t i = 0; i < n; ++i) store(hn::Div(load(y, i), sum), i);
    return;
  }
  HWY_ALIGN float logs[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(sum, d, logs);
  for (int64_t lane = 0; lane < columns; ++lane) logs[lane] = std::log(logs[lane]);
  const V log_sum = hn::Load(d, logs);
  for (int64_t i = 0; i < n; ++i) store(hn::Sub(hn::Sub(load(x, i), max), log_sum), i);
}

template <SoftmaxOp kOp>
void Units(const SoftmaxShape& shape, const void* x, void* y, int64_t begin, int64_t end) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  const int64_t blocks = (shape.inner + kSoftmaxColumns - 1) / kSoftmaxColumns;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t base = unit / blocks * shape.length * shape.inner;
    const float* from = static_cast<const float*>(x) + base;
    float* to = static_cast<float*>(y) + base;
    if (shape.inner == 1) {
      Row<kOp>(from, to, shape.length);
      continue;
    }
    const int64_t first = unit % blocks * kSoftmaxColumns;
    const int64_t last = std::min(shape.inner, first + kSoftmaxColumns);
    for (int64_t column = first; column < last; column += lanes) {
      Columns<kOp>(from + column, to + column, shape.length, shape.inner,
                   std::min(lanes, last - column));
    }
  }
}

SoftmaxFunction FindUnits(SoftmaxOp op) {
  switch (op) {
    case SoftmaxOp::kSoftmax:
      return Units<SoftmaxOp::kSoftmax>;
    case SoftmaxOp::kLogSoftmax:
      return Units<SoftmaxOp::kLogSoftmax>;
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels {
HWY_EXPORT(FindUnits);

SoftmaxFunction FindSoftmaxSimd(SoftmaxOp op, Isa isa) {
  return TANDEM_DISPATCH(isa, FindUnits)(op);
}

}  // namespace tandem::kernels
#endif  // HWY_ONCE
