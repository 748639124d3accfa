#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/base/arena.h"
#include "engine/kernels/ceil_div.h"
#include "engine/kernels/quant/integer_depthwise.h"
#include "engine/kernels/quant/integer_finish.h"
#include "engine/kernels/quant/integer_pack.h"
#include "engine/kernels/quant/integer_window.h"

namespace tandem::kernels {
namespace {

constexpr int64_t kTilesPerBlock = 8;
constexpr int64_t kBlockRows = 128;                     // at most, in whole tiles
constexpr int64_t kPanelGroupBytes = int64_t{1} << 19;  // of packed weights, a part of an L2 cache
constexpr int64_t kTileColumns = 128;                   // of the sums that lie on the stack
constexpr int64_t kMostTileRows = 32;

uint32_t Bits(int64_t value) { return static_cast<uint32_t>(value); }

// The scratch memory: for each filter what is added to its sums and its zero point as it is packed;
// then a pixel of padding.
struct Prepared {
  int32_t* base;
  int32_t* zeros;
  std::byte* padding;
  size_t bytes = 0;

  Prepared(const ConvGeometry& geometry, std::byte* scratch) {
    const auto take = [&](size_t size) {
      std::byte* part = scratch == nullptr ? nullptr : scratch + bytes;
      bytes += AlignUp(size);
      return part;
    };
    const auto columns = static_cast<size_t>(geometry.out_channels + kColumnSlack);
    base = reinterpret_cast<int32_t*>(take(columns * sizeof(int32_t)));
    zeros = reinterpret_cast<int32_t*>(take(columns * sizeof(int32_t)));
    padding = take(static_cast<size_t>(geometry.in_per_group()));
  }
};

MultiplierRange RangeOf(const ConvGeometry& geometry, const IntegerResult& result) {
  if (result.multipliers == nullptr) return MultiplierRange::kFinite;
  const bool finite = std::all_of(result.multipliers, result.multipliers + geometry.out_channels,
                                  [](float multiplier) { return std::isfinite(multiplier); });
  return finite ? MultiplierRange::kFinite : MultiplierRange::kAny;
}

bool ArePixelsRows(const ConvGeometry& geometry) {
  return std::ranges::all_of(geometry.axes, [](const WindowAxis& axis) {
    return axis.kernel == 1 && axis.stride == 1 && axis.in == axis.out && axis.pad_begin == 0;
  });
}

// Everything that stays the same for one convolution. With a the elements of x, b those of w as
// they are packed, and za and zb their zero points, the sum of (a - za) * (b - zb) over k is
//   sum of a * b - za * sum of b - zb * (sum of a - k * za)
struct Run {
  const ConvGeometry& geometry;
  const IntegerConvData& data;
  const std::byte* packed;
  IntegerPackLayout layout;
  IntegerTileKernel kernel;
  IntegerRuns runs;
  FinishIntegerSums finish;
  Prepared prepared;
  bool weights_have_zeros = false;
  bool pixels_are_rows;  // row i of a product is pixel i of x
  const std::byte* x_end;
  int64_t depth;  // of a sum
  int64_t rows;   // output pixels over all items
  int64_t tile_rows;
  int64_t block_rows;     // of one unit
  int64_t group_columns;  // of one unit
  int64_t blocks;
  int64_t column_groups;

  Run(Isa isa, const ConvGeometry& g, const IntegerConvMemory& memory, const IntegerConvData& d)
      : geometry(g),
        data(d),
        packed(memory.packed),
        layout(isa, g),
        kernel(IntegerTileKernelFor(isa, SignsOf(d.x.dtype))),
        runs(IntegerRunsOf(g)),
        finish(FinishIntegerSumsFor(isa, d.result.dtype, RangeOf(g, d.result))),
        prepared(g, memory.scratch),
        pixels_are_rows(ArePixelsRows(g)),
        x_end(static_cast<const std::byte*>(d.x.data) + g.batch * g.in_pixels() * g.in_channels),
        depth(g.taps() * g.in_per_group()),
        rows(g.batch * g.out_pixels()) {
    const int64_t most = runs.copied() ? kCopiedBytes / std::max<int64_t>(1, runs.depth)
                                       : kIntegerPointers / std::max<int64_t>(1, runs.taps);
    tile_rows = std::clamp<int64_t>(most, 1, kernel.max_rows);
    block_rows = tile_rows * std::min(kTilesPerBlock, kBlockRows / tile_rows);
    const int64_t panels =
        std::clamp<int64_t>(kPanelGroupBytes / std::max<int64_t>(1, layout.panel_bytes), 1, 16);
    group_columns = panels * kernel.panel_columns;
    blocks = CeilDiv(rows, block_rows);
    column_groups = CeilDiv(g.out_per_group(), group_columns);
    Prepare();
  }

