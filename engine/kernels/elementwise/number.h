// Elements of any number type in plain kernels: as double and back, and the choice of a kernel by
// type.
#pragma once

#include <concepts>

#include "engine/kernels/elementwise/integer.h"
#include "engine/tensor/dtype.h"

namespace tandem::kernels {

template <typename T>
double AsDouble(T value) {
  if constexpr (std::same_as<T, Float16> || std::same_as<T, Bfloat16>) {
    return ToFloat(value);
  } else {
    return static_cast<double>(value);
  }
}

// Rounded to a floating type, truncated and saturated to an integer.
template <typename T>
T FromDouble(double value) {
  if constexpr (std::integral<T>) {
    return SaturateTo<T>(value);
  } else if constexpr (std::same_as<T, Float16>) {
    return ToFloat16(static_cast<float>(value));
  } else if constexpr (std::same_as<T, Bfloat16>) {
    return ToBfloat16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

// choose(T()), a pointer, for the storage type T of `dtype`: floating types and integers; null for
// others.
template <typename Choose>
auto ForNumber(DType dtype, const Choose& choose) -> decltype(choose(float())) {
  switch (dtype) {
    case DType::kFloat:
      return choose(float());
    case DType::kDouble:
      return choose(double());
    case DType::kFloat16:
      return choose(Float16());
    case DType::kBfloat16:
      return choose(Bfloat16());
    case DType::kInt8:
      return choose(int8_t());
    case DType::kInt16:
      return choose(int16_t());
    case DType::kInt32:
      return choose(int32_t());
    case DType::kInt64:
      return choose(int64_t());
    case DType::kUint8:
      return choose(uint8_t());
    case DType::kUint16:
      return choose(uint16_t());
    case DType::kUint32:
      return choose(uint32_t());
    case DType::kUint64:
      return choose(uint64_t());
    default:
      return nullptr;
  }
}

}  // namespace tandem::kernels
