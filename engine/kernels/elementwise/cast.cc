#include "engine/kernels/elementwise/cast.h"

#include <bit>
#include <cmath>
#include <concepts>

#include "engine/kernels/elementwise/integer.h"

namespace tandem::kernels {
namespace {

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;

// `value` as float, inexact results to the neighbour with an odd last bit: a second rounding to 16
// bits then gives what one rounding would have.
float RoundToOdd(double value) {
  const auto rounded = static_cast<float>(value);
  if (static_cast<double>(rounded) == value || !std::isfinite(rounded)) return rounded;
  if ((std::bit_cast<uint32_t>(rounded) & 1) != 0) return rounded;
  const float towards = value > static_cast<double>(rounded) ? INFINITY : -INFINITY;
  return std::nextafter(rounded, towards);
}

template <typename To, typename From>
To Convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (kIsHalf<From>) {
    return Convert<To>(ToFloat(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != 0;
  } else if constexpr (kIsHalf<To>) {
    if constexpr (std::is_same_v<From, float>) return FromFloat<To>(value);
    return FromFloat<To>(RoundToOdd(static_cast<double>(value)));
  } else if constexpr (std::integral<To> && std::floating_point<From>) {
    return SaturateTo<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <typename From, typename To>
void Row(const RowArgs& args, const RowParams&) {
  const From* x = static_cast<const From*>(args.operands[0]);
  To* y = static_cast<To*>(args.output);
  for (int64_t i = 0; i < args.n; ++i) y[i] = Convert<To>(x[i * args.steps[0]]);
}

template <typename From>
RowFunction FindTo(DType to) {
  switch (to) {
    case DType::kFloat:
      return Row<From, float>;
    case DType::kDouble:
      return Row<From, double>;
    case DType::kFloat16:
      return Row<From, Float16>;
    case DType::kBfloat16:
      return Row<From, Bfloat16>;
    case DType::kInt8:
      return Row<From, int8_t>;
    case DType::kInt16:
      return Row<From, int16_t>;
    case DType::kInt32:
      return Row<From, int32_t>;
    case DType::kInt64:
      return Row<From, int64_t>;
    case DType::kUint8:
      return Row<From, uint8_t>;
    case DType::kUint16:
      return Row<From, uint16_t>;
    case DType::kUint32:
      return Row<From, uint32_t>;
    case DType::kUint64:
      return Row<From, uint64_t>;
    case DType::kBool:
      return Row<From, bool>;
    default:
      return nullptr;
  }
}

}  // namespace

RowFunction FindCast(DType from, DType to) {
  switch (from) {
    case DType::kFloat:
      return FindTo<float>(to);
    case DType::kDouble:
      return FindTo<double>(to);
    case DType::kFloat16:
      return FindTo<Float16>(to);
    case DType::kBfloat16:
      return FindTo<Bfloat16>(to);
    case DType::kInt8:
      return FindTo<int8_t>(to);
    case DType::kInt16:
      return FindTo<int16_t>(to);
    case DType::kInt32:
      return FindTo<int32_t>(to);
    case DType::kInt64:
      return FindTo<int64_t>(to);
    case DType::kUint8:
      return FindTo<uint8_t>(to);
    case DType::kUint16:
      return FindTo<uint16_t>(to);
    case DType::kUint32:
      return FindTo<uint32_t>(to);
    case DType::kUint64:
      return FindTo<uint64_t>(to);
    case DType::kBool:
      return FindTo<bool>(to);
    default:
      return nullptr;
  }
}

}  // namespace tandem::kernels
