// Pow: base and exponent may have different types.
#include <cmath>
#include <concepts>

#include "engine/kernels/compute_type.h"
#include "engine/kernels/elementwise/binary.h"
#include "engine/kernels/elementwise/integer.h"

namespace tandem::kernels {
namespace {

template <typename T>
T IntegerPower(T base, auto exponent) {
  if constexpr (std::integral<decltype(exponent)>) {
    if (exponent >= 0) return WrapPow(base, static_cast<unsigned long long>(exponent));
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 == 0 ? T{1} : T{-1};
    return 0;
  } else {
    return SaturateTo<T>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
}

template <std::floating_point T>
T FloatPower(T base, auto exponent) {
  // Squares are exact to half a unit; the library need not be.
  if (exponent == 2) return base * base;
  if constexpr (std::is_same_v<T, decltype(exponent)>) {
    return std::pow(base, exponent);
  } else {
    // Integers beyond 2^24 and doubles keep their value (and integers their parity).
    return static_cast<T>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
}

template <typename T, typename E>
T Power(T base, E exponent) {
  if constexpr (std::integral<T>) {
    return IntegerPower(base, ToCompute(exponent));
  } else if constexpr (std::floating_point<T>) {
    return FloatPower(base, ToCompute(exponent));
  } else {
    return FromFloat<T>(FloatPower(ToFloat(base), ToCompute(exponent)));
  }
}

template <typename T, typename E>
void PowRow(const RowArgs& args, const RowParams&) {
  const T* a = static_cast<const T*>(args.operands[0]);
  const E* b = static_cast<const E*>(args.operands[1]);
  T* y = static_cast<T*>(args.output);
  for (int64_t i = 0; i < args.n; ++i) y[i] = Power(a[i * args.steps[0]], b[i * args.steps[1]]);
}

template <typename T>
RowFunction PowOf(DType exponent) {
  switch (exponent) {
    case DType::kFloat:
      return PowRow<T, float>;
    case DType::kDouble:
      return PowRow<T, double>;
    case DType::kFloat16:
      return PowRow<T, Float16>;
    case DType::kBfloat16:
      return PowRow<T, Bfloat16>;
    case DType::kInt8:
      return PowRow<T, int8_t>;
    case DType::kInt16:
      return PowRow<T, int16_t>;
    case DType::kInt32:
      return PowRow<T, int32_t>;
    case DType::kInt64:
      return PowRow<T, int64_t>;
    case DType::kUint8:
      return PowRow<T, uint8_t>;
    case DType::kUint16:
      return PowRow<T, uint16_t>;
    case DType::kUint32:
      return PowRow<T, uint32_t>;
    case DType::kUint64:
      return PowRow<T, uint64_t>;
    default:
      return nullptr;
  }
}

// The square of float32 through the multiplication kernel; other exponents element by element.
template <Isa kIsa>
void PowFloatRow(const RowArgs& args, const RowParams& params) {
  static const RowFunction multiply = FindBinary(BinaryOp::kMul, DType::kFloat, kIsa);
  if (args.steps[1] == 0 && *static_cast<const float*>(args.operands[1]) == 2) {
    const void* operands[] = {args.operands[0], args.operands[0]};
    const int64_t steps[] = {args.steps[0], args.steps[0]};
    multiply({operands, steps, 2, args.output, args.n}, params);
    return;
  }
  PowRow<float, float>(args, params);
}

}  // namespace

RowFunction FindPow(DType base, DType exponent, Isa isa) {
  if (base == DType::kFloat && exponent == DType::kFloat) {
    if (isa >= Isa::kAvx512) return PowFloatRow<Isa::kAvx512>;
    if (isa == Isa::kAvx2) return PowFloatRow<Isa::kAvx2>;
    if (isa == Isa::kBaseline) return PowFloatRow<Isa::kBaseline>;
  }
  switch (base) {
    case DType::kFloat:
      return PowOf<float>(exponent);
    case DType::kDouble:
      return PowOf<double>(exponent);
    case DType::kFloat16:
      return PowOf<Float16>(exponent);
    case DType::kBfloat16:
      return PowOf<Bfloat16>(exponent);
    case DType::kInt32:
      return PowOf<int32_t>(exponent);
    case DType::kInt64:
      return PowOf<int64_t>(exponent);
    default:
      return nullptr;
  }
}

}  // namespace tandem::kernels
