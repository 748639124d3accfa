#include "engine/kernels/conv/conv.h"

#include <algorithm>

#include "engine/kernels/ceil_div.h"
#include "engine/kernels/gemm/block.h"
#include "engine/kernels/gemm/expanded.h"

namespace tandem::kernels {
namespace {

constexpr int64_t kPointers = 2048;        // of one block, on the stack
constexpr int64_t kGatheredFloats = 8192;  // of one tile, on the stack
constexpr int64_t kTilesPerBlock = 8;
// With fewer channels a tap is too short a run: rows of taps that lie side by side are one, or the
// taps of a pixel are copied side by side.
constexpr int64_t kShortRun = 8;

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

// Where a tile finds the floats of its rows.
enum class Runs : uint8_t {
  kTaps,     // a run for each tap, in x
  kTapRows,  // a run for each row of taps along the inner axis, in x or, at the border, copied
  kCopied,   // one run, copied
};

// Where the runs of pixels lie.
struct Source {
  const float* runs = nullptr;  // of pixel 0
  int64_t pixel_step = 0;
  const float* zeros = nullptr;
};

// Everything that stays the same for one convolution.
struct Run {
  const ConvGeometry& geometry;
  const ConvData& data;
  const float* packed;
  TileKernel kernel;
  int64_t rows;  // output pixels over all items
  GemmUnits units;
  int64_t tap_step;      // taps that are summed at once
  int64_t channel_step;  // channels of a tap that are summed at once
  Runs runs;
  bool cuts_before = false;  // x as a whole, into the scratch

  Run(const ConvGeometry& g, const ConvData& d, const float* p, const TileKernel& k, int threads)
      : geometry(g), data(d), packed(p), kernel(k), rows(g.batch * g.out_pixels()) {
    const int64_t taps = g.taps();
    const int64_t channels = g.in_per_group();
    int64_t block_rows = k.max_rows * kTilesPerBlock;
    channel_step =
        std::clamp<int64_t>(DepthPiece(channels, k.depth), 1, std::max<int64_t>(1, channels));
    runs = RunsOf(g, k);
    if (runs != Runs::kTaps) {
      const int64_t least = runs == Runs::kTapRows ? g.axes[2].kernel : 1;
      const int64_t most = kGatheredFloats / (k.max_rows * channels) / least * least;
      tap_step = std::clamp<int64_t>(most, least, taps);
    } else {
      const int64_t most = std::min(kPointers / k.max_rows, k.depth / channel_step);
      tap_step = CeilDiv(taps, CeilDiv(taps, std::clamp<int64_t>(most, 1, taps)));
      block_rows =
          k.max_rows * std::clamp<int64_t>(kPointers / (tap_step * k.max_rows), 1, kTilesPerBlock);
    }
    const int64_t panel_floats = tap_step * channel_step * k.panel_columns;
    const int64_t panels = std::clamp<int64_t>(k.group_floats / panel_floats, 1, 16);
    units = GemmUnits(rows, g.out_per_group(), block_rows, panels * k.panel_columns);
    units.CutFor(CeilDiv(threads, g.group), rows, g.out_per_group(), k);
    cuts_before = d.scratch != nullptr && CutsBefore(g, k);
  }

  // Where the kernel cuts rows, a pixel that several taps meet is cut once.
  static bool CutsBefore(const ConvGeometry& g, const TileKernel& k) {
    const int64_t channels = g.in_per_group();
    return k.cut != nullptr && g.taps() > 1 && channels > 0 && channels % k.step == 0 &&
           channels <= k.depth;
  }
  // A run of zeros comes before the pixels.
  static int64_t ScratchFloats(const ConvGeometry& g, const TileKernel& k) {
    if (!CutsBefore(g, k)) return 0;
    return k.CutFloats(g.in_per_group()) * (1 + g.batch * g.in_pixels() * g.group);
  }
  Source CutRuns(int64_t group) const {
    const int64_t floats = kernel.CutFloats(geometry.in_per_group());
    return {data.scratch + (1 + group) * floats, geometry.group * floats, data.scratch};
  }

