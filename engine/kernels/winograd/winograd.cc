#include "engine/kernels/winograd/winograd.h"

#include <algorithm>
#include <iterator>

#include "engine/base/check.h"
#include "engine/kernels/ceil_div.h"
#include "engine/kernels/gemm/block.h"
#include "engine/kernels/winograd/transform.h"

namespace tandem::kernels {
namespace {

constexpr int kMostOutputs = 4;
constexpr int kMostPoints = (kMostOutputs + 2) * (kMostOutputs + 2);
constexpr int64_t kTaps = 9;
constexpr int64_t kMostColumns = 32;               // of a panel
constexpr int64_t kLine = 16;                      // floats of a cache line
constexpr int64_t kUnitFloats = int64_t{1} << 18;  // of scratch, at the least: half an L2 cache
constexpr int64_t kColumnsOfUnit = 128;            // at the least, where columns are cut

// Floats from one point to the next: an odd number of cache lines, so that the points of a tile do
// not meet in one set of a cache.
int64_t PointStep(int64_t tiles, int64_t channels) {
  return (tiles * channels / kLine | 1) * kLine + kLine * 2;
}

// Everything that stays the same for one convolution. A unit is some tiles times some columns.
struct Run {
  Isa isa;
  const ConvGeometry& geometry;
  int m;
  int points;
  TileKernel kernel;
  int64_t channels;
  int64_t columns;
  int64_t row_tiles;    // of one item, along y's rows
  int64_t pixel_tiles;  // of one row of tiles
  int64_t tiles;        // over all items
  int64_t unit_tiles;
  int64_t unit_columns;
  int64_t blocks;
  int64_t column_groups;

  Run(Isa by, int outputs, const ConvGeometry& g, int threads)
      : isa(by),
        geometry(g),
        m(outputs),
        points((outputs + 2) * (outputs + 2)),
        kernel(PlainTileKernel(by)),
        channels(g.in_channels),
        columns(g.out_channels),
        row_tiles(CeilDiv(g.axes[1].out, outputs)),
        pixel_tiles(CeilDiv(g.axes[2].out, outputs)),
        tiles(g.batch * row_tiles * pixel_tiles) {
    // A unit reads the weights once: it may take as much memory as they do.
    const int64_t floats = std::max(kUnitFloats, points * channels * columns);
    const int64_t most = std::max<int64_t>(1, floats / (points * (channels + columns)));
    blocks = CeilDiv(tiles, CeilDiv(most, kernel.max_rows) * kernel.max_rows);
    column_groups = 1;
    if (blocks > 0 && blocks < threads) {
      column_groups = std::clamp<int64_t>(columns / kColumnsOfUnit, 1, CeilDiv(threads, blocks));
      blocks = std::min(tiles, CeilDiv(threads, column_groups));
    }
    unit_tiles = blocks == 0 ? 0 : CeilDiv(tiles, blocks);
    blocks = unit_tiles == 0 ? 0 : CeilDiv(tiles, unit_tiles);
    unit_columns =
        CeilDiv(CeilDiv(columns, column_groups), kernel.panel_columns) * kernel.panel_columns;
    column_groups = CeilDiv(columns, unit_columns);
  }

  int64_t units() const { return blocks * column_groups; }
  int64_t in_step() const { return PointStep(unit_tiles, channels); }
  int64_t out_step() const { return PointStep(unit_tiles, unit_columns); }
  int64_t unit_floats() const { return points * (in_step() + out_step()); }
  // Packed weights of the direct convolution, which come first.
  int64_t direct_floats() const { return PackedConvFloats({isa, Precision::kF32Plain}, geometry); }
  int64_t panel_floats() const { return kernel.PanelFloats(channels); }
  int64_t point_floats() const { return CeilDiv(columns, kernel.panel_columns) * panel_floats(); }
};

// Where a tile lies.
struct Place {
  int64_t item;
  int64_t row;    // of its first output
  int64_t pixel;  // of that row