  const int32_t* column_sums() const {
    return reinterpret_cast<const int32_t*>(packed + layout.sums_offset);
  }
  bool zero_point_of_each_item() const { return data.x.zero_point_step != 0; }

 private:
  void Prepare() {
    const int32_t shift = PackedShift(data.x.dtype, data.w.dtype);
    const int32_t zero = zero_point_of_each_item() ? 0 : ZeroPointOf(data.x, 0);
    for (int64_t m = 0; m < geometry.out_channels; ++m) {
      prepared.zeros[m] = ZeroPointOf(data.w, m) + shift;
      weights_have_zeros |= prepared.zeros[m] != 0;
      const uint32_t bias = data.result.bias == nullptr ? 0 : Bits(data.result.bias[m]);
      prepared.base[m] = static_cast<int32_t>(bias - Bits(zero) * Bits(column_sums()[m]));
    }
    std::fill_n(prepared.padding, geometry.in_per_group(), static_cast<std::byte>(zero));
  }
};

constexpr int64_t kShortCopy = 32;

// The rows of one tile, whatever columns they are multiplied with.
struct TileRows {
  const std::byte* pointers[kIntegerPointers];
  alignas(64) std::byte copies[kCopiedBytes + kShortCopy];
  int32_t row_terms[kMostTileRows];
  int32_t row_zeros[kMostTileRows];
  int64_t first = 0;
  int count = 0;

  // `x` is at the first channel of the group, `pixel` the first row.
  void Point(const Run& run, const std::byte* x, OutputPixel& pixel) {
    if (run.pixels_are_rows) {
      for (int r = 0; r < count; ++r) pointers[r] = x + (first + r) * run.geometry.in_channels;
    } else {
      for (int r = 0; r < count; ++r, pixel.Next(run.geometry.axes)) {
        if (run.runs.copied()) {
          Copy(run, x, pixel, r);
        } else {
          PointAtTaps(run.geometry, pixel, {x, run.prepared.padding}, run.tile_rows, pointers + r);
        }
      }
    }
    if (run.weights_have_zeros || run.zero_point_of_each_item()) TakeZerosOff(run);
  }

 private:
  // The taps of a pixel side by side; those of a row along the inner axis are so already where all
  // channels are read.
  void Copy(const Run& run, const std::byte* x, const OutputPixel& pixel, int r) {
    const ConvGeometry& geometry = run.geometry;
    const WindowAxis& inner = geometry.axes[2];
    const int64_t channels = geometry.in_per_group();
    const int64_t row = inner.kernel * channels;
    const int64_t start = pixel.at[2] * inner.stride - inner.pad_begin;
    const bool whole = geometry.group == 1 && inner.dilation == 1 && start >= 0 &&
                       start + inner.kernel <= inner.in;
    std::byte* to = copies + r * run.runs.depth;
    pointers[r] = to;
    ForTapRows(geometry, pixel, [&](int64_t offset) {
      if (offset < 0) {
        std::fill_n(to, row, *run.prepared.padding);
      } else if (whole) {
        CopyRun(x + offset + start * channels, row, run.x_end, to);
      } else {
        for (int64_t t = 0; t < inner.kernel; ++t) {
          const int64_t at = start + t * inner.dilation;
          const bool inside = at >= 0 && at < inner.in;
          CopyRun(inside ? x + offset + at * geometry.in_channels : run.prepared.padding, channels,
                  inside ? run.x_end : run.prepared.padding, to + t * channels);
        }
      }
      to += row;
    });
  }

  // The bytes behind a run may be written, and read up to `end`: short runs are a vector.
  static void CopyRun(const std::byte* from, int64_t bytes, const std::byte* end, std::byte* to) {
    if (bytes <= kShortCopy && end - from >= kShortCopy) {
      std::memcpy(to, from, kShortCopy);
    } else {
      std::memcpy(to, from, static_cast<size_t>(bytes));
    }
  }

  void TakeZerosOff(const Run& run) {
    for (int r = 0; r < count; ++r) {
      const int64_t item = (first + r) / run.geometry.out_pixels();
      row_zeros[r] = ZeroPointOf(run.data.x, item);
      if (!run.weights_have_zeros) continue;
      uint32_t sum = 0;
      for (int64_t tap = 0; tap < run.runs.taps; ++tap) {
        sum += Bits(run.kernel.sum(pointers[tap * run.tile_rows + r], run.runs.depth));
      }
      row_terms[r] = static_cast<int32_t>(Bits(run.depth) * Bits(row_zeros[r]) - sum);
    }
  }
};

// The part of a group's output that one unit computes.
struct Unit {
  int64_t group;
  int64_t first_row;
  int64_t last_row;
  int64_t first_column;  // of the group
  int64_t last_column;

