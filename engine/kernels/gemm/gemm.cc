#include "engine/kernels/gemm/gemm.h"

#include <algorithm>

#include "engine/kernels/gemm/block.h"

namespace tandem::kernels {
namespace {

constexpr int64_t kTilesPerBlock = 8;
constexpr int64_t kPanelGroupFloats = int64_t{1} << 17;  // of packed B, half of an L2 cache
constexpr int64_t kDepthStep = 512;                      // of the sum, done for a block at a time

// The rows of a block, from column `tile.k` of A on.
void RunRows(const GemmProblem& problem, const TileKernel& kernel, Tile tile,
             const GemmBlock& block) {
  const float* rows[kMostTileRows];
  tile.rows = rows;
  for (int64_t row = block.row; row < block.row + block.rows; row += kernel.max_rows) {
    tile.row_count =
        static_cast<int>(std::min<int64_t>(kernel.max_rows, block.row + block.rows - row));
    for (int r = 0; r < tile.row_count; ++r) {
      rows[r] = problem.a + (row + r) * problem.a_row_stride + tile.k;
    }
    tile.row = problem.row + row;
    tile.c = block.c + (row - block.row) * block.c_row_stride;
    kernel.run(tile);
  }
}

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

void PackPanel(const PackSource& source, int64_t column, int64_t panel_columns, float* out) {
  const int64_t used = std::min(panel_columns, source.n - column);
  const MatrixView& b = source.b;
  for (int64_t k = 0; k < source.k; ++k, out += panel_columns) {
    const float* row = b.data + k * b.row_stride + column * b.column_stride;
    for (int64_t j = 0; j < used; ++j) out[j] = source.scale * row[j * b.column_stride];
    std::fill(out + used, out + panel_columns, 0.0f);
  }
}

}  // namespace

GemmUnits::GemmUnits(int64_t m, int64_t n, int64_t k, const TileKernel& kernel) {
  rows = kernel.max_rows * kTilesPerBlock;
  blocks = CeilDiv(m, rows);
  const int64_t panel_floats = std::clamp<int64_t>(k, 1, kDepthStep) * kernel.panel_columns;
  const int64_t panels = std::clamp<int64_t>(kPanelGroupFloats / panel_floats, 1, 16);
  columns = panels * kernel.panel_columns;
  groups = CeilDiv(n, columns);
}

void RunBlock(const GemmProblem& problem, const float* packed_b, const TileKernel& kernel,
              const GemmBlock& block) {
  Tile tile;
  tile.panel_floats = problem.k * kernel.panel_columns;
  tile.columns = block.columns;
  tile.c_row_stride = block.c_row_stride;
  tile.prologue = problem.prologue;
  tile.epilogue = problem.epilogue;
  tile.operands = problem.operands;
  tile.column = block.column;
  const float* b = packed_b + block.column / kernel.panel_columns * tile.panel_floats;
  do {
    tile.depth = std::min(kDepthStep, problem.k - tile.k);
    tile.b = b + tile.k * kernel.panel_columns;
    tile.start = tile.k == 0 ? TileStart::kZero : TileStart::kResume;
    tile.end = tile.k + tile.depth == problem.k ? TileEnd::kFinal : TileEnd::kPartial;
    RunRows(problem, kernel, tile, block);
    tile.k += tile.depth;
  } while (tile.k < problem.k);
}

int64_t PanelColumns(Isa isa) { return TileKernelFor(isa).panel_columns; }

int64_t PackedFloats(Isa isa, int64_t k, int64_t n) {
  const int64_t columns = PanelColumns(isa);
  return CeilDiv(n, columns) * columns * k;
}

void PackB(Isa isa, const PackSource& source, float* packed, const Parallel& parallel) {
  const int64_t columns = PanelColumns(isa);
  const int64_t grain = CeilDiv(kGrainMultiplyAdds / 4, std::max<int64_t>(1, source.k * columns));
  parallel.For(CeilDiv(source.n, columns), grain, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      PackPanel(source, panel * columns, columns, packed + panel * columns * source.k);
    }
  });
}

void Gemm(Isa isa, const GemmProblem& problem, const float* packed_b, const Parallel& parallel) {
  if (problem.m == 0 || problem.n == 0) return;
  const TileKernel kernel = TileKernelFor(isa);
  const GemmUnits units(problem.m, problem.n, problem.k, kernel);
  const int64_t unit_work = std::min(units.rows, problem.m) * std::min(units.columns, problem.n) *
                            std::max<int64_t>(1, problem.k);
  parallel.For(units.blocks * units.groups, CeilDiv(kGrainMultiplyAdds, unit_work),
               [&](int64_t begin, int64_t end) {
                 for (int64_t unit = begin; unit < end; ++unit) {
                   GemmBlock block;
                   block.row = unit / units.groups * units.rows;
                   block.rows = std::min(problem.m - block.row, units.rows);
                   block.column = unit % units.groups * units.columns;
                   block.columns = std::min(problem.n - block.column, units.columns);
                   block.c = problem.c + block.row * problem.c_row_stride + block.column;
                   block.c_row_stride = problem.c_row_stride;
                   RunBlock(problem, packed_b, kernel, block);
                 }
               });
}

}  // namespace tandem::kernels
