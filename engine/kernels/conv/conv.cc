#include "engine/kernels/conv/conv.h"

#include <algorithm>

#include "engine/kernels/gemm/gemm.h"
#include "engine/kernels/gemm/tile.h"

namespace tandem::kernels {
namespace {

constexpr int64_t kPointers = 2048;        // of one block, on the stack
constexpr int64_t kGatheredFloats = 8192;  // of one tile, on the stack
constexpr int64_t kTilesPerBlock = 8;
constexpr int64_t kPanelGroupFloats = int64_t{1} << 17;  // of packed B, half of an L2 cache
constexpr int64_t kDepthStep = 512;                      // of the sum, done for a block at a time
constexpr int64_t kGrainMultiplyAdds = int64_t{1} << 16;
// With fewer channels a tap is too short a run: the taps of a pixel are copied side by side.
constexpr int64_t kShortRun = 8;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// An output pixel by item and position.
struct Pixel {
  int64_t item;
  int64_t at[kConvAxes];

  Pixel(const ConvGeometry& geometry, int64_t row) {
    for (int i = kConvAxes - 1; i >= 0; --i) {
      const int64_t out = geometry.axes[static_cast<size_t>(i)].out;
      at[i] = row % out;
      row /= out;
    }
    item = row;
  }
  void Next(const WindowAxes& axes) {
    for (int i = kConvAxes - 1; i >= 0; --i) {
      if (++at[i] < axes[static_cast<size_t>(i)].out) return;
      at[i] = 0;
    }
    ++item;
  }
};

// Everything that stays the same for one convolution.
struct Run {
  const ConvGeometry& geometry;
  const ConvData& data;
  const float* packed;
  TileKernel kernel;
  int64_t rows;           // output pixels over all items
  int64_t block_rows;     // of one unit
  int64_t group_columns;  // of one unit
  int64_t blocks;
  int64_t column_groups;
  int64_t tap_step;      // taps that are summed at once
  int64_t channel_step;  // channels of a tap that are summed at once
  bool gathers;

  Run(const ConvGeometry& g, const ConvData& d, const float* p, const TileKernel& k)
      : geometry(g), data(d), packed(p), kernel(k) {
    const int64_t taps = g.taps();
    const int64_t channels = g.in_per_group();
    rows = g.batch * g.out_pixels();
    channel_step = std::clamp<int64_t>(channels, 1, kDepthStep);
    gathers = channels < kShortRun && taps > 1 && channels > 0;
    if (gathers) {
      tap_step = std::clamp<int64_t>(kGatheredFloats / (k.max_rows * channels), 1, taps);
      block_rows = k.max_rows * kTilesPerBlock;
    } else {
      const int64_t most = std::min(kPointers / k.max_rows, kDepthStep / channel_step);
      tap_step = std::clamp<int64_t>(most, 1, taps);
      block_rows =
          k.max_rows * std::clamp<int64_t>(kPointers / (tap_step * k.max_rows), 1, kTilesPerBlock);
    }
    const int64_t panel_floats = tap_step * channel_step * k.panel_columns;
    group_columns = k.panel_columns * std::clamp<int64_t>(kPanelGroupFloats / panel_floats, 1, 16);
    blocks = CeilDiv(rows, block_rows);
    column_groups = CeilDiv(g.out_per_group(), group_columns);
  }
};

// Calls visit(row of taps, first tap of it, its offset in x or -1 in the padding) for the taps of
// the two outer axes; offsets are those of the item's pixel with position 0 on the inner axis.
template <typename Visit>
void ForTapRows(const ConvGeometry& geometry, const Pixel& pixel, const Visit& visit) {
  const WindowAxis& outer = geometry.axes[0];
  const WindowAxis& middle = geometry.axes[1];
  const WindowAxis& inner = geometry.axes[2];
  int64_t tap = 0;
  for (int64_t t0 = 0; t0 < outer.kernel; ++t0) {
    const int64_t at0 = pixel.at[0] * outer.stride - outer.pad_begin + t0 * outer.dilation;
    for (int64_t t1 = 0; t1 < middle.kernel; ++t1, tap += inner.kernel) {
      const int64_t at1 = pixel.at[1] * middle.stride - middle.pad_begin + t1 * middle.dilation;
      const bool inside = at0 >= 0 && at0 < outer.in && at1 >= 0 && at1 < middle.in;
      const int64_t row = (pixel.item * outer.in + at0) * middle.in + at1;
      visit(tap, inside ? row * inner.in * geometry.in_channels : -1);
    }
  }
}

// Taps [first, last) of every window, and of each the channels from `channel` on.
struct TapSpan {
  int64_t first;
  int64_t last;
  int64_t channel;
  int64_t channels;
};

// Pointers to the taps of `pixel` in the channels from `x` on, run.block_rows apart.
void PointAtTaps(const Run& run, const Pixel& pixel, const float* x, TapSpan span,
                 const float** out) {
  const WindowAxis& inner = run.geometry.axes[2];
  const int64_t start = pixel.at[2] * inner.stride - inner.pad_begin;
  ForTapRows(run.geometry, pixel, [&](int64_t tap, int64_t offset) {
    const int64_t end = std::min(inner.kernel, span.last - tap);
    for (int64_t t = std::max<int64_t>(0, span.first - tap); t < end; ++t) {
      const int64_t at = start + t * inner.dilation;
      const bool inside = offset >= 0 && at >= 0 && at < inner.in;
      out[(tap + t - span.first) * run.block_rows] =
          inside ? x + offset + at * run.geometry.in_channels : run.data.zeros;
    }
  });
}

// Copies the taps of `pixel` side by side.
void GatherTaps(const Run& run, const Pixel& pixel, const float* x, TapSpan span, float* out) {
  const WindowAxis& inner = run.geometry.axes[2];
  const int64_t channels = run.geometry.in_per_group();
  const int64_t start = pixel.at[2] * inner.stride - inner.pad_begin;
  const bool one_run = run.geometry.group == 1 && inner.dilation == 1;
  ForTapRows(run.geometry, pixel, [&](int64_t tap, int64_t offset) {
    const int64_t begin = std::max<int64_t>(0, span.first - tap);
    const int64_t end = std::min(inner.kernel, span.last - tap);
    if (begin >= end) return;
    float* to = out + (tap + begin - span.first) * channels;
    if (one_run && offset >= 0) {
      const int64_t low = std::clamp<int64_t>(-start, begin, end);
      const int64_t high = std::clamp<int64_t>(inner.in - start, low, end);
      to = std::fill_n(to, (low - begin) * channels, 0.0f);
      to = std::copy_n(x + offset + (start + low) * channels, (high - low) * channels, to);
      std::fill_n(to, (end - high) * channels, 0.0f);
      return;
    }
    for (int64_t t = begin; t < end; ++t, to += channels) {
      const int64_t at = start + t * inner.dilation;
      const bool inside = offset >= 0 && at >= 0 && at < inner.in;
      const float* from = inside ? x + offset + at * run.geometry.in_channels : run.data.zeros;
      std::copy_n(from, channels, to);
    }
  });
}

// One unit of work: the part of a group's output that it computes, as a tile to start from.
struct Unit {
  int64_t group;
  int64_t first_row;
  int64_t last_row;
  const float* x;  // at the group's first channel
  Tile tile;

