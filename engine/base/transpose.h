// A tile of a matrix of elements of any size, transposed in registers where that is possible.
#pragma once

#include <emmintrin.h>

#include <cstdint>
#include <cstring>

namespace tandem {

// Rows and columns of a tile.
inline constexpr int64_t kTransposedTile = 16;

// Elements of 16 bytes.
struct Bytes16 {
  uint64_t low;
  uint64_t high;
};

// Four rows of four elements of 32 bits, `in_stride` and `out_stride` elements apart.
inline void TransposeFour(const uint32_t* in, int64_t in_stride, uint32_t* out,
                          int64_t out_stride) {
  const auto load = [&](int64_t row) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + row * in_stride));
  };
  const auto store = [&](int64_t row, __m128i elements) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + row * out_stride), elements);
  };
  const __m128i lower01 = _mm_unpacklo_epi32(load(0), load(1));
  const __m128i lower23 = _mm_unpacklo_epi32(load(2), load(3));
  const __m128i upper01 = _mm_unpackhi_epi32(load(0), load(1));
  const __m128i upper23 = _mm_unpackhi_epi32(load(2), load(3));
  store(0, _mm_unpacklo_epi64(lower01, lower23));
  store(1, _mm_unpackhi_epi64(lower01, lower23));
  store(2, _mm_unpacklo_epi64(upper01, upper23));
  store(3, _mm_unpackhi_epi64(upper01, upper23));
}

// Writes column c of a tile at `in` as row c at `out`; rows are `in_stride` and `out_stride`
// elements apart. The two do not overlap.
template <typename T>
void TransposeTile(const T* in, int64_t in_stride, T* out, int64_t out_stride) {
  if constexpr (sizeof(T) == sizeof(uint32_t)) {
    for (int64_t c = 0; c < kTransposedTile; c += 4) {
      for (int64_t r = 0; r < kTransposedTile; r += 4) {
        TransposeFour(reinterpret_cast<const uint32_t*>(in + r * in_stride + c), in_stride,
                      reinterpret_cast<uint32_t*>(out + c * out_stride + r), out_stride);
      }
    }
  } else {
    // Constant bounds let the compiler keep the tile in registers.
    T tile[kTransposedTile][kTransposedTile];
    for (int64_t r = 0; r < kTransposedTile; ++r) {
      std::memcpy(tile[r], in + r * in_stride, sizeof(tile[r]));
    }
    for (int64_t c = 0; c < kTransposedTile; ++c) {
      T column[kTransposedTile];
      for (int64_t r = 0; r < kTransposedTile; ++r) column[r] = tile[r][c];
      std::memcpy(out + c * out_stride, column, sizeof(column));
    }
  }
}

}  // namespace tandem
