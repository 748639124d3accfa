#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/optimizer/pass_testing.h"
#include "tests/support/random_bytes.h"

namespace tandem::optimizer::test {
namespace {

using tandem::test::GraphBuilder;
using tandem::test::OfScale;
using tandem::test::RandomBytes;
using testing::ElementsAre;
using Ints = std::vector<int64_t>;

// One step of 255: a product of integers rounds once where the floats round three times.
const tandem::test::Tolerance kOneStep = OfScale(1.0 / 100);

// Builds quantised graphs over x [2,3,6,5], between steps of y_scale.
class Builder : public GraphBuilder {
 public:
  Builder() : GraphBuilder(17) {
    Input("x", DType::kFloat, {2, 3, 6, 5});
    Constant("s", Tensor::Scalar(0.03f)).Constant("z", Tensor::Scalar<uint8_t>(117));
    Constant("ys", Tensor::Scalar(0.25f)).Constant("yz", Tensor::Scalar<uint8_t>(100));
  }

  // `name` is the DQ of the Q of `from`.
  Builder& Quantised(const std::string& name, const std::string& from) {
    Node("QuantizeLinear", {from, "s", "z"}, {name + "q"});
    Node("DequantizeLinear", {name + "q", "s", "z"}, {name});
    return *this;
  }
  // `name` is the DQ of constant filters [4,3,3,3] with a scale for each.
  Builder& Weights(const std::string& name, int64_t axis = 0) {
    const int64_t scales = axis == 0 ? 4 : 3;
    Constant(name + "8", RandomBytes<int8_t>({4, 3, 3, 3}, 1));
    Constant(name + "s", tandem::test::RandomFloats({scales}, 2, 0.001f, 0.01f));
    Constant(name + "z",
             Tensor::Of<int8_t>({scales}, std::vector<int8_t>(static_cast<size_t>(scales), 0)));
    Node("DequantizeLinear", {name + "8", name + "s", name + "z"}, {name}, {{"axis", axis}});
    return *this;
  }
  // `name` is the DQ of an int32 bias whose scales are `factor` times those of Weights(w) and x.
  Builder& Bias(const std::string& name, float factor = 1) {
    Tensor scales = tandem::test::RandomFloats({4}, 2, 0.001f, 0.01f);
    for (int64_t i = 0; i < 4; ++i) scales.mutable_data<float>()[i] *= 0.03f * factor;
    Constant(name + "32", Tensor::Of<int32_t>({4}, {500, -700, 90, 0}));
    Constant(name + "s", scales);
    Node("DequantizeLinear", {name + "32", name + "s"}, {name}, {{"axis", int64_t{0}}});
    return *this;
  }
  // y, a float output, is the DQ of the Q of `from`.
  Builder& Result(const std::string& from) {
    Node("QuantizeLinear", {from, "ys", "yz"}, {"yq"});
    Node("DequantizeLinear", {"yq", "ys", "yz"}, {"y"}).Output("y");
    return *this;
  }
};

PassOutcome Fuse(Builder& builder) { return RunPass("fuse_qdq", builder, kOneStep); }

std::vector<std::string> OpsOf(const PassOutcome& outcome) {
  std::vector<std::string> ops;
  for (const graph::NodeId id : outcome.graph.order()) {
    ops.push_back(outcome.graph.node(id).op_type);
  }
  return ops;
}

TEST(FuseQdq, AConvolutionBetweenIntegersIsOneOfIntegers) {
  for (const bool bias : {false, true}) {
    Builder builder;
    builder.Quantised("a", "x").Weights("w");
    std::vector<std::string> inputs = {"a", "w"};
    if (bias) {
      builder.Bias("b");
      inputs.emplace_back("b");
    }
    builder.Node("Conv", inputs, {"c"}, {{"pads", Ints{1, 1, 1, 1}}}, "conv");
    builder.Result("c");
    const PassOutcome outcome = Fuse(builder);
    EXPECT_THAT(OpsOf(outcome), ElementsAre("QuantizeLinear", "QLinearConv", "DequantizeLinear"));
    EXPECT_THAT(outcome.report.declines, testing::IsEmpty());
  }
}

TEST(FuseQdq, ReluAndClipBecomeBoundsOfTheIntegers) {
  for (const std::string op : {"Relu", "Clip"}) {
    Builder builder;
    builder.Quantised("a", "x").Weights("w");
    builder.Node("Conv", {"a", "w"}, {"c"});
    if (op == "Relu") {
      builder.Node("Relu", {"c"}, {"r"});
    } else {
      builder.Constant("low", Tensor::Scalar(-1.0f)).Constant("high", Tensor::Scalar(2.0f));
      builder.Node("Clip", {"c", "low", "high"}, {"r"});
    }
    builder.Result("r");
    const PassOutcome outcome = Fuse(builder);
    EXPECT_THAT(OpsOf(outcome),
                ElementsAre("QuantizeLinear", "QLinearConv", "Clip", "DequantizeLinear"));
    const graph::Node& clip = outcome.graph.node(outcome.graph.order()[2]);
    const auto bound = [&](int port) {
      return int{outcome.graph.constant_input(clip, port)->view().data<uint8_t>()[0]};
    };
    EXPECT_EQ(bound(1), op == "Relu" ? 100 : 96);
    EXPECT_EQ(bound(2), op == "Relu" ? 255 : 108);
  }
}

TEST(FuseQdq, BoundsThatCutNothingGo) {
  Builder builder;
  builder.Constant("low", Tensor::Scalar(-100.0f)).Constant("high", Tensor::Scalar(100.0f));
  builder.Quantised("a", "x").Weights("w");
  builder.Node("Conv", {"a", "w"}, {"c"}).Node("Clip", {"c", "low", "high"}, {"r"});
  builder.Result("r");
  EXPECT_THAT(OpsOf(Fuse(builder)),
              ElementsAre("QuantizeLinear", "QLinearConv", "DequantizeLinear"));
}

TEST(FuseQdq, SumsProductsAndMovedElementsStayIntegers) {
  Builder add;
  add.Quantised("a", "x").Node("Neg", {"x"}, {"n"});
  add.Quantised("b", "n").Node("Add", {"a", "b"}, {"c"});
  add.Result("c");
  EXPECT_THAT(OpsOf(Fuse(add)), testing::Contains("QLinearAdd"));

  Builder product;
  product.Quantised("a", "x");
  product.Constant("w8", RandomBytes<int8_t>({5, 7}, 1));
  product.Constant("ws", tandem::test::RandomFloats({7}, 2, 0.001f, 0.01f));
  product.Node("DequantizeLinear", {"w8", "ws"}, {"w"}, {{"axis", int64_t{1}}});
  product.Node("MatMul", {"a", "w"}, {"c"});
  product.Result("c");
  EXPECT_THAT(OpsOf(Fuse(product)),
              ElementsAre("QuantizeLinear", "QLinearMatMul", "DequantizeLinear"));

  Builder pool;
  pool.Quantised("a", "x");
  pool.Node("MaxPool", {"a"}, {"c"}, {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{1, 1, 0, 0}}});
  pool.Node("QuantizeLinear", {"c", "s", "z"}, {"yq"});
  pool.Node("DequantizeLinear", {"yq", "s", "z"}, {"y"}).Output("y");
  EXPECT_THAT(OpsOf(Fuse(pool)), ElementsAre("QuantizeLinear", "MaxPool", "DequantizeLinear"));
}

// Gemm(x flattened, w transposed) with these attributes and scales of the bias.
struct GemmCase {
  graph::Attributes attributes = {{"transB", int64_t{1}}};
  Shape weights = {4, 90};
  float bias_factor = 1;
};
PassOutcome FuseGemmOf(const GemmCase& gemm) {
  Builder builder;
  builder.Node("Flatten", {"x"}, {"f"});
  builder.Quantised("a", "f").Bias("b", gemm.bias_factor);
  builder.Constant("w8", RandomBytes<int8_t>(gemm.weights, 1));
  const int64_t axis = gemm.weights[0] == 4 ? 0 : 1;
  builder.Constant("ws", tandem::test::RandomFloats({4}, 2, 0.001f, 0.01f));
  builder.Node("DequantizeLinear", {"w8", "ws"}, {"w"}, {{"axis", axis}});
  builder.Node("Gemm", {"a", "w", "b"}, {"c"}, gemm.attributes);
  builder.Result("c");
  return Fuse(builder);
}

TEST(FuseQdq, AGemmIsAConvolutionOfRows) {
  EXPECT_THAT(OpsOf(FuseGemmOf({})), ElementsAre("Flatten", "QuantizeLinear", "Unsqueeze",
                                                 "QLinearConv", "Squeeze", "DequantizeLinear"));
}

TEST(FuseQdq, OtherFormsOfGemmAreDeclined) {
  const int64_t one = 1;
  ExpectDeclined(FuseGemmOf({.attributes = {}, .weights = {90, 4}}), "only x * w transposed");
  ExpectDeclined(FuseGemmOf({.attributes = {{"transB", one}, {"alpha", 0.5f}}}),
                 "only x * w transposed");
  ExpectDeclined(FuseGemmOf({.attributes = {{"transB", one}, {"beta", 0.5f}}}),
                 "only x * w transposed");
  ExpectDeclined(FuseGemmOf({.bias_factor = 1.1f}), "the bias is not int32 in steps");
}

TEST(FuseQdq, AnotherReaderOrAnOutputOfTheFloatsStopsIt) {
  for (const std::string value : {"c", "r"}) {
    for (const bool output : {false, true}) {
      Builder builder;
      builder.Quantised("a", "x").Weights("w");
      builder.Node("Conv", {"a", "w"}, {"c"}).Node("Relu", {"c"}, {"r"});
      builder.Result("r");
      if (output) {
        builder.Output(value);
      } else {
        builder.Node("Neg", {value}, {"n"}).Output("n");
      }
      EXPECT_TRUE(Fuse(builder).unchanged) << value;
    }
  }
}

TEST(FuseQdq, TheIntegersBeforeItMayHaveOtherReaders) {
  Builder builder;
  builder.Quantised("a", "x").Weights("w");
  builder.Node("Conv", {"a", "w"}, {"c"}).Node("Neg", {"a"}, {"n"});
  builder.Result("c").Output("n");
  EXPECT_THAT(OpsOf(Fuse(builder)), testing::Contains("QLinearConv"));
}

TEST(FuseQdq, FloatsAmongTheOperandsStopIt) {
  for (const int port : {0, 1, 2}) {
    Builder builder;
    builder.Quantised("a", "x").Weights("w").Bias("b");
    builder.Constant("wf", tandem::test::RandomFloats({4, 3, 3, 3}, 3));
    builder.Constant("bf", tandem::test::RandomFloats({4}, 3));
    builder.Node("Conv", {port == 0 ? "x" : "a", port == 1 ? "wf" : "w", port == 2 ? "bf" : "b"},
                 {"c"});
    builder.Output("a").Output("w").Output("b");
    builder.Result("c");
    const PassOutcome outcome = Fuse(builder);
    EXPECT_TRUE(outcome.unchanged) << port;
    EXPECT_EQ(outcome.report.declines.size(), port == 2 ? 1u : 0u);
  }
}

TEST(FuseQdq, ABiasInOtherStepsStopsIt) {
  Builder builder;
  builder.Quantised("a", "x").Weights("w").Bias("b", 1.01f);
  builder.Node("Conv", {"a", "w", "b"}, {"c"});
  builder.Result("c");
  ExpectDeclined(Fuse(builder), "the bias is not int32 in steps");
}

TEST(FuseQdq, ScalesOfInputChannelsStopIt) {
  Builder builder;
  builder.Quantised("a", "x").Weights("w", 1);
  builder.Node("Conv", {"a", "w"}, {"c"});
  builder.Result("c");
  ExpectDeclined(Fuse(builder), "its scales are not those of output channels");
}

TEST(FuseQdq, AProductWithAnythingButAConstantMatrixIsDeclined) {
  const std::string declined = "it is not one constant matrix";
  Builder activations;
  activations.Node("Transpose", {"x"}, {"t"}, {{"perm", Ints{0, 1, 3, 2}}});
  activations.Quantised("a", "x").Quantised("b", "t").Node("MatMul", {"a", "b"}, {"c"});
  activations.Result("c");
  ExpectDeclined(Fuse(activations), declined);

  Builder vector;  // its scales are those of the axis that is summed
  vector.Quantised("a", "x").Constant("w8", RandomBytes<int8_t>({5}, 1));
  vector.Constant("ws", tandem::test::RandomFloats({5}, 2, 0.001f, 0.01f));
  vector.Node("DequantizeLinear", {"w8", "ws"}, {"w"}, {{"axis", int64_t{0}}});
  vector.Node("MatMul", {"a", "w"}, {"c"});
  vector.Result("c");
  ExpectDeclined(Fuse(vector), declined);

  Builder stack;
  stack.Quantised("a", "x").Constant("w8", RandomBytes<int8_t>({3, 5, 4}, 1));
  stack.Node("DequantizeLinear", {"w8", "s"}, {"w"}).Node("MatMul", {"a", "w"}, {"c"});
  stack.Result("c");
  ExpectDeclined(Fuse(stack), declined);
}

TEST(FuseQdq, ABiasThatIsNotCentredStopsIt) {
  Builder builder;
  builder.Quantised("a", "x").Weights("w");
  Tensor scales = tandem::test::RandomFloats({4}, 2, 0.001f, 0.01f);
  for (int64_t i = 0; i < 4; ++i) scales.mutable_data<float>()[i] *= 0.03f;
  builder.Constant("b32", Tensor::Of<int32_t>({4}, {500, -700, 90, 0})).Constant("bs", scales);
  builder.Constant("bz", Tensor::Of<int32_t>({4}, {0, 0, 1, 0}));
  builder.Node("DequantizeLinear", {"b32", "bs", "bz"}, {"b"}, {{"axis", int64_t{0}}});
  builder.Node("Conv", {"a", "w", "b"}, {"c"});
  builder.Result("c");
  ExpectDeclined(Fuse(builder), "the bias is not int32 in steps");
}

TEST(FuseQdq, BoundsInARowApplyInTheirOrder) {
  Builder builder;
  builder.Constant("low", Tensor::Scalar(-3.0f)).Constant("high", Tensor::Scalar(2.5f));
  builder.Constant("low2", Tensor::Scalar(-9.0f)).Constant("high2", Tensor::Scalar(1.5f));
  builder.Quantised("a", "x").Weights("w").Node("Conv", {"a", "w"}, {"c"});
  builder.Node("Clip", {"c", "low", "high"}, {"d"}).Node("Clip", {"d", "low2", "high2"}, {"e"});
  builder.Result("e");
  EXPECT_THAT(OpsOf(Fuse(builder)),
              ElementsAre("QuantizeLinear", "QLinearConv", "Clip", "DequantizeLinear"));
}

TEST(FuseQdq, AnInputWithSeveralScalesStopsIt) {
  Builder builder;
  builder.Constant("xs", Tensor::Of<float>({3}, {0.02f, 0.03f, 0.04f}));
  builder.Node("QuantizeLinear", {"x", "xs"}, {"aq"}).Node("DequantizeLinear", {"aq", "xs"}, {"a"});
  builder.Weights("w").Node("Conv", {"a", "w"}, {"c"});
  builder.Result("c");
  ExpectDeclined(Fuse(builder), "it has not one scale");
}

TEST(FuseQdq, ParametersThatChangeOnTheWayStopAMovement) {
  Builder builder;
  builder.Quantised("a", "x").Node("Transpose", {"a"}, {"c"}, {{"perm", Ints{0, 2, 3, 1}}});
  builder.Result("c");
  ExpectDeclined(Fuse(builder), "scale and zero point change on the way");
}

TEST(FuseQdq, OperandsOfAnotherTypeThanTheSumStopIt) {
  Builder builder;
  builder.Constant("z8", Tensor::Scalar<int8_t>(0));
  builder.Quantised("a", "x");
  builder.Node("QuantizeLinear", {"x", "s", "z8"}, {"bq"});
  builder.Node("DequantizeLinear", {"bq", "s", "z8"}, {"b"}).Node("Add", {"a", "b"}, {"c"});
  builder.Result("c");
  ExpectDeclined(Fuse(builder), "they have not one scale and the result's type");
}

TEST(FuseQdq, ScalesThatAreComputedOrNotPositiveAreLeftAlone) {
  for (const bool computed : {false, true}) {
    Builder builder;
    if (computed) {
      builder.Node("ReduceMax", {"x"}, {"rs"}, {{"keepdims", int64_t{0}}});
    } else {
      builder.Constant("rs", Tensor::Scalar(-0.25f));
    }
    builder.Quantised("a", "x").Weights("w").Node("Conv", {"a", "w"}, {"c"});
    builder.Node("QuantizeLinear", {"c", "rs", "yz"}, {"yq"});
    builder.Node("DequantizeLinear", {"yq", "rs", "yz"}, {"y"}).Output("y");
    EXPECT_TRUE(Fuse(builder).unchanged);
  }
}

TEST(FuseQdq, ResultsOf16BitsAreLeftAlone) {
  Builder builder;
  builder.Constant("z16", Tensor::Scalar<int16_t>(0));
  builder.Quantised("a", "x").Weights("w").Node("Conv", {"a", "w"}, {"c"});
  builder.Node("QuantizeLinear", {"c", "ys", "z16"}, {"yq"});
  builder.Node("DequantizeLinear", {"yq", "ys", "z16"}, {"y"}).Output("y");
  EXPECT_TRUE(Fuse(builder).unchanged);
}

}  // namespace
}  // namespace tandem::optimizer::test
