// Vector sums of a function of float elements, taken in double; reductions and statistics share
// them. Include in the per-target part of a file that uses hwy/foreach_target.h.
#if defined(TANDEM_KERNELS_REDUCE_SUM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_REDUCE_SUM_INL_H_
#undef TANDEM_KERNELS_REDUCE_SUM_INL_H_
#else
#define TANDEM_KERNELS_REDUCE_SUM_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using WideTag = hn::ScalableTag<double>;
using NarrowTag = hn::Rebind<float, WideTag>;  // as many lanes
using WideVec = hn::Vec<WideTag>;

// The sum of f(x) over n elements; f maps a vector of doubles.
template <class F>
HWY_INLINE double SumOfRow(const float* x, int64_t n, const F& f) {
  const WideTag d;
  const NarrowTag dn;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto load = [d, dn](const float* from)
                        HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(dn, from)); };
  // Four sums hide the latency of the addition.
  WideVec sum0 = hn::Zero(d);
  WideVec sum1 = hn::Zero(d);
  WideVec sum2 = hn::Zero(d);
  WideVec sum3 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    sum0 = hn::Add(sum0, f(load(x + i)));
    sum1 = hn::Add(sum1, f(load(x + i + lanes)));
    sum2 = hn::Add(sum2, f(load(x + i + 2 * lanes)));
    sum3 = hn::Add(sum3, f(load(x + i + 3 * lanes)));
  }
  for (; i + lanes <= n; i += lanes) sum0 = hn::Add(sum0, f(load(x + i)));
  if (i < n) {
    const auto rest = static_cast<size_t>(n - i);
    const auto last = hn::PromoteTo(d, hn::MaskedLoad(hn::FirstN(dn, rest), dn, x + i));
    sum1 = hn::Add(sum1, hn::IfThenElseZero(hn::FirstN(d, rest), f(last)));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
}

// sums[i] += f(x[i], i) for n elements; f maps a vector of doubles and the index of its first lane.
// `sums` has room for whole vectors.
template <class F>
HWY_INLINE void AddColumns(double* sums, const float* x, int64_t n, const F& f) {
  const WideTag d;
  const NarrowTag dn;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const WideVec value = f(hn::PromoteTo(d, hn::LoadU(dn, x + i)), i);
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), value), d, sums + i);
  }
  if (i < n) {
    const auto rest = hn::FirstN(dn, static_cast<size_t>(n - i));
    const WideVec value = f(hn::PromoteTo(d, hn::MaskedLoad(rest, dn, x + i)), i);
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), value), d, sums + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#endif  // TANDEM_KERNELS_REDUCE_SUM_INL_H_
