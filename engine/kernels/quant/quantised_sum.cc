// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/quant/quantised_sum.cc"
#include <cmath>
#include <cstring>
#include "hwy/foreach_target.h"  // before every other Highway header
#include "engine/kernels/quant/quantised_sum.h"
#include "engine/kernels/quant/quantize.h"
#include "engine/kernels/quant/requantize-inl.h"
#include "engine/kernels/simd.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using DI = hn::ScalableTag<int32_t>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
constexpr int64_t kLanes = HWY_LANES(float);

// Quotients that are to be rounded to a byte: products with the reciprocal, which round alike
// unless they are close to the middle between two integers; there, divided.
class Quotient {
 public:
  explicit Quotient(float divisor)
      : divisor_(hn::Set(DF(), divisor)), reciprocal_(hn::Set(DF(), 1 / divisor)) {
    if (!std::isnormal(1 / divisor)) close_ = hn::Set(DF(), 1);  // all are
  }
  HWY_INLINE VF operator()(VF x) const {
    const DF d;
    const VF product = hn::Mul(x, reciprocal_);
    const VF rest = hn::Abs(hn::Sub(product, hn::Round(product)));
    const VF from_middle = hn::Abs(hn::Sub(rest, hn::Set(d, 0.5f)));
    if (HWY_LIKELY(hn::AllTrue(d, hn::Ge(from_middle, close_)))) return product;
    return hn::Div(x, divisor_);
  }

 private:
  // Beyond the error of a product up to 2^9, behind which all bytes are saturated.
  static constexpr float kClose = 1.0f / 2048;

  VF divisor_;
  VF reciprocal_;
  VF close_ = hn::Set(DF(), kClose);
};

template <typename T>
HWY_INLINE VF Number(const T* from, VI zero, VF scale) {
  const hn::Rebind<T, DI> bytes;
  const VI steps = hn::Sub(hn::PromoteTo(DI(), hn::LoadU(bytes, from)), zero);
  return hn::Mul(hn::ConvertTo(DF(), steps), scale);
}

// One operand of a row; a single element that stays is repeated in `copies`.
template <typename T>
struct Operand {
  const T* data;
  int64_t step;
  T copies[kLanes];

  Operand(const RowArgs& args, int i)
      : data(static_cast<const T*>(args.operands[i])), step(args.steps[i]) {
    if (step == 0) {
      std::memset(copies, static_cast<unsigned char>(*data), sizeof(copies));
      data = copies;
    }
  }
  // `count` elements from `i` on, where a whole vector may be read.
  const T* At(int64_t i, int64_t count, T* last) const {
    if (step == 0 || count >= kLanes) return data + i * step;
    std::memcpy(last, data + i, static_cast<size_t>(count));
    return last;
  }
};

template <typename T>
void AddRow(const QuantisedSum& sum, const RowArgs& args) {
  const DF df;
  const DI di;
  const hn::Rebind<T, DI> bytes;
  const Operand<T> a(args, 0);
  const Operand<T> b(args, 1);
  const VF a_scale = hn::Set(df, sum.a_scale);
  const VF b_scale = hn::Set(df, sum.b_scale);
  const VI a_zero = hn::Set(di, sum.a_zero);
  const VI b_zero = hn::Set(di, sum.b_zero);
  const Quotient quotient(sum.y_scale);
  const Rounding round(sum.y_zero, sum.low, sum.high);
  T* y = static_cast<T*>(args.output);
  T last_a[kLanes] = {};
  T last_b[kLanes] = {};
  for (int64_t i = 0; i < args.n; i += kLanes) {
    const int64_t count = HWY_MIN(kLanes, args.n - i);
    const VF total = hn::Add(Number(a.At(i, count, last_a), a_zero, a_scale),
                             Number(b.At(i, count, last_b), b_zero, b_scale));
    const auto result = hn::DemoteTo(bytes, round(quotient(total)));
    if (count == kLanes) {
      hn::StoreU(result, bytes, y + i);
    } else {
      HWY_ALIGN T last[kLanes];
      hn::Store(result, bytes, last);
      std::memcpy(y + i, last, static_cast<size_t>(count));
    }
  }
}

AddQuantised FindAdd(DType dtype) {
  return dtype == DType::kInt8 ? &AddRow<int8_t> : &AddRow<uint8_t>;
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels {
namespace {

HWY_EXPORT(FindAdd);

template <typename T>
void AddReference(const QuantisedSum& sum, const RowArgs& args) {
  const T* a = static_cast<const T*>(args.operands[0]);
  const T* b = static_cast<const T*>(args.operands[1]);
  for (int64_t i = 0; i < args.n; ++i) {
    const float left = static_cast<float>(a[i * args.steps[0]] - sum.a_zero) * sum.a_scale;
    const float right = static_cast<float>(b[i * args.steps[1]] - sum.b_zero) * sum.b_scale;
    const T y =
        Saturate<T>(static_cast<double>((left + right) / sum.y_scale), static_cast<T>(sum.y_zero));
    static_cast<T*>(args.output)[i] = static_cast<T>(std::clamp<int32_t>(y, sum.low, sum.high));
  }
}

}  // namespace

AddQuantised AddQuantisedFor(DType dtype, Isa isa) {
  if (isa != Isa::kReference) return TANDEM_DISPATCH(isa, FindAdd)(dtype);
  return dtype == DType::kInt8 ? &AddReference<int8_t> : &AddReference<uint8_t>;
}

}  // namespace tandem::kernels
#endif  // HWY_ONCE
