// Scaled sums rounded to integers. Include in the per-target part of a file that uses
// hwy/foreach_target.h.
#if defined(TANDEM_KERNELS_REQUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_REQUANTIZE_INL_H_
#undef TANDEM_KERNELS_REQUANTIZE_INL_H_
#else
#define TANDEM_KERNELS_REQUANTIZE_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {

// min(max(round(x) + zero point, low), high), ties to even; NaN counts as 0.
class Rounding {
 public:
  using DF = hwy::HWY_NAMESPACE::ScalableTag<float>;
  using DI = hwy::HWY_NAMESPACE::ScalableTag<int32_t>;
  using VF = hwy::HWY_NAMESPACE::Vec<DF>;
  using VI = hwy::HWY_NAMESPACE::Vec<DI>;

  HWY_INLINE Rounding(int32_t zero_point, int32_t low, int32_t high)
      : zero_point_(hwy::HWY_NAMESPACE::Set(DI(), zero_point)),
        low_(hwy::HWY_NAMESPACE::Set(DF(), static_cast<float>(low - zero_point))),
        high_(hwy::HWY_NAMESPACE::Set(DF(), static_cast<float>(high - zero_point))) {}

  HWY_INLINE VI operator()(VF x) const {
    namespace hn = hwy::HWY_NAMESPACE;
    const VF number = hn::IfThenElseZero(hn::Eq(x, x), x);
    // The bounds are whole: what is rounded after they are applied stays within them.
    const VF bounded = hn::Min(hn::Max(number, low_), high_);
    return hn::Add(hn::NearestInt(bounded), zero_point_);
  }

 private:
  VI zero_point_;
  VF low_;
  VF high_;
};

}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#endif  // TANDEM_KERNELS_REQUANTIZE_INL_H_
