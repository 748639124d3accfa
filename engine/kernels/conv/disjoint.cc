#include "engine/kernels/conv/disjoint.h"

#include <algorithm>

#include "engine/kernels/ceil_div.h"
#include "engine/kernels/gemm/block.h"

namespace tandem::kernels {
namespace {

constexpr int64_t kStripFloats = int64_t{1} << 14;

// Of the product.
int64_t ColumnsOf(const ConvGeometry& geometry) { return geometry.out_channels * geometry.taps(); }

TileKernel KernelFor(Arithmetic arithmetic, const ConvGeometry& geometry) {
  return TileKernelFor(arithmetic, geometry.in_channels, ColumnsOf(geometry));
}

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};

// The outputs of an axis that input `at` and its taps are in charge of; those that nothing meets
// come with the last input.
Range OutputsOf(const WindowAxis& axis, int64_t at) {
  const auto inside = [&](int64_t o) { return std::clamp<int64_t>(o, 0, axis.out); };
  return {at == 0 ? 0 : inside(at * axis.stride - axis.pad_begin),
          at + 1 == axis.in ? axis.out : inside((at + 1) * axis.stride - axis.pad_begin)};
}

// The taps of `at` that lie in the output.
Range TapsOf(const WindowAxis& axis, int64_t at) {
  const int64_t first = at * axis.stride - axis.pad_begin;
  return {std::clamp<int64_t>(-first, 0, axis.kernel),
          std::clamp<int64_t>(axis.out - first, 0, axis.kernel)};
}

// One row of input pixels and the rows of outputs it is in charge of.
class InputRow {
 public:
  InputRow(const ConvGeometry& geometry, const ConvData& data, const TileKernel& kernel,
           int64_t index)
      : geometry_(geometry),
        data_(data),
        kernel_(kernel),
        middle_(index % geometry.axes[1].in),
        outer_(index / geometry.axes[1].in % geometry.axes[0].in),
        item_(index / geometry.axes[1].in / geometry.axes[0].in),
        first_pixel_(index * geometry.axes[2].in) {}

  void Run(const float* packed) const {
    float strip[kStripFloats];
    GemmProblem problem;
    problem.n = ColumnsOf(geometry_);
    problem.k = geometry_.in_channels;
    problem.a = data_.x + first_pixel_ * geometry_.in_channels;
    problem.a_row_stride = geometry_.in_channels;
    GemmBlock block;
    block.columns = problem.n;
    block.c = strip;
    block.c_row_stride = problem.n;
    const int64_t pixels = geometry_.axes[2].in;
    const int64_t most = kStripFloats / problem.n / kernel_.max_rows * kernel_.max_rows;
    for (; block.row < pixels; block.row += block.rows) {
      block.rows = std::min(most, pixels - block.row);
      RunBlock(problem, packed, kernel_, block);
      for (int64_t row = 0; row < block.rows; ++row) {
        Scatter(block.row + row, strip + row * problem.n);
      }
    }
    Finish();
  }

 private:
  int64_t PixelOfY(int64_t outer, int64_t middle) const {
    const WindowAxes& axes = geometry_.axes;
    return ((item_ * axes[0].out + outer) * axes[1].out + middle) * axes[2].out;
  }

  // The sums of one input pixel.
  void Scatter(int64_t inner, const float* sums) const {
    const WindowAxes& axes = geometry_.axes;
    const int64_t channels = geometry_.out_channels;
    const Range t0 = TapsOf(axes[0], outer_);
    const Range t1 = TapsOf(axes[1], middle_);
    const Range t2 = TapsOf(axes[2], inner);
    if (t2.begin >= t2.end) return;
    const int64_t at0 = outer_ * axes[0].stride - axes[0].pad_begin;
    const int64_t at1 = middle_ * axes[1].stride - axes[1].pad_begin;
    const int64_t at2 = inner * axes[2].stride - axes[2].pad_begin + t2.begin;
    for (int64_t outer = t0.begin; outer < t0.end; ++outer) {
      for (int64_t middle = t1.begin; middle < t1.end; ++middle) {
        const int64_t tap = (outer * axes[1].kernel + middle) * axes[2].kernel + t2.begin;
        std::copy_n(sums + tap * channels, (t2.end - t2.begin) * channels,
                    data_.y + (PixelOfY(at0 + outer, at1 + middle) + at2) * channels);
      }
    }
  }

