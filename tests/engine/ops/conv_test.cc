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

// A convolution with explicit pads, by the formula of the operator's documentation.
struct Naive {
  Shape x, w;
  Ints strides, dilations, pads;
  int64_t group = 1;

  int axes() const { return x.rank() - 2; }
  int64_t Extent(int i) const {
    const auto axis = static_cast<size_t>(i);
    const int64_t padded = x[i + 2] + pads[axis] + pads[axis + static_cast<size_t>(axes())];
    return (padded - ((w[i + 2] - 1) * dilations[axis] + 1)) / strides[axis] + 1;
  }
  Shape Out() const {
    Shape out = {x[0], w[0]};
    for (int i = 0; i < axes(); ++i) out.Append(Extent(i));
    return out;
  }
  // Position along each axis of the flat index `rest` into the spatial extents of `shape`.
  static Ints Positions(const Shape& shape, int64_t rest) {
    Ints at(static_cast<size_t>(shape.rank() - 2));
    for (int i = shape.rank() - 3; i >= 0; --i) {
      at[static_cast<size_t>(i)] = rest % shape[i + 2];
      rest /= shape[i + 2];
    }
    return at;
  }
  double At(const float* xs, const float* ws, const Ints& out) const {
    double sum = 0;
    const int64_t taps = w.Product(2, w.rank());
    const int64_t pixels = x.Product(2, x.rank());
    for (int64_t tap = 0; tap < taps; ++tap) {
      const Ints t = Positions(w, tap);
      int64_t pixel = 0;
      bool inside = true;
      for (size_t i = 0; i < t.size(); ++i) {
        const int64_t at = out[i] * strides[i] - pads[i] + t[i] * dilations[i];
        inside = inside && at >= 0 && at < x[static_cast<int>(i) + 2];
        pixel = pixel * x[static_cast<int>(i) + 2] + at;
      }
      for (int64_t c = 0; inside && c < w[1]; ++c) {
        sum += static_cast<double>(xs[c * pixels + pixel]) * ws[c * taps + tap];
      }
    }
    return sum;
  }
  Tensor Run(const Tensor& xs, const Tensor& ws, const Tensor& bias) const {
    const Shape out = Out();
    Tensor y = *Tensor::Allocate(DType::kFloat, out);
    float* to = y.mutable_data<float>();
    const int64_t pixels = out.Product(2, out.rank());
    for (int64_t n = 0; n < out[0]; ++n) {
      for (int64_t m = 0; m < out[1]; ++m) {
        const int64_t channel = m / (out[1] / group) * w[1];
        const float* from = xs.data<float>() + (n * x[1] + channel) * x.Product(2, x.rank());
        const float* filter = ws.data<float>() + m * w.Product(1, w.rank());
        for (int64_t p = 0; p < pixels; ++p) {
          const double sum = At(from, filter, Positions(out, p));
          *to++ = static_cast<float>(sum + (bias.valid() ? bias.data<float>()[m] : 0));
        }
      }
    }
    return y;
  }
  graph::Attributes Attributes() const {
    return {{"strides", strides}, {"dilations", dilations}, {"pads", pads}, {"group", group}};
  }
  std::string Text() const {
    return ToString(x) + " * " + ToString(w) + " group " + std::to_string(group) + " strides " +
           testing::PrintToString(strides) + " dilations " + testing::PrintToString(dilations) +
           " pads " + testing::PrintToString(pads);
  }
};

void ExpectAsNaive(const Naive& naive) {
  const Tensor x = test::RandomFloats(naive.x, 1);
  const Tensor w = test::RandomFloats(naive.w, 2);
  const Tensor bias = test::RandomFloats({naive.w[0]}, 3);
  const Tensor expected = naive.Run(x, w, bias);
  for (const Isa isa : test::IsaLevels()) {
    const auto y = test::RunOp({.op_type = "Conv", .attributes = naive.Attributes(), .isa = isa},
                               {x, w, bias});
    ASSERT_TRUE(y.ok()) << naive.Text() << ": " << y.status();
    ASSERT_TRUE(test::Close((*y)[0], expected, test::Reduction(naive.w.Product(1, naive.w.rank()))))
        << IsaName(isa) << " " << naive.Text();
  }
}

