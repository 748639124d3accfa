// Packed B of the AMX kernels.
#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/kernels/gemm/amx_parts.h"
#include "engine/kernels/gemm/tile.h"

namespace tandem::kernels::amx {
namespace {

// The largest magnitudes of the columns so far.
struct Largest {
  __m512i columns[2];
};

TANDEM_AMX void Clear(Largest& largest) {
  largest.columns[0] = _mm512_setzero_si512();
  largest.columns[1] = _mm512_setzero_si512();
}

TANDEM_AMX bool IsInRange(const Largest& largest) {
  __mmask16 outside = 0;
  for (const __m512i columns : largest.columns) {
    const __mmask16 small = _mm512_cmplt_epu32_mask(columns, _mm512_set1_epi32(kLeastOfColumn));
    outside |= small & _mm512_test_epi32_mask(columns, columns);
    outside |= _mm512_cmpgt_epu32_mask(columns, _mm512_set1_epi32(kMost));
  }
  return outside == 0;
}

TANDEM_AMX inline __m512i WidenedBits(__m256bh x) {
  return _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(x));
}

// A step: kStep rows of kColumns floats.
template <int kParts>
TANDEM_AMX void PackStep(const float* rows, Largest& largest, std::byte* out) {
  const __m512i magnitude = _mm512_set1_epi32(kMagnitude);
  for (int half = 0; half < 2; ++half) {
    __m512i most = largest.columns[half];
    for (int64_t pair = 0; pair < kStep / 2; ++pair) {
      const float* row = rows + 2 * pair * kColumns + half * kSide;
      __m512 even = _mm512_loadu_ps(row);
      __m512 odd = _mm512_loadu_ps(row + kColumns);
      most = _mm512_max_epu32(most, _mm512_and_si512(_mm512_castps_si512(even), magnitude));
      most = _mm512_max_epu32(most, _mm512_and_si512(_mm512_castps_si512(odd), magnitude));
      for (int part = 0; part < kParts; ++part) {
        const __m512i low = WidenedBits(_mm512_cvtneps_pbh(even));
        const __m512i high = _mm512_slli_epi32(WidenedBits(_mm512_cvtneps_pbh(odd)), 16);
        _mm512_storeu_si512(out + (2 * part + half) * kTileBytes + pair * 64,
                            _mm512_or_si512(low, high));
        even = _mm512_sub_ps(even, _mm512_castsi512_ps(_mm512_slli_epi32(low, 16)));
        odd = _mm512_sub_ps(odd, _mm512_castsi512_ps(high));
      }
    }
    largest.columns[half] = most;
  }
}

// The nearest bfloat16, for all numbers: huge ones become the largest, small ones keep what they
// have.
uint16_t Round(float x) {
  constexpr uint32_t kMostFinite = 0x7f7f0000;
  const auto bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  if (std::isinf(x)) return static_cast<uint16_t>(bits >> 16);
  const uint32_t nearest = bits + 0x7fff + (bits >> 16 & 1);
  const uint32_t most = std::min(nearest & kMagnitude, kMostFinite);
  return static_cast<uint16_t>((most | (bits & ~kMagnitude)) >> 16);
}

void PackRoundedStep(const float* rows, std::byte* out) {
  auto* to = reinterpret_cast<uint16_t*>(out);
  for (int64_t half = 0; half < 2; ++half) {
    for (int64_t pair = 0; pair < kStep / 2; ++pair) {
      for (int64_t column = 0; column < kSide; ++column) {
        for (int64_t i = 0; i < 2; ++i) {
          *to++ = Round(rows[(2 * pair + i) * kColumns + half * kSide + column]);
        }
      }
    }
  }
}

// The rows of a step, zeros beyond k.
void ReadStep(int64_t first, int64_t k, PanelReader read, float* rows) {
  const int64_t count = std::min(kStep, k - first);
  read(first, count, rows);
  std::fill(rows + count * kColumns, rows + kStep * kColumns, 0.0f);
}

template <int kParts>
TANDEM_AMX void PackPanelOf(int64_t k, PanelReader read, float* panel) {
  alignas(64) float rows[kStep * kColumns];
  auto* parts = reinterpret_cast<std::byte*>(panel + kHeadFloats);
  std::fill_n(panel, kHeadFloats, 0.0f);
  Largest largest;
  Clear(largest);
  for (int64_t at = 0; at < k; at += kStep) {
    ReadStep(at, k, read, rows);
    PackStep<kParts>(rows, largest, parts + at / kStep * StepBytes(kParts));
  }
  if (IsInRange(largest)) return;
  if constexpr (kParts > 1) {
    SetKind(PanelKind::kPlain, panel);
    read(0, k, panel + kHeadFloats);
    return;
  }
  SetKind(PanelKind::kPartsOfPlain, panel);
  for (int64_t at = 0; at < k; at += kStep) {
    ReadStep(at, k, read, rows);
    PackRoundedStep(rows, parts + at / kStep * StepBytes(kParts));
  }
}

}  // namespace

template <int kParts>
void PackPanel(int64_t k, PanelReader read, float* panel) {
  PackPanelOf<kParts>(k, read, panel);
}

template void PackPanel<1>(int64_t, PanelReader, float*);
template void PackPanel<2>(int64_t, PanelReader, float*);
template void PackPanel<3>(int64_t, PanelReader, float*);

TANDEM_AMX void PutTogether(const std::byte* parts, int count, int64_t steps, float* rows) {
  const __m512i odd = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  for (int64_t step = 0; step < steps; ++step, parts += StepBytes(count)) {
    for (int64_t half = 0; half < 2; ++half) {
      for (int64_t pair = 0; pair < kStep / 2; ++pair) {
        __m512 sums[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
        for (int64_t part = count - 1; part >= 0; --part) {
          const __m512i bits =
              _mm512_loadu_si512(parts + (2 * part + half) * kTileBytes + pair * 64);
          sums[0] = _mm512_add_ps(sums[0], _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16)));
          sums[1] = _mm512_add_ps(sums[1], _mm512_castsi512_ps(_mm512_and_si512(bits, odd)));
        }
        float* row = rows + (step * kStep + 2 * pair) * kColumns + half * kSide;
        _mm512_storeu_ps(row, sums[0]);
        _mm512_storeu_ps(row + kColumns, sums[1]);
      }
    }
  }
}

}  // namespace tandem::kernels::amx
