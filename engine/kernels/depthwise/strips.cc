#include "engine/kernels/depthwise/strips.h"

#include <algorithm>

#include "engine/kernels/ceil_div.h"
#include "engine/kernels/gemm/block.h"

namespace tandem::kernels {
namespace {

constexpr int64_t kStripFloats = int64_t{1} << 16;  // an eighth of an L2 cache of 2 MiB
constexpr int64_t kMostTiles = 8;                   // of a strip
constexpr int64_t kStripsPerItem = 4;               // where that leaves whole tiles

// How an item is cut, which depends on its shape and the kernel only.
struct Cut {
  int64_t pixels = 0;     // of z, of a strip
  int64_t strips = 0;     // of an item
  int64_t held_rows = 0;  // of u, that the windows of a strip reach; 0: u is x

  Cut(const DepthwiseStrips& strips, const TileKernel& kernel) {
    const ConvGeometry& depthwise = strips.depthwise;
    const int64_t tile_floats = kernel.max_rows * std::max<int64_t>(1, depthwise.out_channels);
    const int64_t item_tiles = depthwise.out_pixels() / kernel.max_rows;
    const int64_t most = std::min(kStripFloats / tile_floats, item_tiles / kStripsPerItem);
    const int64_t least = CeilDiv(item_tiles, std::clamp<int64_t>(most, 1, kMostTiles));
    // About as many for each of two or four threads.
    const int64_t even = CeilDiv(std::max<int64_t>(1, least), kStripsPerItem) * kStripsPerItem;
    pixels = kernel.max_rows * std::max<int64_t>(1, CeilDiv(item_tiles, even));
    this->strips = CeilDiv(depthwise.out_pixels(), pixels);
    if (!strips.expansion || this->strips == 0) return;
    const WindowAxis& axis = depthwise.axes[1];
    const int64_t width = depthwise.axes[2].out;
    const bool whole_rows = pixels % width == 0;
    const int64_t rows = whole_rows ? pixels / width : CeilDiv(pixels - 1, width) + 1;
    const int64_t reach = (rows - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1;
    held_rows = std::min(axis.in, reach);
  }

  int64_t ScratchFloats(const DepthwiseStrips& strips) const {
    const ConvGeometry& depthwise = strips.depthwise;
    const int64_t held = held_rows * depthwise.axes[2].in * depthwise.in_channels;
    return held + (strips.projection ? pixels * depthwise.out_channels : 0);
  }
};

// The kernel whose tiles strips are cut for.
TileKernel KernelFor(Arithmetic arithmetic, const DepthwiseStrips& strips) {
  const int64_t channels = strips.depthwise.in_channels;
  if (strips.projection) return TileKernelFor(arithmetic, channels, strips.projection->problem.n);
  return TileKernelFor(arithmetic, strips.expansion->problem.k, channels);
}

// The pointwise convolution of the rows that the problem has.
void RunRows(Arithmetic arithmetic, const PointwiseProduct& pointwise, GemmProblem problem) {
  const TileKernel kernel = TileKernelFor(arithmetic, problem.k, problem.n);
  const GemmUnits units(problem.m, problem.n, problem.k, kernel);
  GemmBlock block;
  block.rows = problem.m;
  block.c_row_stride = problem.c_row_stride;
  for (; block.column < problem.n; block.column += units.columns) {
    block.columns = std::min(problem.n - block.column, units.columns);
    block.c = problem.c + block.column;
    RunBlock(problem, pointwise.packed, kernel, block);
  }
}

class Run {
 public:
  Run(Arithmetic arithmetic, const DepthwiseStrips& strips, float* scratch)
      : arithmetic_(arithmetic),
        strips_(strips),
        geometry_(strips.depthwise),
        cut_(strips, KernelFor(arithmetic, strips)),
        scratch_(scratch) {}

  int64_t strips() const { return geometry_.batch * cut_.strips; }
  int64_t multiply_adds() const {
    int64_t products = geometry_.out_pixels() * geometry_.out_channels * geometry_.taps();
    if (strips_.expansion) {
      products += geometry_.in_pixels() * geometry_.in_channels * strips_.expansion->problem.k;
    }
    if (strips_.projection) {
      products += geometry_.out_pixels() * geometry_.out_channels * strips_.projection->problem.n;
    }
    return geometry_.batch * products;
  }

