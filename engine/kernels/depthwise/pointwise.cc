#include "engine/kernels/depthwise/pointwise.h"

#include <algorithm>

#include "engine/kernels/gemm/block.h"

namespace tandem::kernels {
namespace {

constexpr int64_t kStripFloats = int64_t{1} << 16;  // an eighth of an L2 cache of 2 MiB
constexpr int64_t kMostTiles = 8;                   // of a strip
constexpr int64_t kStripsPerItem = 4;               // where that leaves whole tiles

// Pixels of a strip: whole tiles of rows of the product. Depends on the item's shape and the kernel
// only.
int64_t StripPixels(const ConvGeometry& depthwise, const TileKernel& kernel) {
  const int64_t tile_floats = kernel.max_rows * std::max<int64_t>(1, depthwise.out_channels);
  const int64_t item_tiles = depthwise.out_pixels() / kernel.max_rows;
  const int64_t tiles = std::min(kStripFloats / tile_floats, item_tiles / kStripsPerItem);
  return kernel.max_rows * std::clamp<int64_t>(tiles, 1, kMostTiles);
}

TileKernel KernelFor(Arithmetic arithmetic, const DepthwisePointwise& pair) {
  return TileKernelFor(arithmetic, pair.depthwise.out_channels, pair.product.n);
}

class Run {
 public:
  Run(Arithmetic arithmetic, const DepthwisePointwise& pair, float* scratch)
      : isa_(arithmetic.isa),
        pair_(pair),
        scratch_(scratch),
        kernel_(KernelFor(arithmetic, pair)),
        pixels_(pair.depthwise.batch * pair.depthwise.out_pixels()),
        strip_(StripPixels(pair.depthwise, kernel_)) {}

  int64_t strips() const { return (pixels_ + strip_ - 1) / strip_; }
  int64_t multiply_adds() const {
    const ConvGeometry& depthwise = pair_.depthwise;
    return pixels_ * depthwise.out_channels * (depthwise.taps() + pair_.product.n);
  }

  void RunStrip(int64_t strip, int64_t thread) const {
    const int64_t channels = pair_.depthwise.out_channels;
    const PixelRange pixels{strip * strip_, std::min(pixels_, (strip + 1) * strip_)};
    ConvData depthwise = pair_.data;
    depthwise.y = scratch_ + thread * strip_ * channels;
    ConvShortGroupsOfPixels(isa_, pair_.depthwise, pair_.depthwise_packed, depthwise, pixels);
    GemmProblem problem = pair_.product;
    problem.m = pixels.last - pixels.first;
    problem.k = channels;
    problem.a = depthwise.y;
    problem.a_row_stride = channels;
    problem.row += pixels.first;
    const GemmUnits units(problem.m, problem.n, problem.k, kernel_);
    GemmBlock block;
    block.rows = problem.m;
    block.c_row_stride = problem.c_row_stride;
    for (; block.column < problem.n; block.column += units.columns) {
      block.columns = std::min(problem.n - block.column, units.columns);
      block.c = problem.c + pixels.first * problem.c_row_stride + block.column;
      RunBlock(problem, pair_.product_packed, kernel_, block);
    }
  }

 private:
  Isa isa_;
  const DepthwisePointwise& pair_;
  float* scratch_;
  TileKernel kernel_;
  int64_t pixels_;
  int64_t strip_;
};

}  // namespace

int64_t DepthwisePointwiseScratchFloats(Arithmetic arithmetic, const DepthwisePointwise& pair,
                                        int threads) {
  const ConvGeometry& depthwise = pair.depthwise;
  return threads * StripPixels(depthwise, KernelFor(arithmetic, pair)) * depthwise.out_channels;
}

void ConvDepthwisePointwise(Arithmetic arithmetic, const DepthwisePointwise& pair, float* scratch,
                            const Parallel& parallel) {
  const Run run(arithmetic, pair, scratch);
  if (run.strips() == 0) return;
  // Every thread has a strip of its own: it takes every so many of them.
  const int64_t threads = parallel.Shares(
      run.strips(), GrainOf(kGrainMultiplyAdds, run.multiply_adds() / run.strips()));
  parallel.For(threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) {
      for (int64_t strip = thread; strip < run.strips(); strip += threads) {
        run.RunStrip(strip, thread);
      }
    }
  });
}

}  // namespace tandem::kernels
