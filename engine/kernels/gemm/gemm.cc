#include "engine/kernels/gemm/gemm.h"

#include <algorithm>

#include "engine/kernels/gemm/tile.h"

namespace tandem::kernels {
namespace {

constexpr int kMostRows = 16;  // of any TileKernel
constexpr int64_t kTilesPerBlock = 8;
constexpr int64_t kPanelGroupFloats = int64_t{1} << 17;  // of packed B, half of an L2 cache
constexpr int64_t kDepthStep = 512;                      // of the sum, done for a block at a time
constexpr int64_t kGrainMultiplyAdds = int64_t{1} << 16;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How a product is cut into units: blocks of rows times groups of panels. Depends on the shape and
// the kernel only.
struct Units {
  int64_t rows;     // of one block
  int64_t columns;  // of one group
  int64_t blocks;
  int64_t groups;

  Units(const GemmProblem& problem, const TileKernel& kernel) {
    rows = kernel.max_rows * kTilesPerBlock;
    blocks = CeilDiv(problem.m, rows);
    const int64_t panel_floats =
        std::clamp<int64_t>(problem.k, 1, kDepthStep) * kernel.panel_columns;
    const int64_t panels = std::clamp<int64_t>(kPanelGroupFloats / panel_floats, 1, 16);
    columns = panels * kernel.panel_columns;
    groups = CeilDiv(problem.n, columns);
  }
};

// Rows [begin, end) of A from column `depth` on.
struct RowRange {
  int64_t begin;
  int64_t end;
  int64_t depth;
};

void RunRows(const GemmProblem& problem, const TileKernel& kernel, Tile tile,
             const RowRange& range) {
  const float* rows[kMostRows];
  tile.rows = rows;
  for (int64_t row = range.begin; row < range.end; row += kernel.max_rows) {
    tile.row_count = static_cast<int>(std::min<int64_t>(kernel.max_rows, range.end - row));
    for (int r = 0; r < tile.row_count; ++r) {
      rows[r] = problem.a + (row + r) * problem.a_row_stride + range.depth;
    }
    tile.row = row;
    tile.c = problem.c + row * problem.c_row_stride + tile.column;
    kernel.run(tile);
  }
}

void RunUnit(const GemmProblem& problem, const float* packed_b, const TileKernel& kernel,
             const Units& units, int64_t unit) {
  const int64_t first_row = unit / units.groups * units.rows;
  const int64_t last_row = std::min(problem.m, first_row + units.rows);
  const int64_t column = unit % units.groups * units.columns;
  Tile tile;
  tile.panel_floats = problem.k * kernel.panel_columns;
  tile.columns = std::min(problem.n - column, units.columns);
  tile.c_row_stride = problem.c_row_stride;
  tile.epilogue = problem.epilogue;
  tile.operands = problem.operands;
  tile.column = column;
  const float* b = packed_b + column / kernel.panel_columns * tile.panel_floats;
  int64_t done = 0;
  do {
    tile.depth = std::min(kDepthStep, problem.k - done);
    tile.b = b + done * kernel.panel_columns;
    tile.start = done == 0 ? TileStart::kZero : TileStart::kResume;
    tile.end = done + tile.depth == problem.k ? TileEnd::kFinal : TileEnd::kPartial;
    RunRows(problem, kernel, tile, {first_row, last_row, done});
    done += tile.depth;
  } while (done < problem.k);
}

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
  const Units units(problem, kernel);
  const int64_t unit_work = std::min(units.rows, problem.m) * std::min(units.columns, problem.n) *
                            std::max<int64_t>(1, problem.k);
  parallel.For(units.blocks * units.groups, CeilDiv(kGrainMultiplyAdds, unit_work),
               [&](int64_t begin, int64_t end) {
                 for (int64_t unit = begin; unit < end; ++unit) {
                   RunUnit(problem, packed_b, kernel, units, unit);
                 }
               });
}

}  // namespace tandem::kernels
