#include "engine/kernels/gemm/gemm.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/transpose.h"
#include "engine/kernels/ceil_div.h"
#include "engine/kernels/gemm/block.h"
#include "engine/kernels/gemm/expanded.h"

namespace tandem::kernels {
namespace {

// Rows that read a group of packed B one after the other: as many as a sequence of 197 words has.
constexpr int64_t kTilesPerBlock = 16;
constexpr int64_t kDepthUnit = 32;
// Where units are cut for several threads.
constexpr int64_t kUnitsPerThread = 4;
constexpr int64_t kLeastPanels = 2;
constexpr int64_t kLeastTiles = 2;

// The rows of a block, from column `tile.k` of A on; `next` is the packed B that is read then.
void RunRows(const GemmProblem& problem, const TileKernel& kernel, Tile tile,
             const GemmBlock& block, const float* next) {
  const float* rows[kMostTileRows];
  tile.rows = rows;
  const int64_t tiles = CeilDiv(block.rows, kernel.max_rows);
  const ExpandedPanels panels(kernel, tile, tiles);
  for (int64_t row = block.row; row < block.row + block.rows; row += kernel.max_rows) {
    tile.fetch = FetchOf(next, kernel.BodyFloats(tile.depth), tile.panel_floats,
                         (row - block.row) / kernel.max_rows, tiles);
    tile.row_count =
        static_cast<int>(std::min<int64_t>(kernel.max_rows, block.row + block.rows - row));
    for (int r = 0; r < tile.row_count; ++r) {
      rows[r] = problem.a + (row + r) * problem.a_row_stride + tile.k;
    }
    tile.row = problem.row + row;
    tile.c = block.c + (row - block.row) * block.c_row_stride;
    panels.Run(tile);
  }
}

void PackPanel(const TileKernel& kernel, const PackSource& source, int64_t column, float* panel) {
  const int64_t used = std::min<int64_t>(kernel.panel_columns, source.n - column);
  const MatrixView& b = source.b;
  const float factor = kernel.has_scales ? 1 : source.scale;
  const auto read = [&](int64_t first, int64_t count, float* out) {
    const float* from = b.data + first * b.row_stride + column * b.column_stride;
    CopyColumns({from, b.row_stride, b.column_stride}, count, used, kernel.panel_columns, out);
    if (factor == 1) return;
    for (int64_t k = 0; k < count; ++k, out += kernel.panel_columns) {
      std::for_each_n(out, used, [&](float& element) { element *= factor; });
    }
  };
  kernel.pack(source.k, read, panel);
  PackScales(kernel, source.columns, column, used, source.scale, panel);
}

// Columns of panels that the cache holds.
int64_t GroupColumns(int64_t k, const TileKernel& kernel) {
  const int64_t panel_floats = std::clamp<int64_t>(k, 1, kernel.depth) * kernel.panel_columns;
  return std::clamp<int64_t>(kernel.group_floats / panel_floats, 1, 16) * kernel.panel_columns;
}

}  // namespace

void CopyColumns(const MatrixView& from, int64_t rows, int64_t columns, int64_t panel_columns,
                 float* to) {
  constexpr int64_t kTile = kTransposedTile;
  const auto copy = [&](int64_t row, int64_t first_column) {
    const float* source = from.data + row * from.row_stride;
    float* target = to + row * panel_columns;
    for (int64_t j = first_column; j < columns; ++j) target[j] = source[j * from.column_stride];
    std::fill(target + columns, target + panel_columns, 0.0f);
  };
  int64_t row = 0;
  for (; from.row_stride == 1 && row + kTile <= rows; row += kTile) {
    int64_t column = 0;
    for (; column + kTile <= columns; column += kTile) {
      TransposeTile(from.data + row + column * from.column_stride, from.column_stride,
                    to + row * panel_columns + column, panel_columns);
    }
    for (int64_t r = row; column < panel_columns && r < row + kTile; ++r) copy(r, column);
  }
  for (; row < rows; ++row) copy(row, 0);
}

int64_t DepthPiece(int64_t k, int64_t most) {
  const int64_t pieces = std::max<int64_t>(1, CeilDiv(k, most));
  return std::min(most, CeilDiv(CeilDiv(k, pieces), kDepthUnit) * kDepthUnit);
}

GemmUnits::GemmUnits(int64_t m, int64_t n, int64_t unit_rows, int64_t unit_columns)
    : rows(unit_rows),
      columns(unit_columns),
      blocks(CeilDiv(m, unit_rows)),
      groups(CeilDiv(n, unit_columns)) {}

GemmUnits::GemmUnits(int64_t m, int64_t n, int64_t k, const TileKernel& kernel)
    : GemmUnits(m, n, kernel.max_rows * kTilesPerBlock, GroupColumns(k, kernel)) {}

void GemmUnits::CutFor(int64_t threads, int64_t m, int64_t n, const TileKernel& kernel) {
  const int64_t wanted = threads == 1 ? 1 : kUnitsPerThread * threads;
  const auto half = [](int64_t extent, int64_t step) { return CeilDiv(extent / step, 2) * step; };
  // Columns first: threads then read different weights.
  while (blocks * groups < wanted && columns > kLeastPanels * kernel.panel_columns) {
    *this = GemmUnits(m, n, rows, half(columns, kernel.panel_columns));
  }
  while (blocks * groups < wanted && rows > kLeastTiles * kernel.max_rows) {
    *this = GemmUnits(m, n, half(rows, kernel.max_rows), columns);
  }
}

Tile::Fetch FetchOf(const float* next, int64_t floats, int64_t panel_floats, int64_t index,
                    int64_t count) {
  if (next == nullptr) return {};
  const int64_t share = CeilDiv(floats, count);
  return {next + index * share, share, panel_floats};
}

void PackScales(const TileKernel& kernel, const ColumnScales& columns, int64_t column, int64_t used,
                float factor, float* panel) {
  if (!kernel.has_scales) return;
  std::fill_n(panel, 2 * kernel.panel_columns, 0.0f);
  for (int64_t j = 0; j < used; ++j) {
    const int64_t from = (column + j) * columns.step;
    panel[j] = factor * columns.scales[from];
    panel[kernel.panel_columns + j] = columns.zero_points[from];
  }
}

void RunBlock(const GemmProblem& problem, const float* packed_b, const TileKernel& kernel,
              const GemmBlock& block) {
  Tile tile;
  tile.panel_floats = kernel.PanelFloats(problem.k);
  tile.columns = block.columns;
  tile.c_row_stride = block.c_row_stride;
  tile.prologue = problem.prologue;
  tile.epilogue = problem.epilogue;
  tile.operands = problem.operands;
  tile.column = block.column;
  tile.b = packed_b + block.column / kernel.panel_columns * tile.panel_floats;
  const int64_t depth = DepthPiece(problem.k, kernel.depth);
  do {
    tile.depth = std::min(depth, problem.k - tile.k);
    tile.start = tile.k == 0 ? TileStart::kZero : TileStart::kResume;
    tile.end = tile.k + tile.depth == problem.k ? TileEnd::kFinal : TileEnd::kPartial;
    const int64_t end = tile.k + tile.depth;
    RunRows(problem, kernel, tile, block,
            end < problem.k ? tile.b + kernel.PanelFloats(end) : block.next);
    tile.k = end;
  } while (tile.k < problem.k);
}

std::string PackFormat(Arithmetic arithmetic, int64_t k, int64_t n) {
  const TileKernel kernel = TileKernelFor(arithmetic, k, n);
  return fmt::format("{}{}panel={}", kernel.name, kernel.name.empty() ? "" : " ",
                     kernel.panel_columns);
}

int64_t PackedFloats(Arithmetic arithmetic, int64_t k, int64_t n) {
  const TileKernel kernel = TileKernelFor(arithmetic, k, n);
  return CeilDiv(n, kernel.panel_columns) * kernel.PanelFloats(k);
}

void PackB(Arithmetic arithmetic, const PackSource& source, float* packed,
           const Parallel& parallel) {
  const TileKernel kernel = TileKernelFor(arithmetic, source.k, source.n);
  const int64_t columns = kernel.panel_columns;
  const int64_t grain = GrainOf(kGrainElements, source.k * columns);
  parallel.For(CeilDiv(source.n, columns), grain, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      PackPanel(kernel, source, panel * columns, packed + panel * kernel.PanelFloats(source.k));
    }
  });
}

