// Blocks of a matrix product, which the loops over whole products are made of.
#pragma once

#include <cstdint>

#include "engine/kernels/gemm/gemm.h"
#include "engine/kernels/gemm/tile.h"

namespace tandem::kernels {

inline constexpr int kMostTileRows = 32;  // TileKernel::max_rows at the most

// How an m x n product is cut into units: blocks of rows times groups of panels.
struct GemmUnits {
  int64_t rows = 0;     // of one block
  int64_t columns = 0;  // of one group
  int64_t blocks = 0;
  int64_t groups = 0;

  GemmUnits() = default;
  // Units that keep packed B in the cache. Depends on the shape and the kernel only.
  GemmUnits(int64_t m, int64_t n, int64_t k, const TileKernel& kernel);
  // Units of so many rows and columns.
  GemmUnits(int64_t m, int64_t n, int64_t unit_rows, int64_t unit_columns);

  // Cuts further until each thread has several units, as far as A and packed B are not read much
  // more often. Changes no bits, where a unit's results are not added up with those of others.
  void CutFor(int64_t threads, int64_t m, int64_t n, const TileKernel& kernel);
};

// Depth of the pieces that a sum over k is cut into, of `most` at the most: about equal, so that
// none is short.
int64_t DepthPiece(int64_t k, int64_t most);

// Rows and columns of a product, of which the first column begins a panel, and where they go.
struct GemmBlock {
  int64_t row = 0;
  int64_t rows = 0;
  int64_t column = 0;
  int64_t columns = 0;
  float* c = nullptr;  // of the block's first element; the c of the problem is not written
  int64_t c_row_stride = 0;
  const float* next = nullptr;  // packed B that is read after this block's; null: none
};

// What tile `index` of `count`, which read the same panels, fetches of `floats` of each of the
// panels from `next` on.
Tile::Fetch FetchOf(const float* next, int64_t floats, int64_t panel_floats, int64_t index,
                    int64_t count);

// Writes `rows` rows of a panel: `columns` of `from`, then zeros.
void CopyColumns(const MatrixView& from, int64_t rows, int64_t columns, int64_t panel_columns,
                 float* to);

// Writes the head of the panel that begins with `column` and has `used` columns of its own, where
// the kernel wants scales there; they are multiplied by `factor`.
void PackScales(const TileKernel& kernel, const ColumnScales& columns, int64_t column, int64_t used,
                float factor, float* panel);

void RunBlock(const GemmProblem& problem, const float* packed_b, const TileKernel& kernel,
              const GemmBlock& block);

}  // namespace tandem::kernels