  Place(const Run& run, int64_t tile) {
    pixel = tile % run.pixel_tiles * run.m;
    tile /= run.pixel_tiles;
    row = tile % run.row_tiles * run.m;
    item = tile / run.row_tiles;
  }
  // Of its first output in y, over all items.
  int64_t Output(const Run& run) const {
    const WindowAxes& axes = run.geometry.axes;
    return (item * axes[1].out + row) * axes[2].out + pixel;
  }
};

// The input at (row, pixel) of the tile's window, or zeros in the padding.
const float* InputAt(const Run& run, const ConvData& data, const Place& place, int64_t row,
                     int64_t pixel) {
  const WindowAxis& rows = run.geometry.axes[1];
  const WindowAxis& pixels = run.geometry.axes[2];
  const int64_t at = place.row - rows.pad_begin + row;
  const int64_t of_row = place.pixel - pixels.pad_begin + pixel;
  if (at < 0 || at >= rows.in || of_row < 0 || of_row >= pixels.in) return data.zeros;
  return data.x + ((place.item * rows.in + at) * pixels.in + of_row) * run.channels;
}

void TransformInputs(const Run& run, const WinogradTransforms& transforms, const ConvData& data,
                     int64_t first, int64_t last, float* to) {
  const int64_t side = run.m + 2;
  const float* pixels[kMostPoints];
  for (int64_t tile = first; tile < last; ++tile, to += run.channels) {
    const Place place(run, tile);
    for (int64_t i = 0; i < side; ++i) {
      for (int64_t j = 0; j < side; ++j) pixels[i * side + j] = InputAt(run, data, place, i, j);
    }
    transforms.in({pixels, run.channels, to, run.in_step()});
  }
}

// What the direct convolution gives for a tile's outputs.
void ConvolveTile(const Run& run, const ConvData& data, const float* packed, const Place& place,
                  const WinogradOutput& output) {
  const float* rows[kTaps * kMostOutputs];
  Tile tile;
  tile.rows = rows;
  tile.row_step = kMostOutputs;
  tile.row_count = output.pixels;
  tile.taps = kTaps;
  tile.depth = run.channels;
  tile.panel_floats = run.kernel.PanelFloats(kTaps * run.channels);
  tile.b = packed + output.operand_column / run.kernel.panel_columns * tile.panel_floats;
  tile.columns = output.columns;
  tile.c_row_stride = output.pixel_stride;
  tile.epilogue = output.epilogue;
  tile.operands = output.operands;
  tile.column = output.operand_column;
  for (int o = 0; o < output.rows; ++o) {
    for (int64_t tap = 0; tap < kTaps; ++tap) {
      for (int p = 0; p < output.pixels; ++p) {
        rows[tap * kMostOutputs + p] = InputAt(run, data, place, o + tap / 3, p + tap % 3);
      }
    }
    tile.c = output.y + o * output.row_stride;
    tile.row = output.operand_row + o * output.operand_row_step;
    run.kernel.run(tile);
  }
}

void TransformOutputs(const Run& run, const WinogradTransforms& transforms, const ConvData& data,
                      const float* packed, const WinogradOutput& first_panel, int64_t first,
                      int64_t last, int64_t columns) {
  const int64_t panel = run.kernel.panel_columns;
  const WindowAxes& axes = run.geometry.axes;
  for (int64_t tile = first; tile < last; ++tile) {
    const Place place(run, tile);
    WinogradOutput output = first_panel;
    output.from += (tile - first) * run.unit_columns;
    output.rows = static_cast<int>(std::min<int64_t>(run.m, axes[1].out - place.row));
    output.pixels = static_cast<int>(std::min<int64_t>(run.m, axes[2].out - place.pixel));
    output.operand_row = place.Output(run);
    output.y += output.operand_row * run.columns;
    for (int64_t column = 0; column < columns; column += panel) {
      output.columns = std::min(panel, columns - column);
      if (!transforms.out(output)) ConvolveTile(run, data, packed, place, output);
      output.from += panel;
      output.y += panel;
      output.operand_column += panel;
    }
  }
}

void RunUnit(const Run& run, const WinogradTransforms& transforms, const ConvData& data,
             const float* packed, int64_t unit, float* scratch) {
  const int64_t column = unit % run.column_groups * run.unit_columns;
  const int64_t columns = std::min(run.unit_columns, run.columns - column);
  const int64_t first = unit / run.column_groups * run.unit_tiles;
  const int64_t last = std::min(run.tiles, first + run.unit_tiles);
  float* sums = scratch + run.points * run.in_step();
  TransformInputs(run, transforms, data, first, last, scratch);

  GemmProblem problem{.m = last - first, .n = run.columns, .k = run.channels};
  problem.a_row_stride = run.channels;
  const GemmUnits groups(problem.m, columns, problem.k, run.kernel);
  const float* weights = packed + run.direct_floats();
  for (int point = 0; point < run.points; ++point) {
    problem.a = scratch + point * run.in_step();
    for (int64_t done = 0; done < columns; done += groups.columns) {
      GemmBlock block{.rows = problem.m, .column = column + done};
      block.columns = std::min(groups.columns, columns - done);
      block.c = sums + point * run.out_step() + done;
      block.c_row_stride = run.unit_columns;
      RunBlock(problem, weights + point * run.point_floats(), run.kernel, block);
    }
  }

  WinogradOutput output;
  output.from = sums;
  output.point_step = run.out_step();
  output.y = data.y + column;
  output.pixel_stride = run.columns;
  output.row_stride = run.geometry.axes[2].out * run.columns;
  output.epilogue = data.epilogue;
  output.operands = data.operands;
  output.operand_row_step = run.geometry.axes[2].out;
  output.operand_column = column;
  TransformOutputs(run, transforms, data, packed, output, first, last, columns);
}

}  // namespace

bool HasWinograd(const ConvGeometry& geometry) {
  const WindowAxis& outer = geometry.axes[0];
  if (geometry.group != 1 || !geometry.outputs.empty() || outer.in != 1 || outer.out != 1 ||
      outer.kernel != 1 || outer.pad_begin != 0) {
    return false;
  }
  return std::all_of(geometry.axes.begin() + 1, geometry.axes.end(), [](const WindowAxis& axis) {
    return axis.kernel == 3 && axis.stride == 1 && axis.dilation == 1;
  });
}

int WinogradTile(Arithmetic arithmetic, const ConvGeometry& geometry) {
  if (arithmetic.isa == Isa::kReference || !HasWinograd(geometry)) return 0;
  const bool exact =
      arithmetic.precision == Precision::kF32Plain || arithmetic.precision == Precision::kF32Strict;
  const TileKernel direct =
      TileKernelFor(arithmetic, kTaps * geometry.in_channels, geometry.out_channels);
  if (exact || !direct.name.empty()) return 0;
  // In multiply-adds of one input with one output channel. To read a weight takes as long as it
  // takes to multiply so many rows by it, and a transform of a channel as long as so many
  // multiply-adds for each point.
  constexpr double kRead = 30;
  constexpr double kTransform = 12;
  const double in = static_cast<double>(geometry.in_channels);
  const double out = static_cast<double>(geometry.out_channels);
  const int64_t height = geometry.axes[1].out;
  const int64_t width = geometry.axes[2].out;
  double least = static_cast<double>(kTaps * height * width) + kTaps * kRead;
  int best = 0;
  for (const int m : {2, 4}) {
    const double tiles = static_cast<double>(CeilDiv(height, m) * CeilDiv(width, m));
    const double points = (m + 2) * (m + 2);
    const double work = points * (tiles * (1 + kTransform * (1 / in + 1 / out)) + kRead);
    if (work < least) {
      least = work;
      best = m;
    }
  }
  return best;
}

int64_t PackedWinogradFloats(Isa isa, int m, const ConvGeometry& geometry) {
  const Run run(isa, m, geometry, 1);
  return run.direct_floats() + run.points * run.point_floats();
}

void PackWinogradWeights(Isa isa, int m, const ConvGeometry& geometry, const ConvWeights& weights,
                         float* packed) {
  const Run run(isa, m, geometry, 1);
  PackConvWeights({isa, Precision::kF32Plain}, geometry, weights, packed);
  packed += run.direct_floats();
  const WinogradTransforms transforms = WinogradTransformsFor(isa, m);
  const int64_t panel = run.kernel.panel_columns;
  CHECK(panel <= kMostColumns, "a panel of {} columns", panel);
  float taps[kTaps * kMostColumns] = {};
  for (int64_t column = 0; column < run.columns; column += panel) {
    const int64_t used = std::min(panel, run.columns - column);
    std::fill(std::begin(taps), std::end(taps), 0.0f);
    // The plain kernel's panels are rows of columns.
    float* to = packed + column / panel * run.panel_floats();
    for (int64_t c = 0; c < run.channels; ++c, to += panel) {
      for (int64_t tap = 0; tap < kTaps; ++tap) {
        const float* at = weights.At(geometry, column, c, tap);
        for (int64_t j = 0; j < used; ++j) taps[tap * panel + j] = at[j * weights.out];
      }
      transforms.weights({taps, panel, to, run.point_floats()});
    }
  }
}

int64_t WinogradScratchFloats(Isa isa, int m, const ConvGeometry& geometry, int threads) {
  const Run run(isa, m, geometry, threads);
  return std::min<int64_t>(threads, run.units()) * run.unit_floats();
}

void ConvWinograd(Isa isa, int m, const ConvGeometry& geometry, const float* packed,
                  const ConvData& data, const Parallel& parallel) {
  const Run run(isa, m, geometry, parallel.threads());
  const WinogradTransforms transforms = WinogradTransformsFor(isa, m);
  const int64_t unit_work = run.points * run.unit_tiles * run.channels * run.unit_columns;
  const int64_t shares = parallel.Shares(run.units(), GrainOf(kGrainMultiplyAdds, unit_work));
  parallel.For(shares, 1, [&](int64_t begin, int64_t end) {
    for (int64_t share = begin; share < end; ++share) {
      float* scratch = data.scratch + share * run.unit_floats();
      for (int64_t unit = share * run.units() / shares; unit < (share + 1) * run.units() / shares;
           ++unit) {
        RunUnit(run, transforms, data, packed, unit, scratch);
      }
    }
  });
}

}  // namespace tandem::kernels
