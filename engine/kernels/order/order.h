// Total orders of elements, and what follows from them: the largest elements of a slice.
//
// Numbers are ordered by value; both zeros are equal; a NaN is larger than everything else and
// equal to another NaN. false is before true; strings are ordered byte by byte.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <string>

#include "engine/base/parallel.h"
#include "engine/tensor/dtype.h"

namespace tandem::kernels {

// -1, 0 or 1 as `a` is before, equal to or after `b`.
template <typename T>
int Compare(const T& a, const T& b) {
  if constexpr (std::same_as<T, Float16> || std::same_as<T, Bfloat16>) {
    return Compare(ToFloat(a), ToFloat(b));
  } else {
    if (a < b) return -1;
    if (b < a) return 1;
    if constexpr (std::floating_point<T>) {
      if (a != b) return static_cast<int>(std::isnan(a)) - static_cast<int>(std::isnan(b));
    }
    return 0;
  }
}

enum class TopKOrder : uint8_t { kLargestFirst, kSmallestFirst };

// The first k of `length` elements in the order; of equal elements the one with the lower index is
// first. Element (o, i, n) of x lies at (o * length + i) * inner + n, of the results with k in
// place of length; 0 <= k <= length.
struct TopKShape {
  int64_t outer = 1;
  int64_t length = 1;
  int64_t inner = 1;
  int64_t k = 1;
  TopKOrder order = TopKOrder::kLargestFirst;
};
// Writes the elements to `values` and their indices to `indices`.
using TopKFunction = void (*)(const TopKShape& shape, const void* x, void* values, int64_t* indices,
                              const Parallel& parallel);
// The kernel for elements of `dtype`, or null: floating types and integers have one.
TopKFunction FindTopK(DType dtype);

// Compares entries of an axis: entry i of x is the `outer` runs of `inner` elements at
// (o * length + i) * inner.
struct EntryShape {
  int64_t outer = 1;
  int64_t length = 1;
  int64_t inner = 1;
};
// -1, 0 or 1 as entry `a` is before, equal to or after entry `b`, by their first difference.
using CompareEntries = int (*)(const EntryShape& shape, const void* x, int64_t a, int64_t b);
// The kernel for elements of `dtype`, or null: floating types, integers, bool and string have one.
CompareEntries FindCompareEntries(DType dtype);

}  // namespace tandem::kernels
