// The way of rows of sums of products to its results: zero points taken off, then, unless the sums
// themselves are wanted, scaled and rounded to 8 bits.
//
//   s = sum + base + row term * zeros - row zero * column sums            in int32, wrapping
//   y = s, or y = min(max(round(s * multiplier) + zero point, low), high)  ties to even
#pragma once

#include <cstdint>

#include "engine/base/cpu.h"
#include "engine/kernels/quant/integer.h"

namespace tandem::kernels {

// Elements behind the last column that may be read of everything that has one for each column.
inline constexpr int64_t kColumnSlack = kMultiplierSlack;

// Rows of sums; what has one element for each row or column may be shared by many blocks.
struct IntegerSums {
  const int32_t* sums = nullptr;
  int64_t sums_stride = 0;
  int rows = 0;
  int64_t columns = 0;
  const int32_t* base = nullptr;
  const int32_t* zeros = nullptr;  // null: none
  const int32_t* row_terms = nullptr;
  const int32_t* column_sums = nullptr;  // null: none
  const int32_t* row_zeros = nullptr;
  const float* multipliers = nullptr;
  int32_t zero_point = 0;
  int32_t low = 0;
  int32_t high = 0;
  void* y = nullptr;
  int64_t y_stride = 0;  // elements
};

using FinishIntegerSums = void (*)(const IntegerSums& sums);

// Infinite multipliers and those that are no numbers take versions of their own.
enum class MultiplierRange : uint8_t { kFinite, kAny };
// int32, int8 or uint8; not for kReference.
FinishIntegerSums FinishIntegerSumsFor(Isa isa, DType y, MultiplierRange multipliers);
// int8 or uint8, with finite multipliers.
FinishIntegerSums FinishBytesVnni(DType y);

}  // namespace tandem::kernels
