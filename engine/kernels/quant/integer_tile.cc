// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/quant/integer_tile.cc"
#include <cstring>
#include "hwy/foreach_target.h"  // before every other Highway header
#include "engine/kernels/quant/integer_tile.h"
#include "engine/kernels/simd.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2

namespace hn = hwy::HWY_NAMESPACE;

using D32 = hn::ScalableTag<int32_t>;
using D16 = hn::ScalableTag<int16_t>;
using DU16 = hn::ScalableTag<uint16_t>;
using V32 = hn::Vec<D32>;
using V16 = hn::Vec<D16>;

#if HWY_TARGET == HWY_AVX3
constexpr int kMaxRows = 11;  // 22 sums, 4 of B, 2 of A, masks and products in 32 registers
#else
constexpr int kMaxRows = 4;  // 8 sums, 4 of B, 2 of A and a product in 16 registers
#endif
constexpr int kVectors = 2;  // of one panel
constexpr int64_t kLanes = HWY_LANES(int32_t);
constexpr int64_t kPanelColumns = kVectors * kLanes;

enum class Sign : uint8_t { kUnsigned, kSigned };

// The bytes of each k-group, widened: 0 and 2, 1 and 3.
struct Widened {
  V16 even;
  V16 odd;
};
template <Sign kSign>
HWY_INLINE Widened Widen(V32 bytes) {
  const D16 d16;
  const DU16 du16;
  if constexpr (kSign == Sign::kUnsigned) {
    return {hn::And(hn::BitCast(d16, bytes), hn::Set(d16, 0xFF)),
            hn::BitCast(d16, hn::ShiftRight<8>(hn::BitCast(du16, bytes)))};
  } else {
    return {hn::ShiftRight<8>(hn::ShiftLeft<8>(hn::BitCast(d16, bytes))),
            hn::ShiftRight<8>(hn::BitCast(d16, bytes))};
  }
}

template <int kRows>
struct Sums {
  V32 v[kRows][kVectors];
};

// One k-group of kRows rows, at `offset` bytes from their starts.
template <Sign kA, int kRows>
HWY_INLINE void AddGroup(const std::byte* const* a, int64_t offset, const std::byte* b,
                         Sums<kRows>& sums) {
  constexpr Sign kB = kA == Sign::kUnsigned ? Sign::kSigned : Sign::kUnsigned;
  const D32 d;
  Widened right[kVectors];
  TANDEM_UNROLL
  for (int j = 0; j < kVectors; ++j) {
    right[j] = Widen<kB>(hn::Load(d, reinterpret_cast<const int32_t*>(b) + j * kLanes));
  }
  TANDEM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    int32_t word;
    std::memcpy(&word, a[r] + offset, sizeof(word));
    const Widened left = Widen<kA>(hn::Set(d, word));
    TANDEM_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      V32 unused = hn::Zero(d);  // the sum of pairs is whole on x86
      V32 sum = hn::ReorderWidenMulAccumulate(d, left.even, right[j].even, sums.v[r][j], unused);
      sums.v[r][j] = hn::ReorderWidenMulAccumulate(d, left.odd, right[j].odd, sum, unused);
    }
  }
}

template <Sign kA, int kRows>
void RunPanel(const IntegerTile& tile, int64_t panel) {
  const D32 d;
  Sums<kRows> sums;
  TANDEM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TANDEM_UNROLL
    for (int j = 0; j < kVectors; ++j) sums.v[r][j] = hn::Zero(d);
  }
  const std::byte* b = tile.b + panel * tile.panel_bytes;
  const int64_t whole = tile.depth / kDotBytes * kDotBytes;
  const auto rest = static_cast<size_t>(tile.depth - whole);
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const std::byte* a[kRows];
    TANDEM_UNROLL
    for (int r = 0; r < kRows; ++r) a[r] = tile.rows[tap * tile.row_step + r];
    for (int64_t k = 0; k < whole; k += kDotBytes, b += kPanelColumns * kDotBytes) {
      AddGroup<kA>(a, k, b, sums);
    }
    if (rest == 0) continue;
    std::byte last[kRows][kDotBytes] = {};
    for (int r = 0; r < kRows; ++r) {
      std::memcpy(last[r], a[r] + whole, rest);
      a[r] = last[r];
    }
    AddGroup<kA>(a, 0, b, sums);
    b += kPanelColumns * kDotBytes;
  }
  int32_t* to = tile.sums + panel * kPanelColumns;
  TANDEM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TANDEM_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      hn::StoreU(sums.v[r][j], d, to + r * tile.sums_stride + j * kLanes);
    }
  }
}