  static Runs RunsOf(const ConvGeometry& g, const TileKernel& k) {
    const int64_t channels = g.in_per_group();
    if (channels >= kShortRun || g.taps() <= 1 || channels == 0) return Runs::kTaps;
    const WindowAxis& inner = g.axes[2];
    const bool side_by_side = g.group == 1 && inner.dilation == 1 && inner.kernel > 1;
    const bool fits = inner.kernel * channels * k.max_rows <= kGatheredFloats;
    return side_by_side && fits ? Runs::kTapRows : Runs::kCopied;
  }
};

// Calls visit(first tap of a row of taps, its pixel in x or -1 in the padding) for the taps of the
// two outer axes; the pixel is the one with position 0 on the inner axis.
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
      visit(tap, inside ? row * inner.in : -1);
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

// Pointers to the taps of `pixel`, run.units.rows apart.
void PointAtTaps(const Run& run, const Pixel& pixel, const Source& source, TapSpan span,
                 const float** out) {
  const WindowAxis& inner = run.geometry.axes[2];
  const int64_t start = pixel.at[2] * inner.stride - inner.pad_begin;
  ForTapRows(run.geometry, pixel, [&](int64_t tap, int64_t row) {
    const int64_t end = std::min(inner.kernel, span.last - tap);
    for (int64_t t = std::max<int64_t>(0, span.first - tap); t < end; ++t) {
      const int64_t at = start + t * inner.dilation;
      const bool inside = row >= 0 && at >= 0 && at < inner.in;
      out[(tap + t - span.first) * run.units.rows] =
          inside ? source.runs + (row + at) * source.pixel_step : source.zeros;
    }
  });
}

// Copies the taps of `pixel` side by side.
void GatherTaps(const Run& run, const Pixel& pixel, const float* x, TapSpan span, float* out) {
  const WindowAxis& inner = run.geometry.axes[2];
  const int64_t channels = run.geometry.in_per_group();
  const int64_t start = pixel.at[2] * inner.stride - inner.pad_begin;
  ForTapRows(run.geometry, pixel, [&](int64_t tap, int64_t row) {
    const int64_t begin = std::max<int64_t>(0, span.first - tap);
    const int64_t end = std::min(inner.kernel, span.last - tap);
    float* to = out + (tap + begin - span.first) * channels;
    for (int64_t t = begin; t < end; ++t, to += channels) {
      const int64_t at = start + t * inner.dilation;
      const bool inside = row >= 0 && at >= 0 && at < inner.in;
      const float* from = inside ? x + (row + at) * run.geometry.in_channels : run.data.zeros;
      std::copy_n(from, channels, to);
    }
  });
}

// Where the rows of taps of the pixels of one output row start: null in the padding.
struct TapRows {
  const float* first[kPointers];  // of the pixel with position 0 on the inner axis
  int64_t count = 0;

  void Find(const Run& run, const Pixel& pixel, TapSpan span) {
    count = 0;
    ForTapRows(run.geometry, pixel, [&](int64_t tap, int64_t row) {
      if (tap < span.first || tap >= span.last) return;
      first[count++] = row < 0 ? nullptr : run.data.x + row * run.geometry.in_channels;
    });
  }
};

// Pointers to the rows of taps of `pixel`, max_rows apart, for channels that are all of x. A row
// that reaches into the padding is copied to its place in `copies`.
void PointAtTapRows(const Run& run, const Pixel& pixel, const TapRows& rows, const float** out,
                    float* copies) {
  const WindowAxis& inner = run.geometry.axes[2];
  const int64_t channels = run.geometry.in_channels;
  const int64_t start = pixel.at[2] * inner.stride - inner.pad_begin;
  const int64_t low = std::clamp<int64_t>(-start, 0, inner.kernel);
  const int64_t high = std::clamp<int64_t>(inner.in - start, low, inner.kernel);
  const bool inside = high - low == inner.kernel;
  for (int64_t t = 0; t < rows.count; ++t, copies += inner.kernel * channels) {
    const float* from = rows.first[t];
    if (from != nullptr && inside) {
      *out = from + start * channels;
    } else {
      std::fill_n(copies, inner.kernel * channels, 0.0f);
      if (from != nullptr) {
        std::copy_n(from + (start + low) * channels, (high - low) * channels,
                    copies + low * channels);
      }
      *out = copies;
    }
    out += run.kernel.max_rows;
  }
}

// One unit of work: the part of a group's output that it computes, as a tile to start from.
struct Unit {
  int64_t group;
  int64_t first_row;
  int64_t last_row;
  const float* x;               // at the group's first channel
  const float* next = nullptr;  // packed weights of the columns behind
  Tile tile;