  // Strips [first, last), in the scratch of this thread.
  void RunStrips(int64_t first, int64_t last, int64_t thread) const {
    Held held{scratch_ + thread * cut_.ScratchFloats(strips_)};
    float* strip = held.rows + held_floats();
    for (int64_t i = first; i < last; ++i) {
      const int64_t item = i / cut_.strips;
      const int64_t begin = item * geometry_.out_pixels();
      const int64_t at = begin + i % cut_.strips * cut_.pixels;
      const PixelRange pixels{at, std::min(at + cut_.pixels, begin + geometry_.out_pixels())};
      if (strips_.expansion) Expand(item, pixels, held);
      ConvData data = strips_.data;
      if (strips_.expansion) data.x = held.rows;
      data.y = strips_.projection ? strip : data.y + pixels.first * geometry_.out_channels;
      ConvShortGroupsOfPixels(arithmetic_.isa, geometry_, strips_.packed, data, pixels,
                              cut_.held_rows);
      if (strips_.projection) Project(pixels, strip);
    }
  }

 private:
  // Rows of u of one item; those before `end` were made, and the last of them are there.
  struct Held {
    float* rows;
    int64_t item = -1;
    int64_t end = 0;
  };

  int64_t row_floats() const { return geometry_.axes[2].in * geometry_.in_channels; }
  int64_t held_floats() const { return cut_.held_rows * row_floats(); }

  // Makes the rows that the windows of these pixels reach.
  void Expand(int64_t item, const PixelRange& pixels, Held& held) const {
    const WindowAxis& axis = geometry_.axes[1];
    const auto out_row = [&](int64_t pixel) { return pixel / geometry_.axes[2].out % axis.out; };
    const int64_t first = out_row(pixels.first) * axis.stride - axis.pad_begin;
    const int64_t last =
        out_row(pixels.last - 1) * axis.stride - axis.pad_begin + (axis.kernel - 1) * axis.dilation;
    int64_t row = std::clamp<int64_t>(first, 0, axis.in);
    const int64_t end = std::clamp<int64_t>(last + 1, row, axis.in);
    if (item == held.item) row = std::max(row, held.end);
    while (row < end) {
      const int64_t place = row % cut_.held_rows;
      const int64_t rows = std::min(end - row, cut_.held_rows - place);
      ExpandRows(item, row, rows, held.rows + place * row_floats());
      row += rows;
    }
    held.item = item;
    held.end = end;
  }

  void ExpandRows(int64_t item, int64_t row, int64_t rows, float* to) const {
    const int64_t width = geometry_.axes[2].in;
    GemmProblem problem = strips_.expansion->problem;
    problem.row = (item * geometry_.axes[1].in + row) * width;
    problem.a += problem.row * problem.k;
    problem.a_row_stride = problem.k;
    problem.m = rows * width;
    problem.n = geometry_.in_channels;
    problem.c = to;
    problem.c_row_stride = problem.n;
    RunRows(arithmetic_, *strips_.expansion, problem);
  }

  void Project(const PixelRange& pixels, const float* strip) const {
    GemmProblem problem = strips_.projection->problem;
    problem.row = pixels.first;
    problem.m = pixels.last - pixels.first;
    problem.k = geometry_.out_channels;
    problem.a = strip;
    problem.a_row_stride = problem.k;
    problem.c_row_stride = problem.n;
    problem.c += problem.row * problem.n;
    RunRows(arithmetic_, *strips_.projection, problem);
  }

  Arithmetic arithmetic_;
  const DepthwiseStrips& strips_;
  const ConvGeometry& geometry_;
  Cut cut_;
  float* scratch_;
};

}  // namespace

int64_t DepthwiseStripsScratchFloats(Arithmetic arithmetic, const DepthwiseStrips& strips,
                                     int threads) {
  return threads * Cut(strips, KernelFor(arithmetic, strips)).ScratchFloats(strips);
}

void ConvDepthwiseStrips(Arithmetic arithmetic, const DepthwiseStrips& strips, float* scratch,
                         const Parallel& parallel) {
  const Run run(arithmetic, strips, scratch);
  const int64_t count = run.strips();
  if (count == 0) return;
  // Every thread takes neighbours, which share rows of the expansion.
  const int64_t threads =
      parallel.Shares(count, GrainOf(kGrainMultiplyAdds, run.multiply_adds() / count));
  parallel.For(threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) {
      run.RunStrips(thread * count / threads, (thread + 1) * count / threads, thread);
    }
  });
}

}  // namespace tandem::kernels
