#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/graph.h"
#include "engine/ops/operator.h"
#include "engine/ops/registry.h"
#include "tests/support/bound_step.h"
#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using testing::HasSubstr;
using Ints = std::vector<int64_t>;

// A transposed convolution by scattering, its pads and extents given.
struct Naive {
  Shape x, w;  // [N, C, ...] and [C, M / group, ...]
  Ints strides, dilations, pads;
  Ints extra = {};  // output_padding
  int64_t group = 1;

  size_t axes() const { return static_cast<size_t>(x.rank() - 2); }
  Shape Out() const {
    Shape out = {x[0], w[1] * group};
    for (size_t i = 0; i < axes(); ++i) {
      const int at = static_cast<int>(i) + 2;
      out.Append(strides[i] * (x[at] - 1) + (extra.empty() ? 0 : extra[i]) +
                 (w[at] - 1) * dilations[i] + 1 - pads[i] - pads[i + axes()]);
    }
    return out;
  }
  // Position along each spatial axis of the flat index `rest`.
  static Ints Positions(const Shape& shape, int64_t rest) {
    Ints at(static_cast<size_t>(shape.rank() - 2));
    for (size_t i = at.size(); i-- > 0;) {
      at[i] = rest % shape[static_cast<int>(i) + 2];
      rest /= shape[static_cast<int>(i) + 2];
    }
    return at;
  }
  // The pixel of `out` that tap `t` adds pixel `from` of x to; -1 for none.
  int64_t Target(const Shape& out, const Ints& from, const Ints& t) const {
    int64_t pixel = 0;
    for (size_t i = 0; i < axes(); ++i) {
      const int64_t extent = out[static_cast<int>(i) + 2];
      const int64_t at = from[i] * strides[i] - pads[i] + t[i] * dilations[i];
      if (at < 0 || at >= extent) return -1;
      pixel = pixel * extent + at;
    }
    return pixel;
  }
  Tensor Run(const Tensor& xs, const Tensor& ws, const Tensor& bias) const {
    return Run(xs, ws, bias, Out());
  }
  Tensor Run(const Tensor& xs, const Tensor& ws, const Tensor& bias, const Shape& out) const {
    const int64_t pixels = out.Product(2, out.rank());
    std::vector<double> sums(static_cast<size_t>(out.elements()));
    for (int64_t i = 0; bias.valid() && i < out.elements(); ++i) {
      sums[static_cast<size_t>(i)] = bias.data<float>()[i / pixels % out[1]];
    }
    const int64_t taps = w.Product(2, w.rank());
    const int64_t in_pixels = x.Product(2, x.rank());
    for (int64_t i = 0; i < xs.elements(); ++i) {
      const int64_t c = i / in_pixels % x[1];
      const int64_t n = i / in_pixels / x[1];
      const int64_t first = c / (x[1] / group) * w[1];
      const Ints from = Positions(x, i % in_pixels);
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t to = Target(out, from, Positions(w, tap));
        for (int64_t m = 0; to >= 0 && m < w[1]; ++m) {
          sums[static_cast<size_t>((n * out[1] + first + m) * pixels + to)] +=
              static_cast<double>(xs.data<float>()[i]) *
              ws.data<float>()[(c * w[1] + m) * taps + tap];
        }
      }
    }
    Tensor y = *Tensor::Allocate(DType::kFloat, out);
    std::copy(sums.begin(), sums.end(), y.mutable_data<float>());
    return y;
  }
  graph::Attributes Attributes() const {
    graph::Attributes attributes = {
        {"strides", strides}, {"dilations", dilations}, {"pads", pads}, {"group", group}};
    if (!extra.empty()) attributes["output_padding"] = extra;
    return attributes;
  }
  std::string Text() const {
    return ToString(x) + " * " + ToString(w) + " group " + std::to_string(group) + " strides " +
           testing::PrintToString(strides) + " dilations " + testing::PrintToString(dilations) +
           " pads " + testing::PrintToString(pads) + " output_padding " +
           testing::PrintToString(extra);
  }
};

