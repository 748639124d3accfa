// Pointwise, depthwise and pointwise convolutions as one: the bits of one after the other.
#include "engine/kernels/depthwise/strips.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
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

// A pointwise convolution with bias and Relu, before or behind the depthwise one.
struct Pointwise {
  ConvGeometry geometry;
  Tensor weights, bias;
  Epilogue epilogue = {{EpilogueOp::kAdd, OperandKind::kColumn},
                       {EpilogueOp::kRelu, OperandKind::kNone}};
  std::vector<EpilogueOperand> operands;

  // Of images of the depthwise convolution, before it or behind.
  Pointwise(ConvGeometry depthwise, bool before, int64_t in, int64_t out, uint32_t seed)
      : geometry(std::move(depthwise)),
        weights(test::RandomFloats({out, in, 1}, seed)),
        bias(test::RandomFloats({out}, seed + 1)) {
    geometry.group = 1;
    geometry.in_channels = in;
    geometry.out_channels = out;
    for (WindowAxis& axis : geometry.axes) {
      const int64_t extent = before ? axis.in : axis.out;
      axis = {.in = extent, .out = extent};
    }
    operands = {{bias.data<float>(), 0}, {}};
  }

  Tensor Packed(Arithmetic by) const {
    Tensor packed = *Tensor::Allocate(DType::kFloat, {PackedConvFloats(by, geometry)});
    PackConvWeights(by, geometry, NativeWeights(geometry, weights.data<float>()),
                    packed.mutable_data<float>());
    return packed;
  }
};

// Starts as NaN, so that an element that nobody writes is seen.
Tensor Result(const ConvGeometry& geometry) {
  Tensor y = *Tensor::Allocate(DType::kFloat,
                               {geometry.batch, geometry.out_pixels(), geometry.out_channels});
  std::fill_n(y.mutable_data<float>(), y.elements(), std::numeric_limits<float>::quiet_NaN());
  return y;
}

// Channels around the depthwise convolution; no `inputs`: no expansion, no `columns`: no
// projection.
struct Around {
  std::optional<int64_t> inputs;
  std::optional<int64_t> columns;
};

// Bias and Relu behind each convolution, a residual behind the last.
struct Case {
  ConvGeometry geometry;  // of the depthwise convolution
  std::optional<Pointwise> expansion, projection;
  Tensor x, weights, bias, residual;
  Epilogue epilogue = {{EpilogueOp::kAdd, OperandKind::kColumn},
                       {EpilogueOp::kRelu, OperandKind::kNone}};
  std::vector<EpilogueOperand> operands;

  Case(int64_t batch, int64_t channels, WindowAxes axes, Around around) {
    geometry.batch = batch;
    geometry.in_channels = channels;
    geometry.out_channels = channels;
    geometry.group = channels;
    geometry.axes = PadAxes(std::move(axes));
    x = test::RandomFloats({batch, geometry.in_pixels(), around.inputs.value_or(channels)}, 1);
    weights = test::RandomFloats({channels, 1, geometry.taps()}, 2);
    bias = test::RandomFloats({channels}, 3);
    operands = {{bias.data<float>(), 0}, {}};
    if (around.inputs) expansion.emplace(geometry, true, *around.inputs, channels, 4);
    if (around.columns) projection.emplace(geometry, false, channels, *around.columns, 6);
    const int64_t last = around.columns.value_or(channels);
    residual = test::RandomFloats({batch, geometry.out_pixels(), last}, 8);
    Epilogue& stages = projection ? projection->epilogue : epilogue;
    stages.push_back({EpilogueOp::kAdd, OperandKind::kFull});
    (projection ? projection->operands : operands).push_back({residual.data<float>(), last});
  }

  Tensor Packed(Arithmetic by) const {
    Tensor packed = *Tensor::Allocate(DType::kFloat, {PackedShortGroupFloats(by.isa, geometry)});
    PackShortGroups(by.isa, geometry, NativeWeights(geometry, weights.data<float>()),
                    packed.mutable_data<float>());
    return packed;
  }

  static Tensor Alone(Arithmetic by, const Pointwise& pointwise, const Tensor& x) {
    const Tensor zeros = test::RandomFloats({pointwise.geometry.in_channels}, 7, 0, 0);
    Tensor y = Result(pointwise.geometry);
    Conv(by, pointwise.geometry, pointwise.Packed(by).data<float>(),
         {x.data<float>(), y.mutable_data<float>(), zeros.data<float>(), &pointwise.epilogue,
          pointwise.operands.data()},
         SequentialParallel());
    return y;
  }
  Tensor OneByOne(Arithmetic by) const {
    const Tensor expanded = expansion ? Alone(by, *expansion, x) : x;
    Tensor filtered = Result(geometry);
    ConvShortGroups(by.isa, geometry, Packed(by).data<float>(),
                    {expanded.data<float>(), filtered.mutable_data<float>(), nullptr, &epilogue,
                     operands.data()},
                    SequentialParallel());
    return projection ? Alone(by, *projection, filtered) : filtered;
  }