TEST(Conv, SweepOverKernelStrideDilationAndPads) {
  for (const int64_t kernel : {1, 2, 3, 5}) {
    for (const int64_t stride : {1, 2, 3}) {
      for (const int64_t dilation : {1, 2}) {
        for (const int64_t pad : {0, 1, 3}) {
          Naive naive{{2, 9, 11, 13}, {17, 9, kernel, kernel}};
          naive.strides = {stride, 1};
          naive.dilations = {1, dilation};
          naive.pads = {pad, 0, 1, pad};
          ExpectAsNaive(naive);
        }
      }
    }
  }
}

TEST(Conv, SweepOverChannelsAndGroups) {
  for (const int64_t group : {1, 2, 3, 8}) {
    for (const int64_t in : {1, 2, 3, 7, 8, 16}) {
      for (const int64_t out : {1, 2, 5, 33}) {
        Naive naive{{1, in * group, 6, 7}, {out * group, in, 3, 3}};
        naive.strides = {1, 2};
        naive.dilations = {1, 1};
        naive.pads = {1, 1, 1, 1};
        naive.group = group;
        ExpectAsNaive(naive);
      }
    }
  }
}

TEST(Conv, DepthwiseWithAnyNumberOfChannelsAndAMultiplier) {
  for (const int64_t channels : {2, 3, 15, 16, 17, 40, 96}) {
    for (const int64_t multiplier : {1, 2}) {
      for (const int64_t kernel : {1, 3, 7}) {
        Naive naive{{2, channels, 9, 10}, {channels * multiplier, 1, kernel, kernel}};
        naive.strides = {1, kernel == 7 ? 2 : 1};
        naive.dilations = {kernel == 3 ? 2 : 1, 1};
        naive.pads = {kernel / 2, kernel / 2, kernel / 2, 0};
        naive.group = channels;
        ExpectAsNaive(naive);
      }
    }
  }
}

TEST(Conv, OneAndThreeSpatialAxesAndLongWindows) {
  ExpectAsNaive({{2, 5, 40}, {6, 5, 4}, {3}, {2}, {2, 1}});
  ExpectAsNaive({{1, 1, 3000}, {3, 1, 1500}, {7}, {1}, {40, 0}});
  ExpectAsNaive({{1, 2, 1500}, {3, 2, 600}, {5}, {2}, {9, 9}});
  ExpectAsNaive({{1, 16, 500}, {20, 16, 300}, {3}, {1}, {20, 20}});
  ExpectAsNaive({{2, 3, 5, 6, 7}, {4, 3, 3, 2, 3}, {1, 2, 1}, {1, 1, 2}, {1, 0, 1, 0, 1, 2}});
  ExpectAsNaive({{1, 12, 4, 5, 6}, {12, 1, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}, 12});
}

TEST(Conv, SameAutoPadPutsTheOddCellWhereItsNameSays) {
  const Tensor x = test::RandomFloats({1, 1, 7, 5}, 1);
  const Tensor even = test::RandomFloats({1, 1, 8, 6}, 1);
  const Tensor w = test::RandomFloats({1, 1, 3, 3}, 2);
  for (const Isa isa : test::IsaLevels()) {
    const auto run = [&](const Tensor& in, const std::string& auto_pad) {
      const auto y = test::RunOp({.op_type = "Conv",
                                  .attributes = {{"auto_pad", auto_pad}, {"strides", Ints{2, 2}}},
                                  .isa = isa},
                                 {in, w});
      return (*y)[0];
    };
    EXPECT_EQ(run(x, "SAME_UPPER").shape(), Shape({1, 1, 4, 3}));
    const Naive upper{{1, 1, 8, 6}, w.shape(), {2, 2}, {1, 1}, {0, 0, 1, 1}};
    const Naive lower{{1, 1, 8, 6}, w.shape(), {2, 2}, {1, 1}, {1, 1, 0, 0}};
    EXPECT_TRUE(test::Close(run(even, "SAME_UPPER"), upper.Run(even, w, {}), test::Reduction(9)));
    EXPECT_TRUE(test::Close(run(even, "SAME_LOWER"), lower.Run(even, w, {}), test::Reduction(9)));
    EXPECT_EQ(run(even, "VALID").shape(), Shape({1, 1, 3, 2}));
  }
}

