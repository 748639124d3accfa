#include <gtest/gtest.h>

#include "tests/engine/optimizer/pass_testing.h"
#include "tests/support/random_tensor.h"

namespace tandem::optimizer::test {
namespace {

using tandem::test::GraphBuilder;
using tandem::test::RandomFloats;
using tandem::test::Reduction;
using Ints = std::vector<int64_t>;

// Input x [2, 3, 7]; scale and bias of the last axis.
struct Builder : GraphBuilder {
  Builder() : GraphBuilder(13) {
    Input("x", DType::kFloat, {2, 3, 7});
    Constant("scale", RandomFloats({7}, 1, 0.5F, 2)).Constant("bias", RandomFloats({7}, 2));
    Constant("two", Tensor::Scalar(2.0F)).Constant("epsilon", Tensor::Scalar(1e-3F));
  }
  void Mean(const std::string& from, const std::string& to, Ints axes = {-1}) {
    Node("ReduceMean", {from}, {to}, {{"axes", std::move(axes)}});
  }
  // d = x - mean, n = d / sqrt(var + epsilon).
  void Normalize(const Ints& axes = {-1}) {
    Mean("x", "m", axes);
    Node("Sub", {"x", "m"}, {"d"}).Node("Pow", {"d", "two"}, {"p"});
    Mean("p", "v", axes);
    Node("Add", {"v", "epsilon"}, {"w"}).Node("Sqrt", {"w"}, {"r"}).Node("Div", {"d", "r"}, {"n"});
  }
  void ScaleAndShift() {
    Node("Mul", {"n", "scale"}, {"s"}).Node("Add", {"s", "bias"}, {"y"}).Output("y");
  }
};

PassOutcome Fuse(Builder& builder) { return RunPass("fuse_layer_norm", builder, Reduction(21)); }

void ExpectFused(Builder& builder, int64_t axis) {
  const PassOutcome outcome = Fuse(builder);
  ASSERT_EQ(outcome.graph.order().size(), 1u);
  const graph::Node& node = outcome.graph.node(outcome.graph.order()[0]);
  EXPECT_EQ(node.op_type, "LayerNormalization");
  EXPECT_EQ(node.attributes.at("axis").get<int64_t>(), axis);
  EXPECT_EQ(node.attributes.at("epsilon").get<float>(), 1e-3F);
}

TEST(FuseLayerNorm, TheFormThatExportersWrite) {
  Builder builder;
  builder.Normalize();
  builder.ScaleAndShift();
  ExpectFused(builder, -1);
}

TEST(FuseLayerNorm, TheOriginNamesAllNodesOfTheFormula) {
  Builder builder;
  builder.Normalize();
  builder.ScaleAndShift();
  const graph::Graph graph = Fuse(builder).graph;
  EXPECT_EQ(graph.node(graph.order()[0]).origin,
            "ReduceMean -> 'm' + Sub -> 'd' + Pow -> 'p' + ReduceMean -> 'v' + Add -> 'w' + "
            "Sqrt -> 'r' + Div -> 'n' + Mul -> 's' + Add -> 'y'");
}

TEST(FuseLayerNorm, OperandsInTheOtherOrder) {
  Builder builder;
  builder.Normalize();
  builder.Node("Mul", {"scale", "n"}, {"s"}).Node("Add", {"bias", "s"}, {"y"}).Output("y");
  ExpectFused(builder, -1);
}

TEST(FuseLayerNorm, ASquareAsAProductAndADeviationComputedTwice) {
  Builder builder;
  builder.Mean("x", "m");
  builder.Node("Sub", {"x", "m"}, {"d"}).Node("Sub", {"x", "m"}, {"e"});
  builder.Node("Mul", {"d", "d"}, {"p"});
  builder.Mean("p", "v", {2});
  builder.Node("Add", {"epsilon", "v"}, {"w"}).Node("Sqrt", {"w"}, {"r"});
  builder.Node("Div", {"e", "r"}, {"n"});
  builder.ScaleAndShift();
  ExpectFused(builder, -1);
}

TEST(FuseLayerNorm, SeveralAxes) {
  Builder builder;
  builder.Constant("scale2", RandomFloats({3, 7}, 1)).Constant("bias2", RandomFloats({3, 7}, 2));
  builder.Normalize({2, 1});
  builder.Node("Mul", {"n", "scale2"}, {"s"}).Node("Add", {"s", "bias2"}, {"y"}).Output("y");
  ExpectFused(builder, -2);
}

TEST(FuseLayerNorm, AxesThatAreNotTheLastOnesStopIt) {
  Builder builder;
  builder.Normalize({1});
  builder.ScaleAndShift();
  EXPECT_TRUE(Fuse(builder).unchanged);
}

TEST(FuseLayerNorm, AMeanOverOtherAxesThanTheVarianceStopsIt) {
  Builder builder;
  builder.Mean("x", "m", {-1});
  builder.Node("Sub", {"x", "m"}, {"d"}).Node("Pow", {"d", "two"}, {"p"});
  builder.Mean("p", "v", {1, 2});
  builder.Node("Add", {"v", "epsilon"}, {"w"}).Node("Sqrt", {"w"}, {"r"});
  builder.Node("Div", {"d", "r"}, {"n"});
  builder.ScaleAndShift();
  EXPECT_TRUE(Fuse(builder).unchanged);
}

TEST(FuseLayerNorm, AnotherPowerStopsIt) {
  Builder builder;
  builder.Constant("four", Tensor::Scalar(4.0F));
  builder.Mean("x", "m");
  builder.Node("Sub", {"x", "m"}, {"d"}).Node("Pow", {"d", "four"}, {"p"});
  builder.Mean("p", "v");
  builder.Node("Add", {"v", "epsilon"}, {"w"}).Node("Sqrt", {"w"}, {"r"});
  builder.Node("Div", {"d", "r"}, {"n"});
  builder.ScaleAndShift();
  EXPECT_TRUE(Fuse(builder).unchanged);
}

TEST(FuseLayerNorm, AScaleOfAnotherAxisStopsItWithItsReason) {
  Builder builder;
  builder.Constant("column", RandomFloats({3, 1}, 5));
  builder.Normalize();
  builder.Node("Mul", {"n", "column"}, {"s"}).Node("Add", {"s", "bias"}, {"y"}).Output("y");
  const PassOutcome outcome = Fuse(builder);
  ASSERT_NO_FATAL_FAILURE(ExpectDeclined(outcome, "extents of the normalized axes"));
  EXPECT_EQ(outcome.report.declines[0].numbers, "'column' has [3,1]");
}

TEST(FuseLayerNorm, AValueOnTheWayThatIsAnOutputStopsIt) {
  ExpectOutputsOnTheWayStopIt({"m", "d", "p", "v", "w", "r", "n", "s"},
                              [](const std::string& value) {
                                Builder builder;
                                builder.Normalize();
                                builder.ScaleAndShift();
                                builder.Output(value);
                                return Fuse(builder);
                              });
}

}  // namespace
}  // namespace tandem::optimizer::test
