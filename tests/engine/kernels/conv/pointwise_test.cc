// A depthwise and a pointwise convolution as one: the bits of the two one after the other.
#include "engine/kernels/depthwise/pointwise.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "engine/kernels/depthwise/fusion.h"
#include "engine/tensor/tensor.h"
#include "tests/support/arithmetics.h"
#include "tests/support/compare.h"
#include "tests/support/fine_parallel.h"
#include "tests/support/random_tensor.h"

namespace tandem::kernels {
namespace {

WindowAxis Axis(int64_t in, WindowAxis axis) {
  axis.in = in;
  axis.out =
      (in + axis.pad_begin + axis.pad_end - (axis.kernel - 1) * axis.dilation - 1) / axis.stride +
      1;
  return axis;
}

// Bias and Relu behind the first, bias and a residual behind the second.
struct Case {
  ConvGeometry geometry;  // of the first
  int64_t columns;
  Tensor x, first_weights, first_bias, weights, bias, residual;
  Epilogue first_epilogue = {{EpilogueOp::kAdd, OperandKind::kColumn},
                             {EpilogueOp::kRelu, OperandKind::kNone}};
  Epilogue epilogue = {{EpilogueOp::kAdd, OperandKind::kColumn},
                       {EpilogueOp::kAdd, OperandKind::kFull}};
  std::vector<EpilogueOperand> first_operands, operands;

  Case(int64_t batch, int64_t channels, WindowAxes axes, int64_t columns) : columns(columns) {
    geometry.batch = batch;
    geometry.in_channels = channels;
    geometry.out_channels = channels;
    geometry.group = channels;
    geometry.axes = PadAxes(std::move(axes));
    x = test::RandomFloats({batch, geometry.in_pixels(), channels}, 1);
    first_weights = test::RandomFloats({channels, 1, geometry.taps()}, 2);
    first_bias = test::RandomFloats({channels}, 3);
    weights = test::RandomFloats({columns, channels, 1}, 4);
    bias = test::RandomFloats({columns}, 5);
    residual = test::RandomFloats({batch, geometry.out_pixels(), columns}, 6);
    first_operands = {{first_bias.data<float>(), 0}, {}};
    operands = {{bias.data<float>(), 0}, {residual.data<float>(), columns}};
  }

  // Starts as NaN, so that an element that nobody writes is seen.
  Tensor Result(int64_t channels) const {
    Tensor y = *Tensor::Allocate(DType::kFloat, {geometry.batch, geometry.out_pixels(), channels});
    std::fill_n(y.mutable_data<float>(), y.elements(), std::numeric_limits<float>::quiet_NaN());
    return y;
  }
  ConvGeometry Pointwise() const {
    ConvGeometry pointwise = geometry;
    pointwise.group = 1;
    pointwise.out_channels = columns;
    for (WindowAxis& axis : pointwise.axes) axis = {.in = axis.out, .out = axis.out};
    return pointwise;
  }
  Tensor PackedFirst(Arithmetic by) const {
    Tensor packed = *Tensor::Allocate(DType::kFloat, {PackedShortGroupFloats(by.isa, geometry)});
    PackShortGroups(by.isa, geometry, NativeWeights(geometry, first_weights.data<float>()),
                    packed.mutable_data<float>());
    return packed;
  }
  Tensor PackedSecond(Arithmetic by) const {
    const ConvGeometry pointwise = Pointwise();
    Tensor packed = *Tensor::Allocate(DType::kFloat, {PackedConvFloats(by, pointwise)});
    PackConvWeights(by, pointwise, NativeWeights(pointwise, weights.data<float>()),
                    packed.mutable_data<float>());
    return packed;
  }