TEST(Conv, WithoutAttributesTheDefaultsHold) {
  const Naive naive{{1, 3, 5, 4}, {2, 3, 3, 3}, {1, 1}, {1, 1}, {0, 0, 0, 0}};
  const Tensor x = test::RandomFloats(naive.x, 1);
  const Tensor w = test::RandomFloats(naive.w, 2);
  for (const graph::Attributes& attributes :
       {graph::Attributes{}, graph::Attributes{{"kernel_shape", Ints{3, 3}}}}) {
    for (const int opset : {7, 11, 22}) {
      const auto y =
          test::RunOp({.op_type = "Conv", .opset = opset, .attributes = attributes}, {x, w});
      ASSERT_TRUE(y.ok()) << y.status();
      EXPECT_TRUE(test::Close((*y)[0], naive.Run(x, w, {}), test::Reduction(27)));
    }
  }
}

TEST(Conv, ItemsOfABatchHaveTheBitsOfSingleRunsAtAnyNumberOfThreads) {
  for (const Isa isa : test::IsaLevels()) {
    for (const int64_t group : {1, 24}) {
      const Tensor x = test::RandomFloats({7, 24, 9, 9}, 1);
      const Tensor w = test::RandomFloats({48 / (group == 1 ? 1 : 2), 24 / group, 3, 3}, 2);
      test::OpCall call{.op_type = "Conv",
                        .attributes = {{"pads", Ints{1, 1, 1, 1}}, {"group", group}},
                        .isa = isa};
      const Tensor whole = (*test::RunOp(call, {x, w}))[0];
      for (int64_t item = 0; item < 7; ++item) {
        const Tensor one = (*test::RunOp(call, {x.Rows(item, item + 1), w}))[0];
        ASSERT_TRUE(test::Close(one, whole.Rows(item, item + 1), test::Exact())) << IsaName(isa);
      }
      for (const int threads : {2, 4}) {
        call.threads = threads;
        EXPECT_TRUE(test::Close((*test::RunOp(call, {x, w}))[0], whole, test::Exact()));
      }
    }
  }
}

TEST(Conv, AnEmptyBatchGivesAnEmptyResult) {
  for (const Isa isa : test::IsaLevels()) {
    const auto y =
        test::RunOp({.op_type = "Conv", .isa = isa},
                    {test::RandomFloats({0, 3, 5, 5}, 1), test::RandomFloats({4, 3, 3, 3}, 2)});
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ((*y)[0].shape(), Shape({0, 4, 3, 3}));
  }
}

TEST(Conv, DoubleRunsInDouble) {
  const Tensor x = Tensor::Of<double>({1, 1, 3}, {1e-9, 1, 2});
  const Tensor w = Tensor::Of<double>({2, 1, 2}, {1, 1, 2, -1});
  const Tensor bias = Tensor::Of<double>({2}, {0.5, 0});
  const auto y = test::RunOp({.op_type = "Conv"}, {x, w, bias});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_TRUE(test::Close((*y)[0], Tensor::Of<double>({1, 2, 2}, {1.5 + 1e-9, 3.5, 2e-9 - 1, 0}),
                          test::OfScale(1e-15)));
}

std::string ErrorOf(const graph::Attributes& attributes, const Shape& x, const Shape& w) {
  const auto y = test::RunOp({.op_type = "Conv", .attributes = attributes},
                             {test::RandomFloats(x, 1), test::RandomFloats(w, 2)});
  return y.ok() ? "no error" : std::string(Message(y.status()));
}