  Unit(const Run& run, int64_t index) {
    const ConvGeometry& geometry = run.geometry;
    const int64_t column = index % run.units.groups * run.units.columns;
    index /= run.units.groups;
    first_row = index % run.units.blocks * run.units.rows;
    last_row = std::min(run.rows, first_row + run.units.rows);
    group = index / run.units.blocks;
    x = run.data.x + group * geometry.in_per_group();
    const int64_t panels = CeilDiv(geometry.out_per_group(), run.kernel.panel_columns);
    tile.panel_floats = run.kernel.PanelFloats(geometry.taps() * geometry.in_per_group());
    tile.b = run.packed + (group * panels + column / run.kernel.panel_columns) * tile.panel_floats;
    tile.columns = std::min(geometry.out_per_group() - column, run.units.columns);
    if (column + tile.columns < geometry.out_per_group()) {
      next = tile.b + tile.columns / run.kernel.panel_columns * tile.panel_floats;
    }
    tile.c_row_stride = geometry.y_step() * geometry.out_channels;
    tile.epilogue = run.data.epilogue;
    tile.operands = run.data.operands;
    tile.column = group * geometry.out_per_group() + column;
  }

  // About so many.
  int64_t Tiles(const Run& run) const { return CeilDiv(last_row - first_row, run.kernel.max_rows); }

  // The tile at `row`, for some of the taps.
  Tile At(const Run& run, int64_t row, TapSpan span) const {
    Tile result = tile;
    result.row = run.geometry.PixelOfY(row);
    result.row_step_of_operands = run.geometry.y_step();
    // In a y with gaps, rows are equally far apart along the inner axis only.
    const int64_t inner = run.geometry.axes[2].out;
    const int64_t left = run.geometry.outputs.empty()
                             ? last_row - row
                             : std::min(last_row - row, inner - row % inner);
    result.row_count = static_cast<int>(std::min<int64_t>(run.kernel.max_rows, left));
    result.c = run.data.y + result.row * run.geometry.out_channels + tile.column;
    const int64_t channels = run.geometry.in_per_group();
    const bool starts = span.first == 0 && span.channel == 0;
    const bool ends = span.last == run.geometry.taps() && span.channel + span.channels == channels;
    result.k = span.first * channels + span.channel;
    const int64_t end = result.k + (span.last - span.first) * span.channels;
    result.fetch = FetchOf(ends ? next : tile.b + run.kernel.PanelFloats(end),
                           run.kernel.BodyFloats(end - result.k), tile.panel_floats,
                           (row - first_row) / run.kernel.max_rows, Tiles(run));
    result.taps = span.last - span.first;
    result.depth = span.channels;
    result.start = starts ? TileStart::kZero : TileStart::kResume;
    result.end = ends ? TileEnd::kFinal : TileEnd::kPartial;
    return result;
  }
};

// Cuts x as a whole.
void CutPixels(const Run& run, const Parallel& parallel) {
  const int64_t channels = run.geometry.in_per_group();
  const int64_t floats = run.kernel.CutFloats(channels);
  std::fill_n(run.data.scratch, floats, 0.0f);
  const int64_t runs = run.geometry.batch * run.geometry.in_pixels() * run.geometry.group;
  parallel.For(runs, GrainOf(kGrainElements, channels), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      run.kernel.cut(run.data.x + i * channels, channels, run.data.scratch + (1 + i) * floats);
    }
  });
}

