#include "engine/kernels/elementwise/batch_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/elementwise/batch_norm_simd.cc"
// First of all.
#include "hwy/foreach_target.h"
// After it.
#include "engine/kernels/simd.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Not fused into one rounding: the scalar version rounds each operation, too.
template <class V>
HWY_INLINE V Normalize(V x, V mean, V factor, V shift) {
  return hn::Add(hn::Mul(hn::Sub(x, mean), factor), shift);
}

void Row(const RowArgs& args, const RowParams&) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* x = static_cast<const float*>(args.operands[0]);
  const float* mean = static_cast<const float*>(args.operands[1]);
  const float* factor = static_cast<const float*>(args.operands[2]);
  const float* shift = static_cast<const float*>(args.operands[3]);
  float* y = static_cast<float*>(args.output);
  int64_t i = 0;
  if (args.steps[0] == 1 && args.steps[1] == 0) {
    const auto mean_v = hn::Set(d, *mean);
    const auto factor_v = hn::Set(d, *factor);
    const auto shift_v = hn::Set(d, *shift);
    for (; i + lanes <= args.n; i += lanes) {
      hn::StoreU(Normalize(hn::LoadU(d, x + i), mean_v, factor_v, shift_v), d, y + i);
    }
  } else if (args.steps[0] == 1) {
    for (; i + lanes <= args.n; i += lanes) {
      hn::StoreU(Normalize(hn::LoadU(d, x + i), hn::LoadU(d, mean + i), hn::LoadU(d, factor + i),
                           hn::LoadU(d, shift + i)),
                 d, y + i);
    }
  }
  for (; i < args.n; ++i) {
    const float centred = x[i * args.steps[0]] - mean[i * args.steps[1]];
    y[i] = centred * factor[i * args.steps[2]] + shift[i * args.steps[3]];
  }
}

RowFunction FindRow() { return Row; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels {
HWY_EXPORT(FindRow);

RowFunction FindBatchNormSimd(Isa isa) { return TANDEM_DISPATCH(isa, FindRow)(); }

}  // namespace tandem::kernels
#endif  // HWY_ONCE