  // Zeros where no tap was, then the epilogue.
  void Finish() const {
    const WindowAxes& axes = geometry_.axes;
    const Range outers = OutputsOf(axes[0], outer_);
    const Range middles = OutputsOf(axes[1], middle_);
    const auto met = [&](size_t i) {
      return std::clamp<int64_t>(axes[i].in * axes[i].stride - axes[i].pad_begin, 0, axes[i].out);
    };
    for (int64_t outer = outers.begin; outer < outers.end; ++outer) {
      for (int64_t middle = middles.begin; middle < middles.end; ++middle) {
        const int64_t first = PixelOfY(outer, middle);
        const int64_t filled = outer < met(0) && middle < met(1) ? met(2) : 0;
        std::fill(data_.y + (first + filled) * geometry_.out_channels,
                  data_.y + (first + axes[2].out) * geometry_.out_channels, 0.0f);
        if (data_.epilogue != nullptr) ApplyEpilogue(first);
      }
    }
  }

  // To a row of output pixels that holds sums: a product of no depth that goes on from there.
  void ApplyEpilogue(int64_t first) const {
    const float* rows[kMostTileRows];
    std::fill_n(rows, kMostTileRows, data_.zeros);
    Tile tile;
    tile.rows = rows;
    tile.b = data_.zeros;
    tile.columns = geometry_.out_channels;
    tile.c_row_stride = geometry_.out_channels;
    tile.start = TileStart::kResume;
    tile.epilogue = data_.epilogue;
    tile.operands = data_.operands;
    const int64_t end = first + geometry_.axes[2].out;
    for (tile.row = first; tile.row < end; tile.row += tile.row_count) {
      tile.row_count = static_cast<int>(std::min<int64_t>(kernel_.max_rows, end - tile.row));
      tile.c = data_.y + tile.row * geometry_.out_channels;
      kernel_.run(tile);
    }
  }

  const ConvGeometry& geometry_;
  const ConvData& data_;
  const TileKernel& kernel_;
  int64_t middle_;
  int64_t outer_;
  int64_t item_;
  int64_t first_pixel_;
};

}  // namespace

bool HasDisjointFilters(Arithmetic arithmetic, const ConvGeometry& geometry) {
  if (geometry.group != 1 || geometry.taps() == 1 || geometry.out_channels == 0) return false;
  for (const WindowAxis& axis : geometry.axes) {
    if (axis.kernel != axis.stride || axis.dilation != 1) return false;
  }
  const TileKernel kernel = KernelFor(arithmetic, geometry);
  if (ColumnsOf(geometry) * kernel.max_rows > kStripFloats) return false;
  const int64_t together = CeilDiv(ColumnsOf(geometry), kernel.panel_columns);
  const int64_t apart = geometry.taps() * CeilDiv(geometry.out_channels, kernel.panel_columns);
  return geometry.out_channels <= kernel.panel_columns || 8 * together <= 7 * apart;
}

int64_t PackedDisjointFloats(Arithmetic arithmetic, const ConvGeometry& geometry) {
  return PackedFloats(arithmetic, geometry.in_channels, ColumnsOf(geometry));
}

void PackDisjoint(Arithmetic arithmetic, const ConvGeometry& geometry, const float* weights,
                  float* packed) {
  const TileKernel kernel = KernelFor(arithmetic, geometry);
  const int64_t panel = kernel.panel_columns;
  const int64_t columns = ColumnsOf(geometry);
  const int64_t channels = geometry.out_channels;
  const int64_t taps = geometry.taps();
  for (int64_t first = 0; first < columns; first += panel) {
    const auto read = [&](int64_t c, int64_t count, float* out) {
      for (const int64_t end = c + count; c < end; ++c) {
        for (int64_t column = first; column < first + panel; ++column) {
          const int64_t at = (c * channels + column % channels) * taps + column / channels;
          *out++ = column < columns ? weights[at] : 0.0f;
        }
      }
    };
    kernel.pack(geometry.in_channels, read, packed);
    packed += kernel.PanelFloats(geometry.in_channels);
  }
}

void ConvDisjoint(Arithmetic arithmetic, const ConvGeometry& geometry, const float* packed,
                  const ConvData& data, const Parallel& parallel) {
  if (geometry.in_pixels() == 0) {
    std::fill_n(data.y, geometry.batch * geometry.out_pixels() * geometry.out_channels, 0.0f);
    ApplyEpilogueReference(geometry, data);
    return;
  }
  const TileKernel kernel = KernelFor(arithmetic, geometry);
  const WindowAxes& axes = geometry.axes;
  const int64_t work = axes[2].in * ColumnsOf(geometry) * geometry.in_channels;
  parallel.For(geometry.batch * axes[0].in * axes[1].in, GrainOf(kGrainMultiplyAdds, work),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   InputRow(geometry, data, kernel, row).Run(packed);
                 }
               });
}

}  // namespace tandem::kernels