void RunIndirect(const Run& run, const Unit& unit, TapSpan span) {
  const float* pointers[kPointers];
  const float* cut[kPointers];
  const Source x{unit.x + span.channel, run.geometry.in_channels, run.data.zeros};
  const Source parts = run.CutRuns(unit.group);
  Pixel pixel(run.geometry, unit.first_row);
  for (int64_t row = 0; row < unit.last_row - unit.first_row; ++row) {
    PointAtTaps(run, pixel, x, span, pointers + row);
    if (run.cuts_before) PointAtTaps(run, pixel, parts, span, cut + row);
    pixel.Next(run.geometry.axes);
  }
  const ExpandedPanels panels(run.kernel, unit.At(run, unit.first_row, span), unit.Tiles(run));
  for (int64_t row = unit.first_row; row < unit.last_row;) {
    Tile tile = unit.At(run, row, span);
    tile.rows = pointers + (row - unit.first_row);
    if (run.cuts_before) tile.cut = cut + (row - unit.first_row);
    tile.row_step = run.units.rows;
    panels.Run(tile);
    row += tile.row_count;
  }
}

void RunGathered(const Run& run, const Unit& unit, TapSpan span) {
  float gathered[kGatheredFloats];
  const float* pointers[kPointers];
  const int64_t taps = span.last - span.first;
  const int64_t floats = taps * run.geometry.in_per_group();
  const int64_t inner = run.geometry.axes[2].kernel;
  Pixel pixel(run.geometry, unit.first_row);
  TapRows tap_rows;
  if (run.runs == Runs::kTapRows) tap_rows.Find(run, pixel, span);
  const ExpandedPanels panels(run.kernel, unit.At(run, unit.first_row, span), unit.Tiles(run));
  for (int64_t row = unit.first_row; row < unit.last_row;) {
    Tile tile = unit.At(run, row, span);
    for (int r = 0; r < tile.row_count; ++r) {
      float* copies = gathered + r * floats;
      if (run.runs == Runs::kTapRows) {
        if (pixel.at[2] == 0) tap_rows.Find(run, pixel, span);
        PointAtTapRows(run, pixel, tap_rows, pointers + r, copies);
      } else {
        GatherTaps(run, pixel, unit.x, span, copies);
        pointers[r] = copies;
      }
      pixel.Next(run.geometry.axes);
    }
    tile.rows = pointers;
    tile.row_step = run.kernel.max_rows;
    tile.taps = run.runs == Runs::kTapRows ? taps / inner : 1;
    tile.depth = floats / tile.taps;
    panels.Run(tile);
    row += tile.row_count;
  }
}