void Gemm(Arithmetic arithmetic, const GemmProblem& problem, const float* packed_b,
          const Parallel& parallel) {
  if (problem.m == 0 || problem.n == 0) return;
  const TileKernel kernel = TileKernelFor(arithmetic, problem.k, problem.n);
  GemmUnits units(problem.m, problem.n, problem.k, kernel);
  units.CutFor(parallel.threads(), problem.m, problem.n, kernel);
  const int64_t unit_work = std::min(units.rows, problem.m) * std::min(units.columns, problem.n) *
                            std::max<int64_t>(1, problem.k);
  parallel.For(units.blocks * units.groups, GrainOf(kGrainMultiplyAdds, unit_work),
               [&](int64_t begin, int64_t end) {
                 for (int64_t unit = begin; unit < end; ++unit) {
                   GemmBlock block;
                   block.row = unit / units.groups * units.rows;
                   block.rows = std::min(problem.m - block.row, units.rows);
                   block.column = unit % units.groups * units.columns;
                   block.columns = std::min(problem.n - block.column, units.columns);
                   const int64_t next = block.column + block.columns;
                   if (next < problem.n) {
                     block.next =
                         packed_b + next / kernel.panel_columns * kernel.PanelFloats(problem.k);
                   }
                   block.c = problem.c + block.row * problem.c_row_stride + block.column;
                   block.c_row_stride = problem.c_row_stride;
                   RunBlock(problem, packed_b, kernel, block);
                 }
               });
}

}  // namespace tandem::kernels
