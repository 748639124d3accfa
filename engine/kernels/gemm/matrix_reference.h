// The matrix product in plain loops for any arithmetic type: float64 and the integers of MatMul and
// Gemm. Integers wrap as two's complement.
#pragma once

#include <cstdint>
#include <type_traits>

namespace tandem::kernels {

// Element (i, j) at data[i * row_stride + j * column_stride].
template <typename T>
struct StridedMatrix {
  const T* data = nullptr;
  int64_t row_stride = 0;
  int64_t column_stride = 1;

  T at(int64_t i, int64_t j) const { return data[i * row_stride + j * column_stride]; }
};

struct MatrixExtents {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
};

// c[i, j] = scale * sum over k of a[i, k] * b[k, j]; c is dense, m x n.
template <typename T>
void MatrixProductReference(const MatrixExtents& extents, const StridedMatrix<T>& a,
                            const StridedMatrix<T>& b, T scale, T* c) {
  using Wide = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                           std::type_identity<T>>::type;
  for (int64_t i = 0; i < extents.m; ++i) {
    for (int64_t j = 0; j < extents.n; ++j) {
      Wide sum = 0;
      for (int64_t k = 0; k < extents.k; ++k) {
        sum += static_cast<Wide>(a.at(i, k)) * static_cast<Wide>(b.at(k, j));
      }
      *c++ = static_cast<T>(static_cast<Wide>(scale) * sum);
    }
  }
}

}  // namespace tandem::kernels