void ExpectAsNaive(const Naive& naive) {
  const Tensor x = test::RandomFloats(naive.x, 1);
  const Tensor w = test::RandomFloats(naive.w, 2);
  const Tensor bias = test::RandomFloats({naive.w[1] * naive.group}, 3);
  const Tensor expected = naive.Run(x, w, bias);
  const int64_t depth = naive.w[0] / naive.group * naive.w.Product(2, naive.w.rank());
  for (const Isa isa : test::IsaLevels()) {
    const auto y = test::RunOp(
        {.op_type = "ConvTranspose", .attributes = naive.Attributes(), .isa = isa}, {x, w, bias});
    ASSERT_TRUE(y.ok()) << naive.Text() << ": " << y.status();
    ASSERT_TRUE(test::Close((*y)[0], expected, test::Reduction(depth)))
        << IsaName(isa) << " " << naive.Text();
  }
}

TEST(ConvTranspose, SweepOverKernelStrideDilationAndPads) {
  for (const int64_t kernel : {1, 2, 3, 5}) {
    for (const int64_t stride : {1, 2, 3, 4}) {
      for (const int64_t dilation : {1, 2, 3}) {
        for (const int64_t pad : {0, 1}) {
          ExpectAsNaive({{2, 9, 4, 5},
                         {9, 17, kernel, kernel},
                         {stride, 1},
                         {dilation, 2},
                         {pad, 0, 0, pad * (kernel > 1 ? 2 : 1)},
                         {stride - 1, dilation > 1 ? 1 : 0}});
        }
      }
    }
  }
}

TEST(ConvTranspose, SweepOverChannelsAndGroups) {
  for (const int64_t group : {1, 2, 3, 8, 17}) {
    for (const int64_t in : {1, 2, 3, 7, 8, 16}) {
      for (const int64_t out : {1, 2, 5, 33}) {
        ExpectAsNaive({{1, in * group, 3, 4},
                       {in * group, out, 3, 2},
                       {2, 2},
                       {1, 1},
                       {1, 0, 1, 0},
                       {},
                       group});
      }
    }
  }
}

