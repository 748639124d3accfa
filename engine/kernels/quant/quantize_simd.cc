// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/quant/quantize_simd.cc"
#include <cstring>
#include <limits>
#include "hwy/foreach_target.h"  // before every other Highway header
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
constexpr int64_t kLanes = HWY_LANES(float);

// Whole vectors; the last one may be read and written in part only.
template <typename From, typename To, typename Function>
HWY_INLINE void ForVectors(const From* from, To* to, int64_t n, const Function& function) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) function(from + i, to + i);
  if (i == n) return;
  HWY_ALIGN From last[kLanes] = {};
  HWY_ALIGN To result[kLanes];
  std::memcpy(last, from + i, static_cast<size_t>(n - i) * sizeof(From));
  function(last, result);
  std::memcpy(to + i, result, static_cast<size_t>(n - i) * sizeof(To));
}

template <typename Y>
void QuantizeVectors(const RowArgs& args, const RowParams&) {
  const DF d;
  const hn::Rebind<Y, DI> bytes;
  const auto scale = hn::Set(d, *static_cast<const float*>(args.operands[1]));
  const Rounding round(*static_cast<const Y*>(args.operands[2]), std::numeric_limits<Y>::lowest(),
                       std::numeric_limits<Y>::max());
  ForVectors(static_cast<const float*>(args.operands[0]), static_cast<Y*>(args.output), args.n,
             [&](const float* from, Y* to) HWY_ATTR {
               hn::StoreU(hn::DemoteTo(bytes, round(hn::Div(hn::LoadU(d, from), scale))), bytes,
                          to);
             });
}

template <typename X>
void DequantizeVectors(const RowArgs& args, const RowParams&) {
  const DF d;
  const DI di;
  const hn::Rebind<X, DI> bytes;
  const auto scale = hn::Set(d, *static_cast<const float*>(args.operands[1]));
  const auto zero = hn::Set(di, int32_t{*static_cast<const X*>(args.operands[2])});
  ForVectors(static_cast<const X*>(args.operands[0]), static_cast<float*>(args.output), args.n,
             [&](const X* from, float* to) HWY_ATTR {
               const auto steps = hn::Sub(hn::PromoteTo(di, hn::LoadU(bytes, from)), zero);
               hn::StoreU(hn::Mul(hn::ConvertTo(d, steps), scale), d, to);
             });
}

RowFunction FindQuantizeVectors(DType y) {
  return y == DType::kInt8 ? &QuantizeVectors<int8_t> : &QuantizeVectors<uint8_t>;
}
RowFunction FindDequantizeVectors(DType x) {
  return x == DType::kInt8 ? &DequantizeVectors<int8_t> : &DequantizeVectors<uint8_t>;
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels {

HWY_EXPORT(FindQuantizeVectors);
HWY_EXPORT(FindDequantizeVectors);

RowFunction FindQuantizeSimd(DType x, DType y, Isa isa) {
  const bool byte = y == DType::kInt8 || y == DType::kUint8;
  if (isa == Isa::kReference || x != DType::kFloat || !byte) return nullptr;
  return TANDEM_DISPATCH(isa, FindQuantizeVectors)(y);
}

RowFunction FindDequantizeSimd(DType x, DType y, Isa isa) {
  const bool byte = x == DType::kInt8 || x == DType::kUint8;
  if (isa == Isa::kReference || y != DType::kFloat || !byte) return nullptr;
  return TANDEM_DISPATCH(isa, FindDequantizeVectors)(x);
}

}  // namespace tandem::kernels
#endif  // HWY_ONCE
