#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/optimizer/pass_testing.h"
#include "tests/support/interpreter.h"
#include "tests/support/random_tensor.h"

namespace tandem::optimizer::test {
namespace {

using tandem::test::GraphBuilder;
using tandem::test::RandomFloats;
using tandem::test::Reduction;

// Input x [2, 6, 5, 3] in 3 groups; scale and bias for its channels.
struct Builder : GraphBuilder {
  Builder() : GraphBuilder(13) {
    Input("x", DType::kFloat, {2, 6, 5, 3});
    Constant("groups", Tensor::Of<int64_t>({3}, {0, 3, -1}));
    Constant("extents", Tensor::Of<int64_t>({4}, {2, 6, 5, 3}));
    Constant("ones", Tensor::Of<float>({3}, {1, 1, 1}));
    Constant("zeros", Tensor::Of<float>({3}, {0, 0, 0}));
    Constant("scale", RandomFloats({6, 1, 1}, 1, 0.5F, 2))
        .Constant("bias", RandomFloats({6, 1, 1}, 2));
  }
  void Normalize(const std::string& scale = "ones") {
    Node("Reshape", {"x", "groups"}, {"g"});
    Node("InstanceNormalization", {"g", scale, "zeros"}, {"i"}, {{"epsilon", 1e-3F}});
    Node("Reshape", {"i", "extents"}, {"n"});
  }
};

PassOutcome Fuse(Builder& builder) { return RunPass("fuse_group_norm", builder, Reduction(30)); }

void ExpectFused(Builder& builder) {
  const PassOutcome outcome = Fuse(builder);
  ASSERT_EQ(outcome.graph.order().size(), 1u);
  const graph::Node& node = outcome.graph.node(outcome.graph.order()[0]);
  EXPECT_EQ(node.op_type, "GroupNormalization");
  EXPECT_EQ(node.attributes.at("num_groups").get<int64_t>(), 3);
  EXPECT_EQ(node.attributes.at("epsilon").get<float>(), 1e-3F);
}

TEST(FuseGroupNorm, TheFormThatExportersWrite) {
  Builder builder;
  builder.Normalize();
  builder.Node("Mul", {"n", "scale"}, {"s"}).Node("Add", {"s", "bias"}, {"y"}).Output("y");
  ExpectFused(builder);
}

TEST(FuseGroupNorm, OperandsInTheOtherOrderAndOfFullRank) {
  Builder builder;
  builder.Constant("scale4", RandomFloats({1, 6, 1, 1}, 3));
  builder.Normalize();
  builder.Node("Mul", {"scale4", "n"}, {"s"}).Node("Add", {"bias", "s"}, {"y"}).Output("y");
  ExpectFused(builder);
}

// Numbers around 10000: the fused form loses no digit of their deviation of 1.
TEST(FuseGroupNorm, AMeanFarFromZeroCostsAVarianceNothing) {
  Builder builder;
  builder.Normalize();
  builder.Node("Mul", {"n", "scale"}, {"s"}).Node("Add", {"s", "bias"}, {"y"}).Output("y");
  const PassOutcome outcome = Fuse(builder);
  ASSERT_EQ(outcome.graph.order().size(), 1u);
  const Tensor x = RandomFloats({2, 6, 5, 3}, 4, 9998, 10002);
  Tensor expected = *Tensor::Allocate(DType::kFloat, x.shape());
  for (int64_t group = 0; group < 6; ++group) {
    const float* from = x.data<float>() + group * 30;
    double mean = 0, variance = 0;
    for (int i = 0; i < 30; ++i) mean += from[i] / 30.0;
    for (int i = 0; i < 30; ++i) variance += std::pow(from[i] - mean, 2) / 30;
    for (int i = 0; i < 30; ++i) {
      const int64_t channel = group % 3 * 2 + i / 15;
      expected.mutable_data<float>()[group * 30 + i] =
          static_cast<float>((from[i] - mean) / std::sqrt(variance + double{1e-3F}) *
                                 RandomFloats({6, 1, 1}, 1, 0.5F, 2).data<float>()[channel] +
                             RandomFloats({6, 1, 1}, 2).data<float>()[channel]);
    }
  }
  const auto y = tandem::test::Interpret(outcome.graph, {{"x", x}});
  ASSERT_TRUE(y.ok()) << y.status();
  // The mean is a float: one unit in the last place of 10000, scaled by up to 2.
  EXPECT_TRUE(tandem::test::Close(y->at("y"), expected, {.absolute = std::ldexp(1.0, -9)}));
}

TEST(FuseGroupNorm, AScaleOfAnotherAxisStopsIt) {
  Builder builder;
  builder.Constant("rows", RandomFloats({5, 1}, 3));
  builder.Normalize();
  builder.Node("Mul", {"n", "rows"}, {"s"}).Node("Add", {"s", "bias"}, {"y"}).Output("y");
  EXPECT_TRUE(Fuse(builder).unchanged);
}

TEST(FuseGroupNorm, GroupsAcrossItemsStopIt) {
  Builder builder;
  builder.Constant("one_item", Tensor::Of<int64_t>({3}, {1, 3, -1}));
  builder.Node("Reshape", {"x", "one_item"}, {"g"});
  builder.Node("InstanceNormalization", {"g", "ones", "zeros"}, {"i"}, {{"epsilon", 1e-3F}});
  builder.Node("Reshape", {"i", "extents"}, {"n"});
  builder.Node("Mul", {"n", "scale"}, {"s"}).Node("Add", {"s", "bias"}, {"y"}).Output("y");
  EXPECT_TRUE(Fuse(builder).unchanged);
}

TEST(FuseGroupNorm, AnInstanceNormalizationThatScalesStopsItWithItsReason) {
  Builder builder;
  builder.Constant("twos", Tensor::Of<float>({3}, {2, 2, 2}));
  builder.Normalize("twos");
  builder.Node("Mul", {"n", "scale"}, {"s"}).Node("Add", {"s", "bias"}, {"y"}).Output("y");
  ExpectDeclined(Fuse(builder), "scales or shifts");
}

TEST(FuseGroupNorm, AValueOnTheWayThatIsAnOutputStopsIt) {
  ExpectOutputsOnTheWayStopIt({"g", "i", "n", "s"}, [](const std::string& value) {
    Builder builder;
    builder.Normalize();
    builder.Node("Mul", {"n", "scale"}, {"s"}).Node("Add", {"s", "bias"}, {"y"}).Output("y");
    builder.Output(value);
    return Fuse(builder);
  });
}

}  // namespace
}  // namespace tandem::optimizer::test