TEST(ConvTranspose, EverySize) {
  for (int64_t size = 1; size <= 70; ++size) {
    ExpectAsNaive({{1, size, 3, 2}, {size, 5, 3, 2}, {2, 2}, {1, 1}, {1, 0, 1, 0}});
    ExpectAsNaive({{1, 4, 3, 2}, {4, size, 3, 2}, {2, 2}, {1, 1}, {1, 0, 1, 0}});
    ExpectAsNaive({{1, 4, 2, size}, {4, 5, 3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}});
    ExpectAsNaive({{1, 4, size, 2}, {4, 5, 3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}});
    ExpectAsNaive({{1, size, 3, 2}, {size, 1, 3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, {}, size});
    ExpectAsNaive({{1, 6, 2, size}, {6, 1, 3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, {}, 6});
  }
}

// Where the window is the stride, every element of x makes a tile of its own.
TEST(ConvTranspose, AWindowOfTheStrideTilesTheResult) {
  for (const int64_t r : {1, 2, 3, 4}) {
    for (const int64_t in : {1, 3, 17}) {
      for (const int64_t out : {1, 5, 33}) {
        ExpectAsNaive({{2, in, 3, 4}, {in, out, r, r}, {r, r}, {1, 1}, {0, 0, 0, 0}});
      }
    }
  }
  ExpectAsNaive({{3, 5, 7}, {5, 6, 4}, {4}, {1}, {0, 0}});
  ExpectAsNaive({{2, 3, 2, 3, 4}, {3, 5, 2, 2, 2}, {2, 2, 2}, {1, 1, 1}, {0, 0, 0, 0, 0, 0}});
}

TEST(ConvTranspose, OneAndThreeSpatialAxes) {
  ExpectAsNaive({{1, 1, 4}, {1, 1, 3}, {2}, {1}, {0, 0}, {1}});
  ExpectAsNaive({{3, 5, 9}, {5, 6, 4}, {3}, {2}, {2, 1}, {2}});
  ExpectAsNaive({{2, 3, 2, 3, 4}, {3, 4, 3, 2, 3}, {1, 2, 3}, {1, 1, 2}, {1, 0, 1, 0, 1, 2}});
  ExpectAsNaive({{1, 12, 2, 2, 3},
                 {12, 1, 3, 3, 3},
                 {2, 2, 2},
                 {1, 1, 1},
                 {1, 1, 1, 1, 1, 1},
                 {1, 1, 1},
                 12});
  // Strides beyond the kernel leave gaps, which hold the bias.
  ExpectAsNaive({{1, 2, 3, 3}, {2, 3, 2, 1}, {5, 3}, {1, 1}, {0, 0, 0, 0}, {3, 2}});
  // Long dilated filters with stride: as many taps of a remainder as there are.
  const Naive dilated{{1, 1, 50, 50}, {1, 1, 3, 5}, {2, 1}, {3, 1}, {4, 2, 4, 2}};
  EXPECT_EQ(dilated.Out(), Shape({1, 1, 97, 50}));
  ExpectAsNaive(dilated);
}

TEST(ConvTranspose, EveryGroupAddsItsOwnBias) {
  const Tensor x = test::RandomFloats({1, 4, 3, 3}, 1);
  Tensor w = test::RandomFloats({4, 2, 3, 3}, 2, 0, 0);
  const Tensor bias = Tensor::Of<float>({4}, {1, 2, 3, 4});
  for (const Isa isa : test::IsaLevels()) {
    const Tensor y =
        test::Apply({.op_type = "ConvTranspose", .attributes = {{"group", int64_t{2}}}, .isa = isa},
                    {x, w, bias});
    for (int64_t i = 0; i < y.elements(); ++i) {
      const int64_t channel = i / 25;
      ASSERT_EQ(y.data<float>()[i], static_cast<float>(channel + 1)) << IsaName(isa);
    }
  }
}

// Pads that follow from the output's extent, against explicit ones.
void ExpectSamePads(const graph::Attributes& attributes, const Naive& naive, int opset = 17) {
  const Tensor x = test::RandomFloats(naive.x, 1);
  const Tensor w = test::RandomFloats(naive.w, 2);
  for (const Isa isa : test::IsaLevels()) {
    const Tensor y = test::Apply(
        {.op_type = "ConvTranspose", .opset = opset, .attributes = attributes, .isa = isa}, {x, w});
    EXPECT_TRUE(test::Close(y, naive.Run(x, w, {}), test::Reduction(36))) << naive.Text();
  }
}

TEST(ConvTranspose, SameAutoPadGivesInTimesStrideAndPutsTheOddPadWhereItsNameSays) {
  const Ints strides = {1, 3};
  const std::string upper = "SAME_UPPER";
  const std::string lower = "SAME_LOWER";
  ExpectSamePads({{"auto_pad", upper}, {"strides", strides}},
                 {{1, 2, 3, 4}, {2, 1, 2, 6}, strides, {1, 1}, {0, 1, 1, 2}});
  ExpectSamePads({{"auto_pad", lower}, {"strides", strides}},
                 {{1, 2, 3, 4}, {2, 1, 2, 6}, strides, {1, 1}, {1, 2, 0, 1}});
  // output_padding enters the pads and not the extent.
  const Ints two = {2, 2};
  ExpectSamePads({{"auto_pad", upper}, {"strides", two}, {"output_padding", Ints{1, 1}}},
                 {{1, 2, 3, 3}, {2, 1, 3, 3}, two, {1, 1}, {1, 1, 1, 1}, {1, 1}});
  ExpectSamePads({{"auto_pad", std::string("VALID")}, {"strides", two}},
                 {{1, 2, 3, 3}, {2, 1, 3, 3}, two, {1, 1}, {0, 0, 0, 0}});
}

TEST(ConvTranspose, AnOutputShapeSharesOutThePadsThatAreLeft) {
  const Ints strides = {3, 2};
  const graph::Attributes attributes = {{"strides", strides}, {"output_shape", Ints{8, 8}}};
  // 9 x 7 without pads: one element too many and, on the other axis, one too
  // few.
  Naive naive{{1, 1, 3, 3}, {1, 2, 3, 3}, strides, {1, 1}, {1, 0, 0, 0}, {0, 1}};
  ExpectSamePads(attributes, naive);
  naive.pads = {0, 0, 1, 0};
  ExpectSamePads(attributes, naive, 10);
  graph::Attributes upper = attributes;
  upper["auto_pad"] = std::string("SAME_UPPER");
  ExpectSamePads(upper, naive);
}

TEST(ConvTranspose, WithoutAttributesTheDefaultsHoldAtEveryOpset) {
  const Naive naive{{1, 3, 3, 4}, {3, 2, 3, 3}, {1, 1}, {1, 1}, {0, 0, 0, 0}};
  for (const int opset : {7, 11, 22}) {
    ExpectSamePads({}, naive, opset);
    ExpectSamePads({{"kernel_shape", Ints{3, 3}}}, naive, opset);
  }
}

TEST(ConvTranspose, ItemsOfABatchHaveTheBitsOfSingleRunsAtAnyNumberOfThreads) {
  for (const Isa isa : test::IsaLevels()) {
    for (const int64_t group : {1, 24}) {
      const Tensor x = test::RandomFloats({3, 24, 9, 9}, 1);
      const Tensor w = test::RandomFloats({24, group == 1 ? 40 : 1, 3, 3}, 2);
      test::OpCall call{.op_type = "ConvTranspose",
                        .attributes = {{"strides", Ints{2, 2}}, {"group", group}},
                        .isa = isa};
      const Tensor whole = test::Apply(call, {x, w});
      for (int64_t item = 0; item < 3; ++item) {
        const Tensor one = test::Apply(call, {x.Rows(item, item + 1), w});
        ASSERT_TRUE(test::Close(one, whole.Rows(item, item + 1), test::Exact())) << IsaName(isa);
      }
      for (const int threads : {2, 4}) {
        call.threads = threads;
        EXPECT_TRUE(test::Close(test::Apply(call, {x, w}), whole, test::Exact()));
      }
    }
  }
}

TEST(ConvTranspose, AnEmptyBatchGivesAnEmptyResult) {
  for (const Isa isa : test::IsaLevels()) {
    const Tensor y =
        test::Apply({.op_type = "ConvTranspose", .isa = isa},
                    {test::RandomFloats({0, 3, 5, 5}, 1), test::RandomFloats({3, 4, 3, 3}, 2)});
    EXPECT_EQ(y.shape(), Shape({0, 4, 7, 7}));
  }
}

TEST(ConvTranspose, DoubleRunsInDouble) {
  const Tensor x = Tensor::Of<double>({1, 1, 2}, {1e-9, 1});
  const Tensor w = Tensor::Of<double>({1, 2, 2}, {1, 1, 2, -1});
  const Tensor y =
      test::Apply({.op_type = "ConvTranspose"}, {x, w, Tensor::Of<double>({2}, {1, 0})});
  EXPECT_TRUE(
      test::Close(y, Tensor::Of<double>({1, 2, 3}, {1 + 1e-9, 2 + 1e-9, 2, 2e-9, 2 - 1e-9, -1}),
                  test::OfScale(1e-15)));
}

TEST(ConvTranspose, ChannelsLastPackedWeightsAndFusedStagesHaveTheBitsOfThePlainRun) {
  const std::vector<Tensor> inputs = {
      test::RandomFloats({2, 9, 6, 5}, 1), test::RandomFloats({9, 20, 3, 3}, 2),
      test::RandomFloats({20}, 3), test::RandomFloats({20, 1, 1}, 4)};
  for (const Isa isa : test::IsaLevels()) {
    test::BoundCall call{.op_type = "ConvTranspose",
                         .attributes = {{"strides", Ints{2, 3}}},
                         .out = {2, 20, 13, 15},
                         .constant_port = 1,
                         .isa = isa,
                         .own_inputs = 3,
                         .epilogue = {{"Mul", {}, 3}, {"Relu", {}, -1}}};
    const Tensor native = test::BindAndRun(call, inputs);
    const Tensor plain =
        test::Apply({.op_type = "ConvTranspose", .attributes = call.attributes, .isa = isa},
                    {inputs[0], inputs[1], inputs[2]});
    Tensor expected = *Tensor::Allocate(DType::kFloat, plain.shape());
    for (int64_t i = 0; i < plain.elements(); ++i) {
      const float scaled = plain.data<float>()[i] * inputs[3].data<float>()[i / 195 % 20];
      expected.mutable_data<float>()[i] = std::max(0.0f, scaled);
    }
    EXPECT_TRUE(test::Close(native, expected, test::Exact())) << IsaName(isa);
    for (const int ports : {1, 2, 3}) {
      call.channels_last = ports;
      EXPECT_TRUE(test::Close(test::BindAndRun(call, inputs), native, test::Exact()))
          << IsaName(isa) << " " << ports;
    }
  }
}

ops::Decision Ask(const graph::DimVector& operand) {
  graph::Node node;
  node.op_type = "ConvTranspose";
  node.opset = 17;
  node.inputs = {0, 1};
  node.outputs = {2};
  const auto op = *ops::ParseNode(node);
  const graph::DimVector result = {graph::Dim::Symbol("N"), 8, 6, 8};
  ops::EpilogueRequest request;
  request.op = "Mul";
  request.dtype = DType::kFloat;
  request.result = &result;
  request.operand = &operand;
  request.readers = 1;
  return op->TryFuseEpilogue(request);
}

TEST(ConvTranspose, FusesScalarsChannelsAndOperandsOfTheResultsSize) {
  EXPECT_TRUE(Ask({}).accepted);
  EXPECT_TRUE(Ask({1, 8, 1, 1}).accepted);
  EXPECT_TRUE(Ask({graph::Dim::Symbol("N"), 8, 6, 8}).accepted);
  EXPECT_FALSE(Ask({8}).accepted);
}

std::string ErrorOf(const graph::Attributes& attributes, const Shape& x, const Shape& w) {
  const auto y = test::RunOp({.op_type = "ConvTranspose", .attributes = attributes},
                             {test::RandomFloats(x, 1), test::RandomFloats(w, 2)});
  return y.ok() ? "no error" : std::string(Message(y.status()));
}

TEST(ConvTranspose, WhatIsWrongIsRefusedWithWhatCameAndWhatWasExpected) {
  const Shape x = {1, 4, 5, 5};
  const Shape w = {4, 4, 3, 3};
  EXPECT_THAT(ErrorOf({{"group", int64_t{3}}}, x, w),
              HasSubstr("W has 4 input channels, not a multiple of group 3"));
  EXPECT_THAT(ErrorOf({}, x, {3, 4, 3, 3}),
              HasSubstr("X has 4 channels where W of shape [3,4,3,3] expects 3"));
  EXPECT_THAT(ErrorOf({{"output_padding", Ints{2, 0}}, {"strides", Ints{2, 1}}}, x, w),
              HasSubstr("'output_padding' is 2 on axis 0 where less than 2"));
  EXPECT_THAT(ErrorOf({{"output_padding", Ints{-1, 0}}}, x, w), HasSubstr("'output_padding' is"));
  EXPECT_THAT(ErrorOf({{"output_padding", Ints{0}}}, x, w),
              HasSubstr("'output_padding' has 1 values where 2 are expected"));
  EXPECT_THAT(ErrorOf({{"output_shape", Ints{1, 4, 7, 7}}}, x, w),
              HasSubstr("'output_shape' has 4 values where 2 are expected"));
  EXPECT_THAT(ErrorOf({{"output_shape", Ints{0, 7}}}, x, w),
              HasSubstr("'output_shape' is [0, 7] where values from 1 to"));
  EXPECT_THAT(ErrorOf({{"pads", Ints{4, 0, 4, 0}}}, x, w),
              HasSubstr("pads 4 and 4 leave nothing of an output of extent 7"));
  EXPECT_THAT(ErrorOf({{"kernel_shape", Ints{3, 2}}}, x, w), HasSubstr("kernel_shape"));
  EXPECT_THAT(ErrorOf({}, {1, 1, 5, 5}, {1, 1, 3, 3, 3}), HasSubstr("equal ranks"));
  EXPECT_THAT(ErrorOf({}, {1, 1, 2, 2, 2, 2}, {1, 1, 1, 1, 1, 1}),
              HasSubstr("no kernel for 4 spatial axes; 1 to 3 are supported"));
  EXPECT_THAT(ErrorOf({{"bias", int64_t{1}}}, x, w), HasSubstr("no attribute 'bias'"));
  EXPECT_THAT(ErrorOf({{"strides", Ints{70000, 1}}}, {1, 4, 1, 1}, w),
              HasSubstr("strides [70000,1] have a product above 65536"));
}

TEST(ConvTranspose, InfersSymbolicExtents) {
  test::GraphBuilder builder;
  builder.Input("x", DType::kFloat, {graph::Dim::Symbol("N"), 3, graph::Dim::Symbol("H"), 9});
  builder.Constant("w", test::RandomFloats({3, 8, 2, 2}, 1));
  builder.Node("ConvTranspose", {"x", "w"}, {"y"}, {{"strides", Ints{2, 2}}}).Output("y");
  const graph::Graph graph = builder.Build();
  EXPECT_EQ(graph::ToString(*graph.value(graph.FindValue("y")).type.dims), "[N,8,2*H,18]");
}

}  // namespace
}  // namespace tandem
