// Tiles of float32 multiply-adds, whatever the form of packed B. Include in the per-target part of
// a file that uses hwy/foreach_target.h.
//
// `Panels` reads neighbouring panels: Panels(tile, column) stands at the first k of the tile, in
// the panel that holds `column`; Load(j) are the floats of vector j, counted from there on over
// panels; Next() goes to the next k; Pack is TileKernel::pack.
#if defined(TANDEM_KERNELS_GEMM_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_GEMM_TILE_INL_H_
#undef TANDEM_KERNELS_GEMM_TILE_INL_H_
#else
#define TANDEM_KERNELS_GEMM_TILE_INL_H_
#endif

#include <cstring>

#include "engine/kernels/ceil_div.h"
#include "engine/kernels/epilogue-inl.h"
#include "engine/kernels/gemm/tile.h"
#include "engine/kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = FloatTag;
using V = FloatVec;

#if HWY_TARGET == HWY_AVX3
constexpr int kMaxRows = 14;  // 28 sums, 2 of B and 1 of A in 32 registers
#elif HWY_TARGET == HWY_AVX2
constexpr int kMaxRows = 6;  // 12 sums, 2 of B and 1 of A in 16 registers
#else
constexpr int kMaxRows = 4;
#endif
constexpr int kVectors = 2;  // of one panel
constexpr int64_t kLanes = HWY_LANES(float);
constexpr int64_t kPanelColumns = kVectors * kLanes;
// What is read next is fetched every so many steps in k.
constexpr int64_t kFetchSteps = 8;
constexpr int64_t kLine = 16;  // floats of a cache line

// Floats that are fetched at once.
inline int64_t FloatsOfStep(const Tile& tile) {
  if (tile.fetch.from == nullptr) return 0;
  const int64_t steps = tile.taps * CeilDiv(tile.depth, kFetchSteps);
  return CeilDiv(tile.fetch.floats, HWY_MAX(int64_t{1}, steps));
}

template <int kRows, int kCount>
struct Sums {
  V v[kRows][kCount];
};

// Applies `function(row, vector, sum)` to every sum.
template <int kRows, int kCount, class Function>
HWY_INLINE void ForSums(Sums<kRows, kCount>& sums, Function function) {
  TANDEM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TANDEM_UNROLL
    for (int j = 0; j < kCount; ++j) sums.v[r][j] = function(r, j, sums.v[r][j]);
  }
}

// Stores sums behind their epilogue. access(j) is that of vector j.
template <int kRows, int kCount, class Access>
HWY_INLINE void FinishSums(const Tile& tile, int64_t column, Access access,
                           Sums<kRows, kCount>& sums) {
  if (tile.end == TileEnd::kFinal && tile.epilogue != nullptr) {
    const auto for_sums = [&](auto function) TANDEM_INLINE_LAMBDA { ForSums(sums, function); };
    const auto operand = [&](size_t stage, OperandKind kind, int r, int j) TANDEM_INLINE_LAMBDA {
      return LoadOperand(kind, tile.operands[stage], tile.row + r * tile.row_step_of_operands,
                         tile.column + column + j * kLanes, access(j));
    };
    ApplyStages<kRows * kCount>(*tile.epilogue, for_sums, operand);
  }
  float* c = tile.c + column;
  ForSums(sums, [&](int r, int j, V x) TANDEM_INLINE_LAMBDA {
    access(j).Store(x, c + r * tile.c_row_stride + j * kLanes);
    return x;
  });
}

// kRows rows times kCount vectors of columns, which make whole panels, of which the first is the
// one with column `column`; or the first vector of the last panel.
template <class Panels, int kRows, int kCount>
void RunPanels(const Tile& tile, int64_t column) {
  const D d;
  Sums<kRows, kCount> sums;
  const int64_t columns = HWY_MIN(tile.columns - column, kCount * kLanes);
  const auto access = [&](int j) TANDEM_INLINE_LAMBDA {
    return First{HWY_MAX(int64_t{0}, HWY_MIN(kLanes, columns - j * kLanes))};
  };
  float* c = tile.c + column;
  if (tile.start == TileStart::kZero) {
    ForSums(sums, [&](int, int, V) TANDEM_INLINE_LAMBDA { return hn::Zero(d); });
  } else {
    ForSums(sums, [&](int r, int j, V) TANDEM_INLINE_LAMBDA {
      return access(j).Load(c + r * tile.c_row_stride + j * kLanes);
    });
  }

  Panels panels(tile, column);
  const float* fetch = tile.fetch.from + column / kPanelColumns * tile.fetch.panel_step;
  const int64_t fetched = FloatsOfStep(tile);
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const float* a[kRows];
    TANDEM_UNROLL
    for (int r = 0; r < kRows; ++r) a[r] = tile.rows[tap * tile.row_step + r];
    for (int64_t k = 0; k < tile.depth; ++k, panels.Next()) {
      if (k % kFetchSteps == 0) {
        for (int64_t i = 0; i < fetched; i += kLine) __builtin_prefetch(fetch + i, 0, 2);
        fetch += fetched;
      }
      V right[kCount];
      TANDEM_UNROLL
      for (int j = 0; j < kCount; ++j) {
        right[j] = panels.Load(j);
      }
      TANDEM_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const V left = hn::Set(d, a[r][k]);
        TANDEM_UNROLL
        for (int j = 0; j < kCount; ++j) {
          sums.v[r][j] = hn::MulAdd(left, right[j], sums.v[r][j]);
        }
      }
    }
  }

  if (columns == kCount * kLanes) {
    const auto whole = [](int) TANDEM_INLINE_LAMBDA { return Whole(); };
    FinishSums(tile, column, whole, sums);
  } else {
    FinishSums(tile, column, access, sums);
  }
}