  Unit(const Run& run, int64_t index) {
    const ConvGeometry& geometry = run.geometry;
    const int64_t column = index % run.column_groups * run.group_columns;
    index /= run.column_groups;
    first_row = index % run.blocks * run.block_rows;
    last_row = std::min(run.rows, first_row + run.block_rows);
    group = index / run.blocks;
    x = run.data.x + group * geometry.in_per_group();
    const int64_t k = geometry.taps() * geometry.in_per_group();
    const int64_t panels = CeilDiv(geometry.out_per_group(), run.kernel.panel_columns);
    tile.panel_floats = k * run.kernel.panel_columns;
    tile.b = run.packed + (group * panels + column / run.kernel.panel_columns) * tile.panel_floats;
    tile.columns = std::min(geometry.out_per_group() - column, run.group_columns);
    tile.c_row_stride = geometry.out_channels;
    tile.epilogue = run.data.epilogue;
    tile.operands = run.data.operands;
    tile.column = group * geometry.out_per_group() + column;
  }

  // The tile at `row`, for some of the taps.
  Tile At(const Run& run, int64_t row, TapSpan span) const {
    Tile result = tile;
    result.row = row;
    result.row_count = static_cast<int>(std::min<int64_t>(run.kernel.max_rows, last_row - row));
    result.c = run.data.y + row * tile.c_row_stride + tile.column;
    const int64_t channels = run.geometry.in_per_group();
    const bool starts = span.first == 0 && span.channel == 0;
    const bool ends = span.last == run.geometry.taps() && span.channel + span.channels == channels;
    result.b += (span.first * channels + span.channel) * run.kernel.panel_columns;
    result.start = starts ? TileStart::kZero : TileStart::kResume;
    result.end = ends ? TileEnd::kFinal : TileEnd::kPartial;
    return result;
  }
};

void RunIndirect(const Run& run, const Unit& unit, TapSpan span) {
  const float* pointers[kPointers];
  Pixel pixel(run.geometry, unit.first_row);
  for (int64_t row = unit.first_row; row < unit.last_row; ++row) {
    PointAtTaps(run, pixel, unit.x + span.channel, span, pointers + row - unit.first_row);
    pixel.Next(run.geometry.axes);
  }
  for (int64_t row = unit.first_row; row < unit.last_row; row += run.kernel.max_rows) {
    Tile tile = unit.At(run, row, span);
    tile.rows = pointers + row - unit.first_row;
    tile.row_step = run.block_rows;
    tile.taps = span.last - span.first;
    tile.depth = span.channels;
    run.kernel.run(tile);
  }
}

void RunGathered(const Run& run, const Unit& unit, TapSpan span) {
  float gathered[kGatheredFloats];
  const float* pointers[kPointers];
  const int64_t depth = (span.last - span.first) * run.geometry.in_per_group();
  Pixel pixel(run.geometry, unit.first_row);
  for (int64_t row = unit.first_row; row < unit.last_row; row += run.kernel.max_rows) {
    Tile tile = unit.At(run, row, span);
    for (int r = 0; r < tile.row_count; ++r) {
      GatherTaps(run, pixel, unit.x, span, gathered + r * depth);
      pointers[r] = gathered + r * depth;
      pixel.Next(run.geometry.axes);
    }
    tile.rows = pointers;
    tile.depth = depth;
    run.kernel.run(tile);
  }
}

void RunUnit(const Run& run, const Unit& unit) {
  const int64_t taps = run.geometry.taps();
  const int64_t channels = run.geometry.in_per_group();
  for (int64_t first = 0; first < taps; first += run.tap_step) {
    TapSpan span{first, std::min(taps, first + run.tap_step), 0, channels};
    if (run.gathers) {
      RunGathered(run, unit, span);
      continue;
    }
    do {
      span.channels = std::min(run.channel_step, channels - span.channel);
      RunIndirect(run, unit, span);
      span.channel += span.channels;
    } while (span.channel < channels);
  }
}

void PackGroup(const ConvGeometry& geometry, int64_t panel_columns, const float* weights,
               float* packed) {
  const int64_t channels = geometry.in_per_group();
  const int64_t taps = geometry.taps();
  for (int64_t column = 0; column < geometry.out_per_group(); column += panel_columns) {
    const int64_t used = std::min(panel_columns, geometry.out_per_group() - column);
    for (int64_t tap = 0; tap < taps; ++tap) {
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t j = 0; j < used; ++j) {
          *packed++ = weights[((column + j) * channels + c) * taps + tap];
        }
        packed = std::fill_n(packed, panel_columns - used, 0.0f);
      }
    }
  }
}

}  // namespace