  Unit(const Run& run, int64_t index) {
    first_column = index % run.column_groups * run.group_columns;
    last_column = std::min(run.geometry.out_per_group(), first_column + run.group_columns);
    index /= run.column_groups;
    first_row = index % run.blocks * run.block_rows;
    last_row = std::min(run.rows, first_row + run.block_rows);
    group = index / run.blocks;
  }
};

// The rows of a tile, columns from `column` of all groups on.
void FinishTile(const Run& run, const TileRows& tile, int64_t column, IntegerSums sums) {
  const IntegerResult& result = run.data.result;
  sums.rows = tile.count;
  sums.sums_stride = kTileColumns;
  sums.base = run.prepared.base + column;
  if (run.weights_have_zeros) sums.zeros = run.prepared.zeros + column;
  sums.row_terms = tile.row_terms;
  if (run.zero_point_of_each_item()) sums.column_sums = run.column_sums() + column;
  sums.row_zeros = tile.row_zeros;
  if (result.multipliers != nullptr) sums.multipliers = result.multipliers + column;
  sums.zero_point = result.zero_point;
  sums.low = result.low;
  sums.high = result.high;
  const size_t bytes = result.dtype == DType::kInt32 ? sizeof(int32_t) : 1;
  sums.y_stride = run.geometry.out_channels;
  sums.y = static_cast<std::byte*>(result.y) +
           static_cast<size_t>(tile.first * sums.y_stride + column) * bytes;
  run.finish(sums);
}

void RunTile(const Run& run, const Unit& unit, const TileRows& rows) {
  alignas(64) int32_t sums[kMostTileRows * kTileColumns + kColumnSlack];
  const int64_t panel_columns = run.kernel.panel_columns;
  IntegerTile tile;
  tile.rows = rows.pointers;
  tile.row_step = run.tile_rows;
  tile.row_count = rows.count;
  tile.taps = run.runs.taps;
  tile.depth = run.runs.depth;
  tile.panel_bytes = run.layout.panel_bytes;
  tile.sums = sums;
  tile.sums_stride = kTileColumns;
  for (int64_t column = unit.first_column; column < unit.last_column; column += kTileColumns) {
    IntegerSums finished;
    finished.sums = sums;
    finished.columns = std::min(kTileColumns, unit.last_column - column);
    const int64_t panel = unit.group * run.layout.panels + column / panel_columns;
    tile.b = run.packed + panel * tile.panel_bytes;
    tile.panels = CeilDiv(finished.columns, panel_columns);
    run.kernel.run(tile);
    FinishTile(run, rows, unit.group * run.geometry.out_per_group() + column, finished);
  }
}

void RunUnit(const Run& run, const Unit& unit) {
  const auto* x = static_cast<const std::byte*>(run.data.x.data);
  TileRows rows;
  OutputPixel pixel(run.geometry, unit.first_row);
  for (rows.first = unit.first_row; rows.first < unit.last_row; rows.first += rows.count) {
    rows.count = static_cast<int>(std::min(run.tile_rows, unit.last_row - rows.first));
    rows.Point(run, x + unit.group * run.geometry.in_per_group(), pixel);
    RunTile(run, unit, rows);
  }
}

void RunTiles(Isa isa, const ConvGeometry& geometry, const IntegerConvMemory& memory,
              const IntegerConvData& data, const Parallel& parallel) {
  if (geometry.batch * geometry.out_pixels() == 0 || geometry.out_channels == 0) return;
  const Run run(isa, geometry, memory, data);
  const int64_t unit_work =
      run.block_rows * std::min(run.group_columns, geometry.out_per_group()) * run.depth;
  parallel.For(geometry.group * run.blocks * run.column_groups,
               GrainOf(kGrainMultiplyAdds, unit_work), [&](int64_t begin, int64_t end) {
                 for (int64_t index = begin; index < end; ++index) RunUnit(run, Unit(run, index));
               });
}

}  // namespace

size_t IntegerConvScratchBytes(Isa isa, const ConvGeometry& geometry) {
  switch (IntegerMethodOf(isa, geometry)) {
    case IntegerMethod::kTiles:
      return Prepared(geometry, nullptr).bytes;
    case IntegerMethod::kDepthwise:
      return IntegerDepthwiseScratchBytes(isa, geometry);
    case IntegerMethod::kPlain:
      break;
  }
  return 0;
}

void IntegerConv(Isa isa, const ConvGeometry& geometry, const IntegerConvMemory& memory,
                 const IntegerConvData& data, const Parallel& parallel) {
  switch (IntegerMethodOf(isa, geometry)) {
    case IntegerMethod::kTiles:
      return RunTiles(isa, geometry, memory, data, parallel);
    case IntegerMethod::kDepthwise:
      return IntegerDepthwise(isa, geometry, memory, data, parallel);
    case IntegerMethod::kPlain:
      break;
  }
  IntegerConvData plain = data;
  plain.w.data = memory.packed;
  IntegerConvReference(geometry, plain, parallel);
}

}  // namespace tandem::kernels
