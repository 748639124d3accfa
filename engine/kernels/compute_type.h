// What elements are computed with: floating types of 16 bits as float, all others as they are.
#pragma once

#include <type_traits>

#include "engine/tensor/dtype.h"

namespace tandem::kernels {

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;

template <typename T>
using ComputeType = std::conditional_t<kIsHalf<T>, float, T>;

template <typename T>
ComputeType<T> ToCompute(T value) {
  if constexpr (kIsHalf<T>) {
    return ToFloat(value);
  } else {
    return value;
  }
}

// Rounds to nearest even where T is narrower than the value.
template <typename T, typename A>
T FromCompute(A value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return ToFloat16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return ToBfloat16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace tandem::kernels