TEST(Conv, WhatIsWrongIsRefusedWithWhatCameAndWhatWasExpected) {
  const Shape x = {1, 4, 5, 5};
  const Shape w = {4, 4, 3, 3};
  EXPECT_THAT(ErrorOf({{"group", int64_t{0}}}, x, w), HasSubstr("'group' is 0"));
  EXPECT_THAT(ErrorOf({{"group", int64_t{3}}}, x, {4, 1, 3, 3}), HasSubstr("multiple of group 3"));
  EXPECT_THAT(ErrorOf({}, x, {4, 3, 3, 3}), HasSubstr("X has 4 channels"));
  EXPECT_THAT(ErrorOf({{"strides", Ints{0, 1}}}, x, w), HasSubstr("strides"));
  EXPECT_THAT(ErrorOf({{"strides", Ints{1}}}, x, w), HasSubstr("strides"));
  EXPECT_THAT(ErrorOf({{"dilations", Ints{1, -1}}}, x, w), HasSubstr("dilations"));
  EXPECT_THAT(ErrorOf({{"pads", Ints{0, 0, 0, -1}}}, x, w), HasSubstr("pads"));
  EXPECT_THAT(ErrorOf({{"kernel_shape", Ints{3, 2}}}, x, w), HasSubstr("kernel_shape"));
  EXPECT_THAT(ErrorOf({{"bias", int64_t{1}}}, x, w), HasSubstr("no attribute 'bias'"));
  EXPECT_THAT(ErrorOf({}, {1, 1, 5, 5}, {1, 1, 3, 3, 3}), HasSubstr("equal ranks"));
  EXPECT_THAT(ErrorOf({}, x, {4, 4, 6, 3}), HasSubstr("does not fit"));
  const auto half = test::RunOp({.op_type = "Conv"}, {*Tensor::Allocate(DType::kFloat16, x),
                                                      *Tensor::Allocate(DType::kFloat16, w)});
  EXPECT_EQ(half.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(Message(half.status())), HasSubstr("float16"));
}

// A Conv with a fused stage, evaluated as the optimizer would leave it.
Tensor RunFused(const std::vector<graph::EpilogueStage>& stages, const std::vector<Tensor>& inputs,
                Isa isa) {
  graph::Node node;
  node.op_type = "Conv";
  node.opset = 17;
  node.attributes = {{"pads", Ints{1, 1, 1, 1}}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    node.inputs.push_back(inputs[i].valid() ? static_cast<graph::ValueId>(i) : graph::kNoValue);
  }
  node.outputs = {100};
  graph::Node plain = node;
  plain.inputs.resize(3);
  node.op = *ops::ParseNode(plain);
  node.epilogue = stages;
  const auto y = ops::Evaluate(node, inputs, isa, SequentialParallel());
  CHECK(y.ok(), "{}", Message(y.status()));
  return (*y)[0];
}

TEST(Conv, FusedStagesHaveTheBitsOfThePlainResultFollowedByThem) {
  const Tensor x = test::RandomFloats({2, 9, 6, 5}, 1);
  const Tensor w = test::RandomFloats({20, 9, 3, 3}, 2);
  const Tensor bias = test::RandomFloats({20}, 3);
  const Tensor residual = test::RandomFloats({2, 20, 6, 5}, 4);
  const Tensor scale = test::RandomFloats({1, 20, 1, 1}, 5);
  for (const Isa isa : test::IsaLevels()) {
    const Tensor plain = RunFused({}, {x, w, bias}, isa);
    const Tensor fused = RunFused({{"Mul", {}, 3}, {"Add", {}, 4}, {"Relu", {}, -1}},
                                  {x, w, bias, scale, residual}, isa);
    Tensor expected = *Tensor::Allocate(DType::kFloat, plain.shape());
    for (int64_t i = 0; i < plain.elements(); ++i) {
      const float scaled = plain.data<float>()[i] * scale.data<float>()[i / 30 % 20];
      expected.mutable_data<float>()[i] = std::max(0.0f, scaled + residual.data<float>()[i]);
    }
    EXPECT_TRUE(test::Close(fused, expected, test::Exact())) << IsaName(isa);
  }
}