int64_t ConvGeometry::taps() const {
  int64_t product = 1;
  for (const WindowAxis& axis : axes) product *= axis.kernel;
  return product;
}

int64_t ConvGeometry::in_pixels() const {
  int64_t product = 1;
  for (const WindowAxis& axis : axes) product *= axis.in;
  return product;
}

int64_t ConvGeometry::out_pixels() const {
  int64_t product = 1;
  for (const WindowAxis& axis : axes) product *= axis.out;
  return product;
}

WindowAxes PadAxes(WindowAxes axes) {
  while (axes.size() < kConvAxes) axes.insert(axes.begin(), WindowAxis());
  return axes;
}

int64_t PackedConvFloats(Isa isa, const ConvGeometry& geometry) {
  return geometry.group *
         PackedFloats(isa, geometry.taps() * geometry.in_per_group(), geometry.out_per_group());
}

void PackConvWeights(Isa isa, const ConvGeometry& geometry, const float* weights, float* packed) {
  const int64_t filter = geometry.taps() * geometry.in_per_group();
  const int64_t group_floats = PackedFloats(isa, filter, geometry.out_per_group());
  for (int64_t group = 0; group < geometry.group; ++group) {
    PackGroup(geometry, PanelColumns(isa), weights + group * geometry.out_per_group() * filter,
              packed + group * group_floats);
  }
}

void Conv(Isa isa, const ConvGeometry& geometry, const float* packed, const ConvData& data,
          const Parallel& parallel) {
  const Run run(geometry, data, packed, TileKernelFor(isa));
  if (run.rows == 0 || geometry.out_channels == 0) return;
  const int64_t taps = geometry.taps();
  const int64_t unit_work = run.block_rows * std::min(run.group_columns, geometry.out_per_group()) *
                            std::max<int64_t>(1, taps * geometry.in_per_group());
  parallel.For(geometry.group * run.blocks * run.column_groups,
               CeilDiv(kGrainMultiplyAdds, unit_work), [&](int64_t begin, int64_t end) {
                 for (int64_t index = begin; index < end; ++index) {
                   RunUnit(run, Unit(run, index));
                 }
               });
}

}  // namespace tandem::kernels
