// The inner kernel of every GEMM-like product: a few rows of A, given as pointers, times panels of
// packed B. A row of A is a list of contiguous runs ("taps"), so a convolution over channels-last
// activations points at its input where a matrix product points at its rows.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "engine/base/precision.h"
#include "engine/kernels/epilogue.h"
#include "engine/kernels/gemm/prologue.h"

namespace tandem::kernels {

enum class TileStart : uint8_t {
  kZero,    // sums start at 0
  kResume,  // sums start at what C holds: a long row is computed piece by piece
};
enum class TileEnd : uint8_t {
  kPartial,  // C receives the sums
  kFinal,    // C receives the epilogue of the sums
};

struct Tile {
  // Run `tap` of row r starts at rows[tap * row_step + r] and is `depth` floats long.
  const float* const* rows = nullptr;
  int64_t row_step = 0;
  int row_count = 0;  // 1 to TileKernel::max_rows
  int64_t taps = 1;
  int64_t depth = 0;
  // The same runs as TileKernel::cut leaves them; null: the kernel cuts them itself.
  const float* const* cut = nullptr;
  int64_t k = 0;  // of the first element of the runs, in packed B and in the prologue's operands
  const Prologue* prologue = nullptr;  // null: none; only with one tap
  // Packed panels, of which the first starts at `b`; `panel_floats` from one to the next.
  const float* b = nullptr;
  int64_t panel_floats = 0;
  int64_t first_k = 0;  // of the panels
  int64_t columns = 0;  // any number; those of the last panel may be fewer than it holds
  // Memory that is read next, which kernels that wait for memory fetch meanwhile; where they take
  // several panels at once, with the first of these only.
  struct Fetch {
    const float* from = nullptr;  // with the first panel; null: nothing
    int64_t floats = 0;           // with each panel
    int64_t panel_step = 0;       // from what one panel fetches to the next
  } fetch;
  float* c = nullptr;  // element (0, 0) of the tile
  int64_t c_row_stride = 0;
  TileStart start = TileStart::kZero;
  TileEnd end = TileEnd::kFinal;
  const Epilogue* epilogue = nullptr;
  const EpilogueOperand* operands = nullptr;
  int64_t row = 0;  // of C's element (0, 0) in the operands
  int64_t column = 0;
  int64_t row_step_of_operands = 1;  // from one row of the tile to the next
};

// Writes the elements of a panel's columns for k, k + 1, ..., k + count - 1, row by row. Columns
// beyond the matrix are zeros.
using PanelReader = absl::FunctionRef<void(int64_t k, int64_t count, float* rows)>;

struct TileKernel {
  std::string_view name;  // "bf16x3"; empty for multiply-adds of float32 with such weights
  int max_rows = 0;
  int panel_columns = 0;
  // A panel is a head and, for each `step` neighbours in k, so many floats.
  int64_t head_floats = 0;
  // The head begins with the scales and the zero points of the columns; `pack` reads integers.
  bool has_scales = false;
  int64_t step = 1;
  int64_t step_floats = 0;
  void (*pack)(int64_t k, PanelReader read, float* panel) = nullptr;
  // Pieces that a long sum is cut into, at the most: that of a panel and those of a tile's rows, 46
  // KiB with AVX-512, fit a first-level cache.
  int64_t depth = 256;
  int64_t group_floats = int64_t{1} << 15;  // of packed B that are multiplied by a block of rows
  void (*run)(const Tile& tile) = nullptr;
  // Kernels that turn panels into floats as they read them can do it once for several tiles: writes
  // the tile's taps * depth rows of its panels as those of the plain kernel. Null for other
  // kernels.
  void (*expand)(const Tile& tile, float* panels) = nullptr;
  void (*run_expanded)(const Tile& tile) = nullptr;
  // Kernels that cut rows into parts before they multiply can be handed runs that are cut, where a
  // run belongs to several rows or a row to several tiles. Null for other kernels. `depth` is a
  // multiple of `step`; a run of zeros is CutFloats(depth) zeros.
  void (*cut)(const float* run, int64_t depth, float* to) = nullptr;
  int64_t cut_head_floats = 0;
  int64_t cut_step_floats = 0;

  int64_t PanelFloats(int64_t k) const { return head_floats + BodyFloats(k); }
  int64_t BodyFloats(int64_t k) const { return (k + step - 1) / step * step_floats; }
  int64_t CutFloats(int64_t depth) const {
    return cut_head_floats + depth / step * cut_step_floats;
  }
};

// The kernel of float32 multiply-adds for `isa`, which is not kReference. Sums go over k in rising
// order, whatever the pieces.
TileKernel PlainTileKernel(Isa isa);

// The same on B of 8-bit integers with a scale and a zero point for each column, which it reads as
// (integer - zero point) * scale: with the bits of PlainTileKernel on these floats.
TileKernel ByteTileKernel(Isa isa);

// The kernel of k x n matrices B: that of bytes for quantised weights; else a sum of bfloat16
// products (amx.h), or the plain one.
TileKernel TileKernelFor(Arithmetic arithmetic, int64_t k, int64_t n);

}  // namespace tandem::kernels