  Tensor AsOne(Arithmetic by, const Parallel& parallel) const {
    const Tensor packed = Packed(by);
    Tensor before;
    Tensor behind;
    Tensor y = Result(projection ? projection->geometry : geometry);
    DepthwiseStrips strips;
    strips.depthwise = geometry;
    strips.packed = packed.data<float>();
    strips.data = {x.data<float>(), y.mutable_data<float>(), nullptr, &epilogue, operands.data()};
    if (expansion) {
      before = expansion->Packed(by);
      PointwiseProduct& product = strips.expansion.emplace();
      product.packed = before.data<float>();
      product.problem.k = expansion->geometry.in_channels;
      product.problem.a = x.data<float>();
      product.problem.epilogue = &expansion->epilogue;
      product.problem.operands = expansion->operands.data();
      strips.data.x = nullptr;
    }
    if (projection) {
      behind = projection->Packed(by);
      PointwiseProduct& product = strips.projection.emplace();
      product.packed = behind.data<float>();
      product.problem.n = projection->geometry.out_channels;
      product.problem.c = y.mutable_data<float>();
      product.problem.epilogue = &projection->epilogue;
      product.problem.operands = projection->operands.data();
      strips.data.y = nullptr;
    }
    const int64_t floats = DepthwiseStripsScratchFloats(by, strips, parallel.threads());
    Tensor scratch = *Tensor::Allocate(DType::kFloat, {floats + 1});
    scratch.mutable_data<float>()[floats] = 12;
    ConvDepthwiseStrips(by, strips, scratch.mutable_data<float>(), parallel);
    EXPECT_EQ(scratch.data<float>()[floats], 12);
    return y;
  }
};

void ExpectSameBits(const Case& c) {
  for (const Arithmetic& by : test::Arithmetics()) {
    if (!HasShortGroups(by.isa, c.geometry)) continue;
    const Tensor expected = c.OneByOne(by);
    for (const int threads : {1, 2, 4}) {
      SCOPED_TRACE(fmt::format(
          "{} {} channels, {} columns, {} inputs, {} pixels, {} threads", test::NameOf(by),
          c.geometry.in_channels, c.projection ? c.projection->geometry.out_channels : -1,
          c.expansion ? c.expansion->geometry.in_channels : -1, c.geometry.out_pixels(), threads));
      EXPECT_TRUE(test::Close(c.AsOne(by, test::FineParallel(threads)), expected, test::Exact()));
    }
  }
}

// With a projection, with an expansion where images have two axes, and with both.
void ExpectSameBits(int64_t batch, int64_t channels, const WindowAxes& axes, int64_t inputs,
                    int64_t columns) {
  ExpectSameBits({batch, channels, axes, {.columns = columns}});
  if (axes.size() != 2) return;
  ExpectSameBits({batch, channels, axes, {.inputs = inputs}});
  ExpectSameBits({batch, channels, axes, {.inputs = inputs, .columns = columns}});
}

WindowAxes Square(int64_t in, const WindowAxis& axis) { return {Axis(in, axis), Axis(in, axis)}; }

TEST(DepthwiseStrips, AnyNumberOfChannelsAndColumns) {
  const WindowAxes axes = Square(13, {.kernel = 3, .pad_begin = 1, .pad_end = 1});
  for (const int64_t channels : {2, 3, 8, 16, 17, 33}) {
    for (const int64_t columns : {1, 16, 31, 33, 70}) {
      ExpectSameBits(1, channels, axes, 71 - columns, columns);
    }
  }
}

TEST(DepthwiseStrips, EverySize) {
  const WindowAxis plain = {.kernel = 3, .pad_begin = 1, .pad_end = 1};
  const WindowAxes axes = Square(6, plain);
  for (int64_t size = 1; size <= 70; ++size) {
    if (size > 1) ExpectSameBits(1, size, axes, 3, 5);
    ExpectSameBits(1, 6, axes, size, 5);
    ExpectSameBits(1, 6, axes, 3, size);
    ExpectSameBits(1, 6, {Axis(4, plain), Axis(size, plain)}, 3, 5);
    ExpectSameBits(1, 6, {Axis(size, plain), Axis(4, plain)}, 3, 5);
  }
}

TEST(DepthwiseStrips, ManyChannelsAreSummedInSteps) {
  const WindowAxes axes = Square(7, {.kernel = 3, .pad_begin = 1, .pad_end = 1});
  for (const int64_t channels : {511, 513, 1500}) ExpectSameBits(1, channels, axes, 20, 40);
  ExpectSameBits(1, 40, axes, 530, 530);
}

