// Integer arithmetic that is defined for every operand: two's complement wrap-around and, where
// arithmetic gives no value, the one documented at each function.
#pragma once

#include <concepts>
#include <limits>
#include <type_traits>

namespace tandem::kernels {

template <std::integral T>
T WrapAdd(T a, T b) {
  using U = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
}

template <std::integral T>
T WrapSub(T a, T b) {
  using U = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<U>(static_cast<U>(a) - static_cast<U>(b)));
}

template <std::integral T>
T WrapMul(T a, T b) {
  // In 64 bits: 16-bit operands would be promoted to int, whose product may overflow.
  const auto product = static_cast<unsigned long long>(a) * static_cast<unsigned long long>(b);
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(product));
}

template <std::integral T>
T WrapNeg(T a) {
  return WrapSub(T{0}, a);
}

// Truncates toward zero. x / 0 is 0; the smallest value / -1 wraps to itself.
template <std::integral T>
T SafeDiv(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::signed_integral<T>) {
    if (b == -1) return WrapNeg(a);
  }
  return static_cast<T>(a / b);
}

// Remainder with the sign of the dividend. x % 0 is 0.
template <std::integral T>
T SafeRem(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::signed_integral<T>) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
}

// Remainder with the sign of the divisor. x mod 0 is 0.
template <std::integral T>
T SafeMod(T a, T b) {
  const T rest = SafeRem(a, b);
  if constexpr (std::signed_integral<T>) {
    if (rest != 0 && (rest < 0) != (b < 0)) return static_cast<T>(rest + b);
  }
  return rest;
}

// base to a power >= 0, wrapping.
template <std::integral T>
T WrapPow(T base, unsigned long long exponent) {
  T result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result = WrapMul(result, base);
    base = WrapMul(base, base);
  }
  return result;
}

// `value` as T: truncated toward zero, values beyond T's range become its nearest bound, NaN
// becomes 0.
template <std::integral T, std::floating_point F>
T SaturateTo(F value) {
  if (!(value == value)) return 0;
  // 2^digits: the first value that is too large, exact in every floating type.
  constexpr int digits = std::numeric_limits<T>::digits;
  constexpr F limit = static_cast<F>(1ULL << (digits - 1)) * 2;
  if (value >= limit) return std::numeric_limits<T>::max();
  if constexpr (std::signed_integral<T>) {
    if (value < -limit) return std::numeric_limits<T>::min();
  } else {
    if (value <= -1) return 0;
  }
  return static_cast<T>(value);
}

}  // namespace tandem::kernels