void RunUnit(const Run& run, const Unit& unit) {
  const int64_t taps = run.geometry.taps();
  const int64_t channels = run.geometry.in_per_group();
  for (int64_t first = 0; first < taps; first += run.tap_step) {
    TapSpan span{first, std::min(taps, first + run.tap_step), 0, channels};
    if (run.runs != Runs::kTaps) {
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

void PackGroup(const ConvGeometry& geometry, const TileKernel& kernel, const ConvWeights& weights,
               int64_t group, float* packed) {
  const int64_t first = group * geometry.out_per_group();
  const int64_t channels = geometry.in_per_group();
  const int64_t k = geometry.taps() * channels;
  for (int64_t column = 0; column < geometry.out_per_group(); column += kernel.panel_columns) {
    const int64_t used = std::min<int64_t>(kernel.panel_columns, geometry.out_per_group() - column);
    const auto read = [&](int64_t at, int64_t count, float* out) {
      for (int64_t end = at + count; at < end;) {
        const float* from = weights.At(geometry, first + column, at % channels, at / channels);
        const int64_t of_tap = std::min(end, (at / channels + 1) * channels) - at;
        CopyColumns({from, weights.in, weights.out}, of_tap, used, kernel.panel_columns, out);
        out += of_tap * kernel.panel_columns;
        at += of_tap;
      }
    };
    kernel.pack(k, read, packed);
    PackScales(kernel, weights.columns, first + column, used, 1, packed);
    packed += kernel.PanelFloats(k);
  }
}

// The kernel of one group's product.
TileKernel KernelFor(Arithmetic arithmetic, const ConvGeometry& geometry) {
  return TileKernelFor(arithmetic, geometry.taps() * geometry.in_per_group(),
                       geometry.out_per_group());
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

int64_t ConvGeometry::PixelOfY(int64_t row) const {
  if (outputs.empty()) return row;
  int64_t pixel = 0;
  int64_t step = 1;
  for (size_t i = kConvAxes; i-- > 0;) {
    pixel += (row % axes[i].out * outputs[i].step + outputs[i].offset) * step;
    step *= outputs[i].extent;
    row /= axes[i].out;
  }
  return pixel + row * step;
}

const float* ConvWeights::At(const ConvGeometry& geometry, int64_t channel, int64_t c,
                             int64_t tap) const {
  const int64_t outputs = geometry.out_per_group();
  const float* at = data + channel / outputs * group + channel % outputs * out + c * in;
  for (int i = kConvAxes - 1; i >= 0; --i) {
    const int64_t kernel = geometry.axes[static_cast<size_t>(i)].kernel;
    at += tap % kernel * taps[i];
    tap /= kernel;
  }
  return at;
}

ConvWeights NativeWeights(const ConvGeometry& geometry, const float* data) {
  const int64_t taps = geometry.taps();
  const int64_t filter = geometry.in_per_group() * taps;
  const WindowAxes& axes = geometry.axes;
  return {data,
          geometry.out_per_group() * filter,
          filter,
          taps,
          {axes[1].kernel * axes[2].kernel, axes[2].kernel, 1},
          {}};
}

WindowAxes PadAxes(WindowAxes axes) {
  while (axes.size() < kConvAxes) axes.insert(axes.begin(), WindowAxis());
  return axes;
}

int64_t PackedConvFloats(Arithmetic arithmetic, const ConvGeometry& geometry) {
  return geometry.group * PackedFloats(arithmetic, geometry.taps() * geometry.in_per_group(),
                                       geometry.out_per_group());
}

void PackConvWeights(Arithmetic arithmetic, const ConvGeometry& geometry,
                     const ConvWeights& weights, float* packed) {
  const int64_t group_floats = PackedConvFloats(arithmetic, geometry) / geometry.group;
  const TileKernel kernel = KernelFor(arithmetic, geometry);
  for (int64_t group = 0; group < geometry.group; ++group) {
    PackGroup(geometry, kernel, weights, group, packed + group * group_floats);
  }
}

int64_t ConvScratchFloats(Arithmetic arithmetic, const ConvGeometry& geometry) {
  return Run::ScratchFloats(geometry, KernelFor(arithmetic, geometry));
}

void Conv(Arithmetic arithmetic, const ConvGeometry& geometry, const float* packed,
          const ConvData& data, const Parallel& parallel) {
  const Run run(geometry, data, packed, KernelFor(arithmetic, geometry), parallel.threads());
  if (run.rows == 0 || geometry.out_channels == 0) return;
  if (run.cuts_before) CutPixels(run, parallel);
  const int64_t taps = geometry.taps();
  const int64_t unit_work = std::min(run.units.rows, run.rows) *
                            std::min(run.units.columns, geometry.out_per_group()) *
                            std::max<int64_t>(1, taps * geometry.in_per_group());
  parallel.For(geometry.group * run.units.blocks * run.units.groups,
               GrainOf(kGrainMultiplyAdds, unit_work), [&](int64_t begin, int64_t end) {
                 for (int64_t index = begin; index < end; ++index) {
                   RunUnit(run, Unit(run, index));
                 }
               });
}

}  // namespace tandem::kernels