TEST(DepthwiseStrips, StripsCutRowsAndItemsAnywhere) {
  for (const int64_t size : {1, 2, 11, 14, 15, 29}) {
    for (const int64_t batch : {1, 2, 3}) {
      ExpectSameBits(batch, 20, Square(size, {.kernel = 3, .pad_begin = 1, .pad_end = 1}), 5, 9);
    }
  }
  // Rows that are longer than a strip, and strips of many rows.
  const WindowAxis wide = Axis(700, {.kernel = 5, .pad_begin = 2, .pad_end = 2});
  ExpectSameBits(1, 6, {Axis(3, {}), wide}, 7, 5);
  ExpectSameBits(1, 6, {wide, Axis(3, {})}, 7, 5);
}

TEST(DepthwiseStrips, AnyWindow) {
  for (const WindowAxis& axis :
       {WindowAxis{.kernel = 5, .pad_begin = 2, .pad_end = 2},
        WindowAxis{.kernel = 3, .stride = 2, .pad_begin = 1, .pad_end = 1},
        WindowAxis{.kernel = 3, .stride = 2, .pad_begin = 0, .pad_end = 1},
        WindowAxis{.kernel = 3, .dilation = 2, .pad_begin = 2, .pad_end = 2},
        WindowAxis{.kernel = 3, .dilation = 4, .pad_begin = 9, .pad_end = 9},
        WindowAxis{.kernel = 1, .pad_begin = 3, .pad_end = 4}, WindowAxis{.kernel = 16},
        WindowAxis{.kernel = 2, .stride = 3}, WindowAxis{}}) {
    ExpectSameBits(2, 19, Square(16, axis), 18, 21);
  }
  ExpectSameBits(2, 19, {Axis(150, {.kernel = 3, .pad_begin = 1, .pad_end = 1})}, 18, 21);
  const WindowAxis cube = Axis(6, {.kernel = 3, .pad_begin = 1, .pad_end = 1});
  ExpectSameBits(1, 19, {cube, cube, cube}, 18, 21);
}

TEST(DepthwiseStrips, NoPixels) {
  const WindowAxis none = Axis(0, {.kernel = 3, .pad_begin = 1, .pad_end = 1});
  const WindowAxis some = Axis(5, {.kernel = 3, .pad_begin = 1, .pad_end = 1});
  ASSERT_EQ(none.out, 0);
  for (const WindowAxes& axes : {WindowAxes{none, none}, {none, some}, {some, none}}) {
    ExpectSameBits(1, 20, axes, 9, 9);
  }
}

TEST(DepthwiseStrips, NoItemsNoColumnsAndNoInputs) {
  const WindowAxes axes = Square(5, {.kernel = 3, .pad_begin = 1, .pad_end = 1});
  ExpectSameBits(0, 20, axes, 9, 9);
  ExpectSameBits(1, 20, axes, 9, 0);
  ExpectSameBits(1, 20, axes, 0, 9);
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

// A query that is accepted, with as little between the convolutions as there may be.
ExpansionQuery AcceptedExpansion() {
  ExpansionQuery query;
  query.is_float32 = true;
  query.is_pointwise = true;
  query.is_depthwise = true;
  query.is_planar = true;
  query.has_stages = true;
  query.fits_columns = true;
  query.channels = 64;
  query.pixels = kLeastExpandedFloats / 64;
  query.window_pixels = kMostWindowFloats / 64;
  query.inputs = kMostExpansionWeights / 64;
  return query;
}

TEST(ExpansionFusion, EachConditionStopsIt) {
  EXPECT_TRUE(TryFuseExpansion(AcceptedExpansion()).accepted);
  for (bool ExpansionQuery::*const flag :
       {&ExpansionQuery::is_float32, &ExpansionQuery::is_pointwise, &ExpansionQuery::is_depthwise,
        &ExpansionQuery::is_planar, &ExpansionQuery::has_stages, &ExpansionQuery::fits_columns}) {
    ExpansionQuery query = AcceptedExpansion();
    query.*flag = false;
    EXPECT_FALSE(TryFuseExpansion(query).accepted);
  }
  for (int64_t ExpansionQuery::*const extent :
       {&ExpansionQuery::inputs, &ExpansionQuery::channels, &ExpansionQuery::pixels,
        &ExpansionQuery::window_pixels}) {
    ExpansionQuery query = AcceptedExpansion();
    query.*extent = -1;
    EXPECT_EQ(TryFuseExpansion(query).rule, "depthwise: extents are not known at load");
  }
}

TEST(ExpansionFusion, LimitsAreExact) {
  ExpansionQuery query = AcceptedExpansion();
  --query.pixels;
  EXPECT_EQ(TryFuseExpansion(query).numbers, "elements=131008 limit=131072");
  query = AcceptedExpansion();
  ++query.window_pixels;
  EXPECT_EQ(TryFuseExpansion(query).numbers, "elements=131136 limit=131072");
  query = AcceptedExpansion();
  ++query.inputs;
  EXPECT_EQ(TryFuseExpansion(query).numbers, "weights=65600 limit=65536");
}

}  // namespace
}  // namespace tandem::kernels
