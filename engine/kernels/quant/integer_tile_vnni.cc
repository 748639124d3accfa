// The tile on AVX-512 VNNI, whose dot products of four bytes are exact in int32 (vpdpbusd).
#include <cstring>
#include <numeric>

#include "engine/kernels/quant/integer_tile.h"
#include "engine/kernels/quant/vnni.h"
#include "engine/kernels/simd.h"

namespace tandem::kernels {
namespace {

constexpr int kMaxRows = 14;  // 28 sums, 2 of B and 1 of A in 32 registers
constexpr int kVectors = 2;   // of one panel
constexpr int64_t kLanes = 16;
constexpr int64_t kVectorBytes = kLanes * kDotBytes;

template <ByteSigns kSigns>
TANDEM_VNNI inline __m512i AddDot(__m512i sum, __m512i a, __m512i b) {
  if constexpr (kSigns == ByteSigns::kUnsignedA) {
    return _mm512_dpbusd_epi32(sum, a, b);
  } else {
    return _mm512_dpbusd_epi32(sum, b, a);
  }
}

template <int kRows, int kCount>
struct Sums {
  __m512i v[kRows][kCount];
};

// One k-group of kRows rows, at `offset` bytes from their starts.
template <ByteSigns kSigns, int kRows, int kCount>
TANDEM_VNNI inline void AddGroup(const IntegerTile& tile, const std::byte* const* a, int64_t offset,
                                 const std::byte* b, Sums<kRows, kCount>& sums) {
  __m512i right[kCount];
  TANDEM_UNROLL
  for (int j = 0; j < kCount; ++j) {
    right[j] = _mm512_load_si512(b + j / kVectors * tile.panel_bytes + j % kVectors * kVectorBytes);
  }
  TANDEM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    int32_t word;
    std::memcpy(&word, a[r] + offset, sizeof(word));
    const __m512i left = _mm512_set1_epi32(word);
    TANDEM_UNROLL
    for (int j = 0; j < kCount; ++j) {
      sums.v[r][j] = AddDot<kSigns>(sums.v[r][j], left, right[j]);
    }
  }
}

// kRows rows times kCount vectors of columns, which make whole panels from `panel` on.
template <ByteSigns kSigns, int kRows, int kCount>
TANDEM_VNNI void RunPanels(const IntegerTile& tile, int64_t panel) {
  Sums<kRows, kCount> sums;
  TANDEM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TANDEM_UNROLL
    for (int j = 0; j < kCount; ++j) sums.v[r][j] = _mm512_setzero_si512();
  }
  const std::byte* b = tile.b + panel * tile.panel_bytes;
  const int64_t whole = tile.depth / kDotBytes * kDotBytes;
  const auto rest = static_cast<size_t>(tile.depth - whole);
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const std::byte* a[kRows];
    TANDEM_UNROLL
    for (int r = 0; r < kRows; ++r) a[r] = tile.rows[tap * tile.row_step + r];
    for (int64_t k = 0; k < whole; k += kDotBytes, b += kVectors * kVectorBytes) {
      AddGroup<kSigns>(tile, a, k, b, sums);
    }
    if (rest == 0) continue;
    std::byte last[kRows][kDotBytes] = {};
    for (int r = 0; r < kRows; ++r) {
      std::memcpy(last[r], a[r] + whole, rest);
      a[r] = last[r];
    }
    AddGroup<kSigns>(tile, a, 0, b, sums);
    b += kVectors * kVectorBytes;
  }
  int32_t* to = tile.sums + panel * kVectors * kLanes;
  TANDEM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TANDEM_UNROLL
    for (int j = 0; j < kCount; ++j) {
      _mm512_storeu_si512(to + r * tile.sums_stride + j * kLanes, sums.v[r][j]);
    }
  }
}

// Few rows take several panels at once, so that enough independent sums are on their way.
template <ByteSigns kSigns, int kRows>
void RunRows(const IntegerTile& tile) {
  constexpr int kPanels = kRows == 1 ? 4 : (kRows <= 3 ? 2 : 1);
  int64_t panel = 0;
  if constexpr (kPanels > 1) {
    for (; panel + kPanels <= tile.panels; panel += kPanels) {
      RunPanels<kSigns, kRows, kPanels * kVectors>(tile, panel);
    }
  }
  for (; panel < tile.panels; ++panel) RunPanels<kSigns, kRows, kVectors>(tile, panel);
}

template <ByteSigns kSigns, int kRows>
void RunTileOf(const IntegerTile& tile) {
  if constexpr (kRows > 1) {
    if (tile.row_count < kRows) return RunTileOf<kSigns, kRows - 1>(tile);
  }
  RunRows<kSigns, kRows>(tile);
}

template <ByteSigns kSigns>
void RunTile(const IntegerTile& tile) {
  RunTileOf<kSigns, kMaxRows>(tile);
}

template <ByteSigns kSigns>
TANDEM_VNNI int32_t SumRun(const std::byte* run, int64_t depth) {
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i sums = _mm512_setzero_si512();
  for (int64_t k = 0; k < depth; k += kVectorBytes) {
    const int64_t left = depth - k;
    const __mmask64 mask = left >= kVectorBytes ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
    const __m512i bytes = _mm512_maskz_loadu_epi8(mask, run + k);
    sums = kSigns == ByteSigns::kUnsignedA ? _mm512_dpbusd_epi32(sums, bytes, ones)
                                           : _mm512_dpbusd_epi32(sums, ones, bytes);
  }
  alignas(64) int32_t lanes[kLanes];
  _mm512_store_si512(lanes, sums);
  return std::accumulate(lanes, lanes + kLanes, 0);
}

template <ByteSigns kSigns>
IntegerTileKernel Make() {
  return {kMaxRows, kVectors * kLanes, &RunTile<kSigns>, &SumRun<kSigns>};
}

}  // namespace

IntegerTileKernel VnniTileKernel(ByteSigns signs) {
  return signs == ByteSigns::kUnsignedA ? Make<ByteSigns::kUnsignedA>()
                                        : Make<ByteSigns::kSignedA>();
}

}  // namespace tandem::kernels
