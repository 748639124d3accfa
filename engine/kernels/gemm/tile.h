// The inner kernel of every GEMM-like product: a few rows of A, given as pointers, times panels of
// packed B. A row of A is a list of contiguous runs ("taps"), so a convolution over channels-last
// activations points at its input where a matrix product points at its rows.
#pragma once

#include <cstdint>

#include "engine/base/cpu.h"
#include "engine/kernels/epilogue.h"
#include "engine/kernels/gemm/prologue.h"

namespace tandem::kernels {

enum class TileStart : uint8_t {
  kZero,    // sums start at 0
  kResume,  // sums start at what C holds: a long row is computed piece by piece with the same bits
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
  int64_t k = 0;  // of the first element of the runs in the prologue's operands
  const Prologue* prologue = nullptr;  // null: none; only with one tap
  // Packed panels, of which the first starts at `b`; `panel_floats` from one to the next.
  const float* b = nullptr;
  int64_t panel_floats = 0;
  int64_t columns = 0;  // any number; those of the last panel may be fewer than it holds
  float* c = nullptr;   // element (0, 0) of the tile
  int64_t c_row_stride = 0;
  TileStart start = TileStart::kZero;
  TileEnd end = TileEnd::kFinal;
  const Epilogue* epilogue = nullptr;
  const EpilogueOperand* operands = nullptr;
  int64_t row = 0;  // of C's element (0, 0) in the operands
  int64_t column = 0;
  int64_t row_step_of_operands = 1;  // from one row of the tile to the next
};

struct TileKernel {
  int max_rows = 0;
  int panel_columns = 0;
  void (*run)(const Tile& tile) = nullptr;
};

// The kernel for `isa`, which is not kReference.
TileKernel TileKernelFor(Isa isa);

}  // namespace tandem::kernels
