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

// Rows whose sums, two vectors of B, one of A and a product fill the registers.
#if HWY_TARGET == HWY_AVX3
constexpr int kMaxRows = 14;
#else
constexpr int kMaxRows = 6;
#endif
constexpr int kVectors = 2;  // of one panel
constexpr int64_t kLanes = HWY_LANES(int32_t);
constexpr int64_t kPanelColumns = kVectors * kLanes;
constexpr int64_t kVectorBytes = kLanes * kDotBytes;
constexpr int64_t kPieceGroups = 256;  // k-groups of which sums are made at a time

enum class Sign : uint8_t { kUnsigned, kSigned };

// Every other byte of each k-group as 16 bits: 0 and 2, or 1 and 3. Products of two such are exact.
enum Half { kEven, kOdd };
template <Sign kSign, Half kHalf>
HWY_INLINE V16 Widen(V32 bytes) {
  const D16 d16;
  const DU16 du16;
  if constexpr (kSign == Sign::kUnsigned) {
    if constexpr (kHalf == kEven) return hn::And(hn::BitCast(d16, bytes), hn::Set(d16, 0xFF));
    return hn::BitCast(d16, hn::ShiftRight<8>(hn::BitCast(du16, bytes)));
  } else {
    if constexpr (kHalf == kOdd) return hn::ShiftRight<8>(hn::BitCast(d16, bytes));
    return hn::ShiftRight<8>(hn::ShiftLeft<8>(hn::BitCast(d16, bytes)));
  }
}

// A piece of the rows of A, widened once for all panels.
struct WideRows {
  // Two halves of each k-group; a vector more than a piece, as whole ones are written.
  HWY_ALIGN int32_t words[kMaxRows][2][kPieceGroups + kLanes];

  // Groups of `count` bytes from `from` on, zeros behind them, to those from `group` on.
  template <Sign kA>
  HWY_INLINE void Put(int row, int64_t group, const std::byte* from, int64_t count) {
    const D32 d;
    const auto put = [&](V32 bytes) TANDEM_INLINE_LAMBDA {
      hn::StoreU(hn::BitCast(d, Widen<kA, kEven>(bytes)), d, words[row][kEven] + group);
      hn::StoreU(hn::BitCast(d, Widen<kA, kOdd>(bytes)), d, words[row][kOdd] + group);
      group += kLanes;
    };
    for (; count >= kVectorBytes; count -= kVectorBytes, from += kVectorBytes) {
      put(hn::LoadU(d, reinterpret_cast<const int32_t*>(from)));
    }
    if (count == 0) return;
    HWY_ALIGN std::byte last[kVectorBytes] = {};
    std::memcpy(last, from, static_cast<size_t>(count));
    put(hn::Load(d, reinterpret_cast<const int32_t*>(last)));
  }
};

// A place in the runs of a sum.
struct Place {
  int64_t tap = 0;
  int64_t k = 0;  // in the run, a multiple of kDotBytes
};

// Puts the k-groups from `place` on into `rows`, until they are full or all are there; moves
// `place` on and returns how many.
template <Sign kA>
HWY_INLINE int64_t PutPiece(const IntegerTile& tile, Place& place, WideRows& rows) {
  int64_t groups = 0;
  while (place.tap < tile.taps && groups < kPieceGroups) {
    const int64_t count = HWY_MIN(tile.depth - place.k, (kPieceGroups - groups) * kDotBytes);
    const std::byte* const* runs = tile.rows + place.tap * tile.row_step;
    for (int r = 0; r < tile.row_count; ++r) {
      rows.Put<kA>(r, groups, runs[r] + place.k, count);
    }
    groups += (count + kDotBytes - 1) / kDotBytes;
    place.k += count;
    if (place.k < tile.depth) continue;
    place.k = 0;
    ++place.tap;
  }
  return groups;
}

template <int kRows>
struct Sums {
  V32 v[kRows][kVectors];

  // Replaces each by function(row, vector, sum).
  template <class Function>
  HWY_INLINE void Each(const Function& function) {
    TANDEM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      TANDEM_UNROLL
      for (int j = 0; j < kVectors; ++j) v[r][j] = function(r, j, v[r][j]);
    }
  }
};

// One half of each k-group.
template <Sign kB, Half kHalf, int kRows>
HWY_INLINE void AddHalves(const WideRows& rows, int64_t groups, const std::byte* b,
                          Sums<kRows>& sums) {
  const D32 d;
  for (int64_t group = 0; group < groups; ++group, b += kVectors * kVectorBytes) {
    V16 right[kVectors];
    TANDEM_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      right[j] = Widen<kB, kHalf>(hn::Load(d, reinterpret_cast<const int32_t*>(b) + j * kLanes));
    }
    sums.Each([&](int r, int j, V32 sum) TANDEM_INLINE_LAMBDA {
      const V16 left = hn::BitCast(D16(), hn::Set(d, rows.words[r][kHalf][group]));
      V32 unused = hn::Zero(d);  // the sum of pairs is whole on x86
      return hn::ReorderWidenMulAccumulate(d, left, right[j], sum, unused);
    });
  }
}

// Adds `groups` of kRows rows times a panel, which continues at `b`, to `to`, or puts them there.
template <Sign kA, int kRows>
void RunPanel(const WideRows& rows, int64_t groups, const std::byte* b, bool first, int32_t* to,
              int64_t stride) {
  constexpr Sign kB = kA == Sign::kUnsigned ? Sign::kSigned : Sign::kUnsigned;
  const D32 d;
  Sums<kRows> sums;
  sums.Each([&](int r, int j, V32) TANDEM_INLINE_LAMBDA {
    return first ? hn::Zero(d) : hn::LoadU(d, to + r * stride + j * kLanes);
  });
  // One after the other: the registers hold the sums and what one half takes.
  AddHalves<kB, kEven>(rows, groups, b, sums);
  AddHalves<kB, kOdd>(rows, groups, b, sums);
  sums.Each([&](int r, int j, V32 sum) TANDEM_INLINE_LAMBDA {
    hn::StoreU(sum, d, to + r * stride + j * kLanes);
    return sum;
  });
}

template <Sign kA, int kRows>
void RunPanels(const IntegerTile& tile, const WideRows& rows, int64_t groups, const std::byte* b,
               bool first) {
  if constexpr (kRows > 1) {
    if (tile.row_count < kRows) return RunPanels<kA, kRows - 1>(tile, rows, groups, b, first);
  }
  for (int64_t panel = 0; panel < tile.panels; ++panel) {
    RunPanel<kA, kRows>(rows, groups, b + panel * tile.panel_bytes, first,
                        tile.sums + panel * kPanelColumns, tile.sums_stride);
  }
}

template <Sign kA>
void RunTile(const IntegerTile& tile) {
  WideRows rows;
  Place place;
  const std::byte* b = tile.b;
  bool first = true;
  do {
    const int64_t groups = PutPiece<kA>(tile, place, rows);
    RunPanels<kA, kMaxRows>(tile, rows, groups, b, first);
    b += groups * kVectors * kVectorBytes;
    first = false;
  } while (place.tap < tile.taps);
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
    const V32 bytes = hn::LoadU(d, reinterpret_cast<const int32_t*>(run + k));
    sums = hn::ReorderWidenMulAccumulate(d, Widen<kA, kEven>(bytes), ones, sums, unused);
    sums = hn::ReorderWidenMulAccumulate(d, Widen<kA, kOdd>(bytes), ones, sums, unused);
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