template <Sign kA, int kRows>
void RunTileOf(const IntegerTile& tile) {
  if constexpr (kRows > 1) {
    if (tile.row_count < kRows) return RunTileOf<kA, kRows - 1>(tile);
  }
  for (int64_t panel = 0; panel < tile.panels; ++panel) RunPanel<kA, kRows>(tile, panel);
}

template <Sign kA>
void RunTile(const IntegerTile& tile) {
  RunTileOf<kA, kMaxRows>(tile);
}

template <Sign kA>
int32_t SumRun(const std::byte* run, int64_t depth) {
  const D32 d;
  const hn::ScalableTag<int16_t> d16;
  const V16 ones = hn::Set(d16, 1);
  V32 sums = hn::Zero(d);
  V32 unused = hn::Zero(d);
  int64_t k = 0;
  for (; k + kLanes * kDotBytes <= depth; k += kLanes * kDotBytes) {
    const Widened bytes = Widen<kA>(hn::LoadU(d, reinterpret_cast<const int32_t*>(run + k)));
    sums = hn::ReorderWidenMulAccumulate(d, bytes.even, ones, sums, unused);
    sums = hn::ReorderWidenMulAccumulate(d, bytes.odd, ones, sums, unused);
  }
  int32_t sum = hn::GetLane(hn::SumOfLanes(d, sums));
  for (; k < depth; ++k) {
    const int32_t element = std::to_integer<int32_t>(run[k]);
    sum += kA == Sign::kUnsigned ? element : static_cast<int8_t>(element);
  }
  return sum;
}

IntegerTileKernel MakeIntegerTileKernel(ByteSigns signs) {
  if (signs == ByteSigns::kUnsignedA) {
    return {kMaxRows, kPanelColumns, &RunTile<Sign::kUnsigned>, &SumRun<Sign::kUnsigned>};
  }
  return {kMaxRows, kPanelColumns, &RunTile<Sign::kSigned>, &SumRun<Sign::kSigned>};
}

#else

constexpr int64_t kPanelColumns = 8;

template <typename T>
int32_t ElementOf(const std::byte* run, int64_t k) {
  return static_cast<T>(run[k]);
}

template <typename A, typename B>
void AddRun(const IntegerTile& tile, const std::byte* a, const std::byte* b, int32_t* sums) {
  for (int64_t k = 0; k < tile.depth; ++k) {
    const int32_t left = ElementOf<A>(a, k);
    const std::byte* group = b + k / kDotBytes * kPanelColumns * kDotBytes + k % kDotBytes;
    for (int64_t j = 0; j < kPanelColumns; ++j) {
      const int32_t product = left * ElementOf<B>(group, j * kDotBytes);
      sums[j] =
          static_cast<int32_t>(static_cast<uint32_t>(sums[j]) + static_cast<uint32_t>(product));
    }
  }
}

template <typename A, typename B>
void RunTile(const IntegerTile& tile) {
  const int64_t groups = (tile.depth + kDotBytes - 1) / kDotBytes;
  for (int64_t panel = 0; panel < tile.panels; ++panel) {
    for (int r = 0; r < tile.row_count; ++r) {
      int32_t* sums = tile.sums + r * tile.sums_stride + panel * kPanelColumns;
      for (int64_t j = 0; j < kPanelColumns; ++j) sums[j] = 0;
      const std::byte* b = tile.b + panel * tile.panel_bytes;
      for (int64_t tap = 0; tap < tile.taps; ++tap, b += groups * kPanelColumns * kDotBytes) {
        AddRun<A, B>(tile, tile.rows[tap * tile.row_step + r], b, sums);
      }
    }
  }
}

template <typename A>
int32_t SumRun(const std::byte* run, int64_t depth) {
  int32_t sum = 0;
  for (int64_t k = 0; k < depth; ++k) sum += ElementOf<A>(run, k);
  return sum;
}

IntegerTileKernel MakeIntegerTileKernel(ByteSigns signs) {
  constexpr int kRows = 4;
  if (signs == ByteSigns::kUnsignedA) {
    return {kRows, kPanelColumns, &RunTile<uint8_t, int8_t>, &SumRun<uint8_t>};
  }
  return {kRows, kPanelColumns, &RunTile<int8_t, uint8_t>, &SumRun<int8_t>};
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels {

HWY_EXPORT(MakeIntegerTileKernel);

IntegerTileKernel IntegerTileKernelFor(Isa isa, ByteSigns signs) {
  if (isa >= Isa::kAmx) return AmxIntegerTileKernel(signs);
  if (isa >= Isa::kVnni) return VnniTileKernel(signs);
  return TANDEM_DISPATCH(isa, MakeIntegerTileKernel)(signs);
}

}  // namespace tandem::kernels
#endif  // HWY_ONCE