TEST(Conv, StagesFollowTheWholeSumWhenItIsDoneInSteps) {
  for (const Shape& w_shape :
       {Shape({7, 513, 1, 1}), Shape({7, 1030, 1, 1}), Shape({7, 600, 3, 3})}) {
    const bool pointwise = w_shape[2] == 1;
    const int64_t rows = pointwise ? 5 : 3;  // with the pads of RunFused
    const Tensor x = test::RandomFloats({1, w_shape[1], 3, 2}, 1);
    const Tensor w = test::RandomFloats(w_shape, 2);
    const Tensor bias = test::RandomFloats({7}, 3);
    const Tensor residual = test::RandomFloats({1, 7, rows, rows - 1}, 4);
    for (const Isa isa : test::IsaLevels()) {
      const Tensor plain = RunFused({}, {x, w, bias}, isa);
      ASSERT_EQ(plain.shape(), residual.shape());
      const Tensor relu = RunFused({{"Relu", {}, -1}}, {x, w, bias}, isa);
      const Tensor both = RunFused({{"Add", {}, 3}, {"Relu", {}, -1}}, {x, w, bias, residual}, isa);
      Tensor expected_relu = *Tensor::Allocate(DType::kFloat, plain.shape());
      Tensor expected_both = *Tensor::Allocate(DType::kFloat, plain.shape());
      for (int64_t i = 0; i < plain.elements(); ++i) {
        const float sum = plain.data<float>()[i];
        expected_relu.mutable_data<float>()[i] = std::max(0.0f, sum);
        expected_both.mutable_data<float>()[i] = std::max(0.0f, sum + residual.data<float>()[i]);
      }
      EXPECT_TRUE(test::Close(relu, expected_relu, test::Exact())) << IsaName(isa);
      EXPECT_TRUE(test::Close(both, expected_both, test::Exact())) << IsaName(isa);
    }
  }
}

TEST(Conv, ChannelsLastInAndOutHasTheBitsOfNative) {
  const std::vector<Tensor> inputs = {
      test::RandomFloats({2, 9, 6, 5}, 1), test::RandomFloats({20, 9, 3, 3}, 2),
      test::RandomFloats({20}, 3), test::RandomFloats({2, 20, 6, 5}, 4)};
  for (const Isa isa : test::IsaLevels()) {
    test::BoundCall call{.op_type = "Conv",
                         .attributes = {{"pads", Ints{1, 1, 1, 1}}},
                         .out = {2, 20, 6, 5},
                         .constant_port = 1,
                         .isa = isa,
                         .own_inputs = 3,
                         .epilogue = {{"Add", {}, 3}, {"Relu", {}, -1}}};
    const Tensor native = test::BindAndRun(call, inputs);
    for (const int ports : {1, 2, 4, 7}) {
      call.channels_last = ports;
      EXPECT_TRUE(test::Close(test::BindAndRun(call, inputs), native, test::Exact()))
          << IsaName(isa) << " " << ports;
    }
  }
}

ops::Decision Ask(const graph::DimVector& operand, int readers = 1, bool is_output = false) {
  const test::OpCall call{.op_type = "Conv"};
  graph::Node node;
  node.op_type = "Conv";
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
  request.readers = readers;
  request.is_output = is_output;
  return op->TryFuseEpilogue(request);
}

TEST(Conv, FusesScalarsChannelsAndResidualsAndSaysWhyNotOthers) {
  EXPECT_TRUE(Ask({}).accepted);
  EXPECT_TRUE(Ask({1, 8, 1, 1}).accepted);
  EXPECT_TRUE(Ask({8, 1, 1}).accepted);
  EXPECT_TRUE(Ask({graph::Dim::Symbol("N"), 8, 6, 8}).accepted);
  // A vector lies along the width, even where that has as many elements as there are channels.
  EXPECT_FALSE(Ask({8}).accepted);
  EXPECT_FALSE(Ask({1, 8, 6, 8}).accepted);
  EXPECT_FALSE(Ask({1, 1, 1, 1, 1}).accepted);
  EXPECT_THAT(Ask({8}).numbers, HasSubstr("[8] against [N,8,6,8]"));
  EXPECT_EQ(Ask({}, 2).numbers, "readers=2");
  EXPECT_FALSE(Ask({}, 1, true).accepted);
}

TEST(Conv, InfersSymbolicExtents) {
  test::GraphBuilder builder;
  builder.Input("x", DType::kFloat, {graph::Dim::Symbol("N"), 3, graph::Dim::Symbol("H"), 9});
  builder.Constant("w", test::RandomFloats({8, 3, 3, 3}, 1));
  builder.Node("Conv", {"x", "w"}, {"y"}, {{"pads", Ints{1, 1, 1, 1}}}).Output("y");
  const graph::Graph graph = builder.Build();
  EXPECT_EQ(graph::ToString(*graph.value(graph.FindValue("y")).type.dims), "[N,8,H,9]");
}

}  // namespace
}  // namespace tandem