// All panels of a tile of kRows rows. Few rows take several panels at once, so that enough
// independent sums are on their way.
template <class Panels, int kRows>
void RunRows(const Tile& tile) {
  constexpr int kPanels = kRows == 1 ? 4 : (kRows <= kMaxRows / 2 && kRows <= 3 ? 2 : 1);
  int64_t column = 0;
  if constexpr (kPanels > 1) {
    for (; tile.columns - column >= kPanels * kPanelColumns; column += kPanels * kPanelColumns) {
      RunPanels<Panels, kRows, kPanels * kVectors>(tile, column);
    }
  }
  for (; tile.columns - column > kLanes; column += kPanelColumns) {
    RunPanels<Panels, kRows, kVectors>(tile, column);
  }
  if (column < tile.columns) RunPanels<Panels, kRows, 1>(tile, column);
}

template <class Panels, int kRows>
void RunTileOf(const Tile& tile) {
  if constexpr (kRows > 1) {
    if (tile.row_count < kRows) return RunTileOf<Panels, kRows - 1>(tile);
  }
  RunRows<Panels, kRows>(tile);
}

// Rows that lie a multiple of this apart share the few lines of one set of a first-level cache.
constexpr int64_t kAliasBytes = 4096;
constexpr int64_t kCopiedFloats = 256;               // of one row at a time
constexpr int64_t kCopyStride = kCopiedFloats + 16;  // spreads the copies over the sets

inline bool RowsAlias(const Tile& tile) {
  if (tile.row_count <= 4) return false;
  for (int r = 1; r < 4; ++r) {
    const int64_t bytes =
        reinterpret_cast<intptr_t>(tile.rows[r]) - reinterpret_cast<intptr_t>(tile.rows[r - 1]);
    if (bytes % kAliasBytes != 0) return false;
  }
  return tile.depth > 64;
}

// The same tile on copies of pieces of its rows, on which the prologue is applied; sums go on from
// piece to piece in the same order.
template <class Panels>
HWY_NOINLINE void RunCopied(const Tile& tile) {
  HWY_ALIGN float copies[kMaxRows * kCopyStride];
  const float* rows[kMaxRows];
  for (int r = 0; r < kMaxRows; ++r) rows[r] = copies + r * kCopyStride;
  Tile piece = tile;
  piece.rows = rows;
  piece.taps = 1;
  piece.end = TileEnd::kPartial;
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    for (int64_t done = 0; done < tile.depth; done += kCopiedFloats) {
      piece.depth = HWY_MIN(kCopiedFloats, tile.depth - done);
      for (int r = 0; r < tile.row_count; ++r) {
        const float* row = tile.rows[tap * tile.row_step + r] + done;
        float* copy = copies + r * kCopyStride;
        if (tile.prologue != nullptr) {
          ApplyPrologue(*tile.prologue, {row, piece.k, piece.depth}, copy);
        } else {
          std::memcpy(copy, row, static_cast<size_t>(piece.depth) * sizeof(float));
        }
      }
      const bool last = tap + 1 == tile.taps && done + piece.depth == tile.depth;
      if (last) piece.end = tile.end;
      RunTileOf<Panels, kMaxRows>(piece);
      piece.start = TileStart::kResume;
      piece.fetch = {};
      piece.k += piece.depth;
    }
  }
}

template <class Panels>
void RunTile(const Tile& tile) {
  const bool transforms = tile.prologue != nullptr && tile.depth > 0;
  if (transforms || RowsAlias(tile)) return RunCopied<Panels>(tile);
  RunTileOf<Panels, kMaxRows>(tile);
}

// A kernel on panels of which `step` neighbours in k take kPanelColumns floats.
template <class Panels>
TileKernel MakeTileKernelOn() {
  TileKernel kernel;
  kernel.max_rows = kMaxRows;
  kernel.panel_columns = static_cast<int>(kPanelColumns);
  kernel.step_floats = kPanelColumns;
  kernel.pack = &Panels::Pack;
  kernel.run = &RunTile<Panels>;
  return kernel;
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
