// A convolution with bias and Relu as networks have it, and made-up data for it: what the
// benchmarks of convolutions share.
#pragma once

#include <algorithm>
#include <utility>

#include "engine/kernels/conv/conv.h"
#include "loadtest/kernel_bench.h"

namespace tandem::loadtest {

// Of square images, windows and strides, padded so that stride 1 keeps the image's extent.
struct SquareConv {
  int64_t in_channels = 1;
  int64_t out_channels = 1;
  int64_t extent = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t group = 1;

  kernels::ConvGeometry Geometry() const {
    kernels::ConvGeometry geometry;
    geometry.in_channels = in_channels;
    geometry.out_channels = out_channels;
    geometry.group = group;
    kernels::WindowAxis axis{.in = extent, .kernel = kernel, .stride = stride};
    axis.pad_begin = kernel / 2;
    axis.pad_end = kernel / 2;
    axis.out = (extent + axis.pad_begin + axis.pad_end - kernel) / stride + 1;
    geometry.axes = kernels::PadAxes({axis, axis});
    return geometry;
  }
};

class ConvLayer {
 public:
  explicit ConvLayer(const SquareConv& conv)
      : geometry_(conv.Geometry()),
        x_(geometry_.in_pixels() * geometry_.in_channels),
        y_(geometry_.out_pixels() * geometry_.out_channels),
        weights_(geometry_.out_channels * filter()),
        zeros_(geometry_.in_per_group()),
        bias_(geometry_.out_channels) {
    std::fill_n(zeros_.get(), geometry_.in_per_group(), 0.0f);
  }
  ConvLayer(const ConvLayer&) = delete;
  ConvLayer& operator=(const ConvLayer&) = delete;

  const kernels::ConvGeometry& geometry() const { return geometry_; }
  kernels::ConvWeights weights() { return kernels::NativeWeights(geometry_, weights_.get()); }
  // What it points to is this object's.
  kernels::ConvData data() {
    return {x_.get(), y_.get(), zeros_.get(), &epilogue_, operands_, nullptr};
  }
  int64_t multiply_adds() const {
    return geometry_.out_pixels() * geometry_.out_channels * filter();
  }
  Traffic traffic() const {
    const int64_t inputs = geometry_.in_pixels() * geometry_.in_channels;
    return {4 * (inputs + geometry_.out_channels * filter()),
            4 * geometry_.out_pixels() * geometry_.out_channels};
  }

 private:
  int64_t filter() const { return geometry_.in_per_group() * geometry_.taps(); }

  const kernels::ConvGeometry geometry_;
  Data<> x_, y_, weights_, zeros_, bias_;
  const kernels::Epilogue epilogue_ = {
      {kernels::EpilogueOp::kAdd, kernels::OperandKind::kColumn, 0, 0},
      {kernels::EpilogueOp::kRelu, kernels::OperandKind::kNone, 0, 0}};
  const kernels::EpilogueOperand operands_[2] = {{bias_.get(), 0}, {}};
};

}  // namespace tandem::loadtest
