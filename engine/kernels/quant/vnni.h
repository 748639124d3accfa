// What the files for AVX-512 VNNI share.
#pragma once

#include <immintrin.h>

#include "engine/kernels/quant/integer.h"

#define TANDEM_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

namespace tandem::kernels {

// Scaled sums to bytes, with the zero point and within the bounds of a result.
struct BytePacking {
  __m512i zero;
  __m512i low;
  __m512i high;

  TANDEM_VNNI BytePacking(int32_t zero_point, int32_t lowest, int32_t highest)
      : zero(_mm512_set1_epi16(static_cast<int16_t>(zero_point))),
        low(_mm512_set1_epi8(static_cast<char>(lowest))),
        high(_mm512_set1_epi8(static_cast<char>(highest))) {}

  // Rounded to even. What is beyond 16 bits is saturated upwards here; downwards the conversion
  // gives the lowest number.
  static TANDEM_VNNI __m512i Rounded(__m512i sums, __m512 multipliers) {
    const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), multipliers);
    return _mm512_cvtps_epi32(_mm512_min_ps(scaled, _mm512_set1_ps(32767)));
  }

  // Packing takes 128-bit blocks: block i of the result is block i of each of the four in turn.
  template <DType kY>
  TANDEM_VNNI __m512i Pack(const __m512i* words) const {
    const __m512i lower = _mm512_adds_epi16(_mm512_packs_epi32(words[0], words[1]), zero);
    const __m512i upper = _mm512_adds_epi16(_mm512_packs_epi32(words[2], words[3]), zero);
    if constexpr (kY == DType::kUint8) {
      const __m512i bytes = _mm512_packus_epi16(lower, upper);
      return _mm512_min_epu8(_mm512_max_epu8(bytes, low), high);
    } else {
      const __m512i bytes = _mm512_packs_epi16(lower, upper);
      return _mm512_min_epi8(_mm512_max_epi8(bytes, low), high);
    }
  }
};

// The first `count` of 64 bytes.
inline __mmask64 FirstBytes(int64_t count) {
  return count >= 64 ? ~__mmask64{0} : (__mmask64{1} << count) - 1;
}

}  // namespace tandem::kernels
