// Blocks of a matrix product, which the loops over whole products are made of.
#pragma once

#include <cstdint>

#include "engine/kernels/gemm/gemm.h"
#include "engine/kernels/gemm/tile.h"

namespace tandem::kernels {

inline constexpr int kMostTileRows = 32;  // TileKernel::max_rows at the most

// How an m x n product is cut into units: blocks of rows times groups of panels. Depends on the
// shape and the kernel only.
struct GemmUnits {
  int64_t rows;     // of one block
  int64_t columns;  // of one group
  int64_t blocks;
  int64_t groups;

  GemmUnits(int64_t m, int64_t n, int64_t k, const TileKernel& kernel);
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
};

void RunBlock(const GemmProblem& problem, const float* packed_b, const TileKernel& kernel,
              const GemmBlock& block);

}  // namespace tandem::kernels
