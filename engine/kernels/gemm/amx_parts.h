// What the files of the AMX kernels share: targets, formats, ranges. Only they include it.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "engine/kernels/amx_registers.h"
#include "engine/kernels/gemm/tile.h"

// Functions that use the instructions; nothing else in their files does.
#define TANDEM_AMX                                                            \
  __attribute__((                                                             \
      target("amx-tile,amx-bf16,avx2,fma,avx512f,avx512bw,avx512dq,avx512vl," \
             "avx512bf16")))

namespace tandem::kernels::amx {

inline constexpr int64_t kStep = 32;     // neighbours in k that one instruction multiplies
inline constexpr int64_t kColumns = 32;  // of a panel: two tiles
inline constexpr int kRows = 32;         // of A: two tiles
inline constexpr int64_t kTileBytes = 1024;

// A panel of packed B is a head, then for each step the parts, and of each part two tiles of 16
// columns, whose rows are pairs of neighbours in k. A step of A has the same form, with 16 rows of
// 32 neighbours in each tile.
enum class PanelKind : uint32_t {
  kParts,
  kPlain,         // of the plain kernel, behind the head
  kPartsOfPlain,  // parts that are put together for the plain kernel
};
inline constexpr int64_t kHeadFloats = 16;

inline constexpr int64_t kPartBytes = 2 * kTileBytes;  // of one part of a step
constexpr int64_t StepBytes(int parts) { return parts * kPartBytes; }

inline PanelKind KindOf(const float* panel) { return std::bit_cast<PanelKind>(panel[0]); }
inline void SetKind(PanelKind kind, float* panel) { panel[0] = std::bit_cast<float>(kind); }
inline const std::byte* PartsOf(const float* panel) {
  return reinterpret_cast<const std::byte*>(panel + kHeadFloats);
}

// Bits of |x|, which are ordered as the numbers are.
inline constexpr uint32_t kMagnitude = 0x7fffffff;
// The largest element of a row of A, or of a column of B, lies between these or is 0: products of
// such rows and columns lose nothing that counts beside the largest of them.
inline constexpr uint32_t kLeastOfRow = (127u - 40) << 23;
inline constexpr uint32_t kLeastOfColumn = (127u - 50) << 23;
inline constexpr uint32_t kMost = (127u + 60) << 23;

// A run of A that is cut: a head with a magnitude that stands for that of its largest element, and
// for each step the parts, of 32 neighbours each.
inline constexpr int64_t kLineBytes = 64;
inline constexpr int64_t kCutHeadFloats = kLineBytes / sizeof(float);
template <int kParts>
void CutRun(const float* run, int64_t depth, float* to);

// A piece of the rows of a tile: `count` elements from `first` on, counted over the taps.
struct Piece {
  int64_t first = 0;
  int64_t count = 0;

  // Places of its first step that lie before it.
  int64_t Lead(const Tile& tile) const { return (tile.k + first) % kStep; }
  int64_t Steps(const Tile& tile) const { return (Lead(tile) + count + kStep - 1) / kStep; }
};

// What was found in a piece; bit r of each is row r.
struct RowsFound {
  uint32_t outside = 0;  // of the range
  uint32_t zero = 0;

  // `most` stands for the largest magnitude of the row.
  void See(int row, uint32_t most) {
    if (most == 0) zero |= 1u << row;
    if (most != 0 && (most < kLeastOfRow || most > kMost)) outside |= 1u << row;
  }
};

// The parts of the piece of every row of the tile: Steps() steps of A, with zeros before and behind
// it.
template <int kParts>
RowsFound CutRows(const Tile& tile, const Piece& piece, std::byte* steps);

// The piece of one row, as floats.
void CopyRow(const Tile& tile, const Piece& piece, int row, float* to);

// Rows of 32 floats of panel columns, put together from the parts of `steps` steps.
void PutTogether(const std::byte* parts, int count, int64_t steps, float* rows);

// Packs a panel in parts; see TileKernel::pack.
template <int kParts>
void PackPanel(int64_t k, PanelReader read, float* panel);

}  // namespace tandem::kernels::amx