  Tensor OneByOne(Arithmetic by) const {
    const Tensor zeros = test::RandomFloats({geometry.in_channels}, 7, 0, 0);
    Tensor between = Result(geometry.out_channels);
    ConvShortGroups(by.isa, geometry, PackedFirst(by).data<float>(),
                    {x.data<float>(), between.mutable_data<float>(), nullptr, &first_epilogue,
                     first_operands.data()},
                    SequentialParallel());
    Tensor y = Result(columns);
    Conv(by, Pointwise(), PackedSecond(by).data<float>(),
         {between.data<float>(), y.mutable_data<float>(), zeros.data<float>(), &epilogue,
          operands.data()},
         SequentialParallel());
    return y;
  }
  Tensor AsOne(Arithmetic by, const Parallel& parallel) const {
    const Tensor first = PackedFirst(by);
    const Tensor second = PackedSecond(by);
    Tensor y = Result(columns);
    DepthwisePointwise pair;
    pair.depthwise = geometry;
    pair.depthwise_packed = first.data<float>();
    pair.data = {x.data<float>(), nullptr, nullptr, &first_epilogue, first_operands.data()};
    pair.product.n = columns;
    pair.product.c = y.mutable_data<float>();
    pair.product.c_row_stride = columns;
    pair.product.epilogue = &epilogue;
    pair.product.operands = operands.data();
    pair.product_packed = second.data<float>();
    const int64_t floats = DepthwisePointwiseScratchFloats(by, pair, parallel.threads());
    Tensor scratch = *Tensor::Allocate(DType::kFloat, {floats + 1});
    scratch.mutable_data<float>()[floats] = 12;
    ConvDepthwisePointwise(by, pair, scratch.mutable_data<float>(), parallel);
    EXPECT_EQ(scratch.data<float>()[floats], 12);
    return y;
  }
};

void ExpectSameBits(const Case& c) {
  for (const Arithmetic& by : test::Arithmetics()) {
    if (!HasShortGroups(by.isa, c.geometry)) continue;
    const Tensor expected = c.OneByOne(by);
    for (const int threads : {1, 2, 4}) {
      SCOPED_TRACE(fmt::format("{} {} channels, {} columns, {} pixels, {} threads",
                               test::NameOf(by), c.geometry.in_channels, c.columns,
                               c.geometry.out_pixels(), threads));
      EXPECT_TRUE(test::Close(c.AsOne(by, test::FineParallel(threads)), expected, test::Exact()));
    }
  }
}

WindowAxes Square(int64_t in, const WindowAxis& axis) { return {Axis(in, axis), Axis(in, axis)}; }

TEST(DepthwisePointwise, AnyNumberOfChannelsAndColumns) {
  const WindowAxes axes = Square(13, {.kernel = 3, .pad_begin = 1, .pad_end = 1});
  for (const int64_t channels : {2, 3, 8, 16, 17, 33}) {
    for (const int64_t columns : {1, 16, 31, 33, 70}) ExpectSameBits({1, channels, axes, columns});
  }
}

TEST(DepthwisePointwise, ManyChannelsAreSummedInSteps) {
  const WindowAxes axes = Square(7, {.kernel = 3, .pad_begin = 1, .pad_end = 1});
  for (const int64_t channels : {511, 513, 1500}) ExpectSameBits({1, channels, axes, 40});
  ExpectSameBits({1, 40, axes, 530});
}

TEST(DepthwisePointwise, StripsCutRowsAndItemsAnywhere) {
  for (const int64_t size : {1, 2, 11, 14, 15, 29}) {
    for (const int64_t batch : {1, 2, 3}) {
      ExpectSameBits({batch, 20, Square(size, {.kernel = 3, .pad_begin = 1, .pad_end = 1}), 9});
    }
  }
  // Rows that are longer than a strip, and strips of many rows.
  ExpectSameBits({1, 6, {Axis(3, {}), Axis(700, {.kernel = 5, .pad_begin = 2, .pad_end = 2})}, 5});
  ExpectSameBits({1, 6, {Axis(700, {.kernel = 5, .pad_begin = 2, .pad_end = 2}), Axis(3, {})}, 5});
}

TEST(DepthwisePointwise, AnyWindow) {
  for (const WindowAxis& axis :
       {WindowAxis{.kernel = 5, .pad_begin = 2, .pad_end = 2},
        WindowAxis{.kernel = 3, .stride = 2, .pad_begin = 1, .pad_end = 1},
        WindowAxis{.kernel = 3, .stride = 2, .pad_begin = 0, .pad_end = 1},
        WindowAxis{.kernel = 3, .dilation = 2, .pad_begin = 2, .pad_end = 2},
        WindowAxis{.kernel = 2, .stride = 3}, WindowAxis{}}) {
    ExpectSameBits({2, 19, Square(16, axis), 21});
  }
  ExpectSameBits({2, 19, {Axis(150, {.kernel = 3, .pad_begin = 1, .pad_end = 1})}, 21});
  const WindowAxis cube = Axis(6, {.kernel = 3, .pad_begin = 1, .pad_end = 1});
  ExpectSameBits({1, 19, {cube, cube, cube}, 21});
}

TEST(DepthwisePointwise, NoItemsAndNoColumnsWriteNothing) {
  const WindowAxes axes = Square(5, {.kernel = 3, .pad_begin = 1, .pad_end = 1});
  ExpectSameBits({0, 20, axes, 9});
  ExpectSameBits({1, 20, axes, 0});
}

// A query that is accepted.
PointwiseQuery Accepted() {
  PointwiseQuery query;
  query.is_float32 = true;
  query.is_depthwise = true;
  query.is_pointwise = true;
  query.has_stages = true;
  query.fits_columns = true;
  query.channels = 64;
  query.pixels = kLeastPointwisePixels;
  query.columns = kMostPointwiseWeights / 64;
  return query;
}

TEST(PointwiseFusion, EachConditionStopsIt) {
  EXPECT_TRUE(TryFusePointwise(Accepted()).accepted);
  for (bool PointwiseQuery::*const flag :
       {&PointwiseQuery::is_float32, &PointwiseQuery::is_depthwise, &PointwiseQuery::is_pointwise,
        &PointwiseQuery::has_stages, &PointwiseQuery::fits_columns}) {
    PointwiseQuery query = Accepted();
    query.*flag = false;
    EXPECT_FALSE(TryFusePointwise(query).accepted);
  }
  for (int64_t PointwiseQuery::*const extent :
       {&PointwiseQuery::channels, &PointwiseQuery::pixels, &PointwiseQuery::columns}) {
    PointwiseQuery query = Accepted();
    query.*extent = -1;
    EXPECT_EQ(TryFusePointwise(query).rule, "depthwise: extents are not known at load");
  }
}

TEST(PointwiseFusion, LimitsAreExact) {
  PointwiseQuery query = Accepted();
  --query.pixels;
  EXPECT_EQ(TryFusePointwise(query).numbers, "pixels=127 limit=128");
  query = Accepted();
  ++query.columns;
  EXPECT_EQ(TryFusePointwise(query).numbers, "weights=131136 limit=131072");
  query = Accepted();
  query.columns = 1;
  query.channels = kMostPointwiseChannels;
  EXPECT_TRUE(TryFusePointwise(query).accepted);
  ++query.channels;
  EXPECT_EQ(TryFusePointwise(query).numbers, "channels=4097 limit=4096");
}

}  // namespace
}  // namespace tandem::kernels
