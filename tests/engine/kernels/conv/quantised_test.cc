// Convolutions with quantised weights, which are those with the dequantised ones, bit for bit.
#include <gtest/gtest.h>

#include "tests/engine/kernels/conv/conv_case.h"
#include "tests/support/fine_parallel.h"
#include "tests/support/op_runner.h"

namespace tandem::kernels {
namespace {

void ExpectBitsOfDequantised(const ConvGeometry& geometry) {
  ConvCase conv(geometry);
  const Tensor scales = test::RandomFloats({geometry.out_channels}, 5, 0.001f, 0.1f);
  const Tensor integers = test::RandomWholeFloats(conv.weights.shape(), 6, -128, 128);
  const Tensor zero_points = test::RandomWholeFloats({geometry.out_channels}, 7, -20, 20);
  const int64_t filter = conv.Depth();
  for (int64_t i = 0; i < integers.elements(); ++i) {
    conv.weights.mutable_data<float>()[i] =
        (integers.data<float>()[i] - zero_points.data<float>()[i / filter]) *
        scales.data<float>()[i / filter];
  }
  ConvWeights native = NativeWeights(conv.geometry, integers.data<float>());
  native.columns = {scales.data<float>(), zero_points.data<float>()};
  for (const Isa isa : test::IsaLevels()) {
    if (isa == Isa::kReference) continue;
    const Tensor expected = conv.Indirect({isa, Precision::kF32Plain});
    const Arithmetic by{isa, Precision::kF32, Weights::kBytes};
    Tensor packed = *Tensor::Allocate(DType::kFloat, {PackedConvFloats(by, conv.geometry)});
    PackConvWeights(by, conv.geometry, native, packed.mutable_data<float>());
    for (const int threads : {1, 4}) {
      Conv(by, conv.geometry, packed.data<float>(), conv.Data(), test::FineParallel(threads));
      ASSERT_TRUE(test::Close(conv.y, expected, test::Exact())) << conv.Text(by);
    }
  }
}

TEST(QuantisedConv, HasTheBitsOfDequantisedWeights) {
  const WindowAxis plain = {.kernel = 3, .pad_begin = 1, .pad_end = 1};
  const std::vector<WindowAxes> windows = {
      {Axis(17, {})},
      {Axis(5, plain), Axis(6, plain)},
      {Axis(9, {.kernel = 3, .stride = 2, .pad_end = 1}),
       Axis(19, {.kernel = 2, .dilation = 3, .pad_begin = 1, .pad_end = 2})},
  };
  for (const WindowAxes& axes : windows) {
    for (const int64_t group : {1, 3}) {
      for (const int64_t in : {1, 2, 3, 5, 16, 33, 600}) {
        for (const int64_t out : {1, 15, 33, 70}) {
          ExpectBitsOfDequantised({.batch = 2,
                                   .in_channels = in * group,
                                   .out_channels = out * group,
                                   .group = group,
                                   .axes = axes});
        }
      }
    }
  }
}

TEST(QuantisedConv, EverySizeHasTheBitsOfDequantisedWeights) {
  const WindowAxis plain = {.kernel = 3, .pad_begin = 1, .pad_end = 1};
  const WindowAxes axes = {Axis(4, plain), Axis(5, plain)};
  for (int64_t size = 1; size <= 70; ++size) {
    ExpectBitsOfDequantised({.in_channels = size, .out_channels = 18, .axes = axes});
    ExpectBitsOfDequantised({.in_channels = 5, .out_channels = size, .axes = axes});
    ExpectBitsOfDequantised(
        {.in_channels = 5, .out_channels = 18, .axes = {Axis(2, plain), Axis(size, plain)}});
  }
}

}  // namespace
}  // namespace tandem::kernels
