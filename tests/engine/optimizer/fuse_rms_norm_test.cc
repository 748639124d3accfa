#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/optimizer/pass_testing.h"
#include "tests/support/random_tensor.h"

namespace tandem::optimizer::test {
namespace {

using tandem::test::GraphBuilder;
using tandem::test::RandomFloats;
using tandem::test::Reduction;
using testing::HasSubstr;
using Ints = std::vector<int64_t>;
using Names = std::vector<std::string>;

// Input x [2, 3, 7]; scale of the last axis.
struct Builder : GraphBuilder {
  Builder() : GraphBuilder(13) {
    Input("x", DType::kFloat, {2, 3, 7});
    Constant("scale", RandomFloats({7}, 1, 0.5F, 2)).Constant("one", Tensor::Scalar(1.0F));
    Constant("two", Tensor::Scalar(2.0F)).Constant("epsilon", Tensor::Scalar(1e-3F));
  }
  // r = sqrt(mean(x^2) + epsilon)
  void Root(Ints axes = {-1}) {
    Node("Pow", {"x", "two"}, {"p"}).Node("ReduceMean", {"p"}, {"m"}, {{"axes", std::move(axes)}});
    Node("Add", {"m", "epsilon"}, {"w"}).Node("Sqrt", {"w"}, {"r"});
  }
};

PassOutcome Fuse(Builder& builder) { return RunPass("fuse_rms_norm", builder, Reduction(21)); }

void ExpectFused(Builder& builder, int64_t axis) {
  const PassOutcome outcome = Fuse(builder);
  ASSERT_EQ(outcome.graph.order().size(), 1u);
  const graph::Node& node = outcome.graph.node(outcome.graph.order()[0]);
  EXPECT_EQ(node.op_type, "RMSNormalization");
  EXPECT_EQ(node.attributes.at("axis").get<int64_t>(), axis);
  EXPECT_EQ(node.attributes.at("epsilon").get<float>(), 1e-3F);
}

TEST(FuseRmsNorm, ADivisionByTheRoot) {
  Builder builder;
  builder.Root();
  builder.Node("Div", {"x", "r"}, {"n"}).Node("Mul", {"n", "scale"}, {"y"}).Output("y");
  ExpectFused(builder, -1);
}

TEST(FuseRmsNorm, AProductWithTheReciprocalInAnyOrder) {
  for (const bool swapped : {false, true}) {
    Builder builder;
    builder.Root();
    builder.Node("Reciprocal", {"r"}, {"i"});
    builder.Node("Mul", swapped ? Names{"i", "x"} : Names{"x", "i"}, {"n"});
    builder.Node("Mul", swapped ? Names{"scale", "n"} : Names{"n", "scale"}, {"y"}).Output("y");
    ExpectFused(builder, -1);
  }
}

TEST(FuseRmsNorm, AProductWithOneOverTheRoot) {
  Builder builder;
  builder.Root();
  builder.Node("Div", {"one", "r"}, {"i"}).Node("Mul", {"x", "i"}, {"n"});
  builder.Node("Mul", {"scale", "n"}, {"y"}).Output("y");
  ExpectFused(builder, -1);
}

TEST(FuseRmsNorm, SeveralAxesAndASquareAsAProduct) {
  Builder builder;
  builder.Constant("scale2", RandomFloats({3, 7}, 1));
  builder.Node("Mul", {"x", "x"}, {"p"}).Node("ReduceMean", {"p"}, {"m"}, {{"axes", Ints{2, 1}}});
  builder.Node("Add", {"epsilon", "m"}, {"w"}).Node("Sqrt", {"w"}, {"r"});
  builder.Node("Div", {"x", "r"}, {"n"}).Node("Mul", {"n", "scale2"}, {"y"}).Output("y");
  ExpectFused(builder, -2);
}

TEST(FuseRmsNorm, TheSquareOfAnotherValueStopsIt) {
  Builder builder;
  builder.Input("z", DType::kFloat, {2, 3, 7});
  builder.Root();
  builder.Node("Div", {"z", "r"}, {"n"}).Node("Mul", {"n", "scale"}, {"y"}).Output("y");
  EXPECT_TRUE(Fuse(builder).unchanged);
}

TEST(FuseRmsNorm, AxesThatAreNotTheLastOnesStopIt) {
  Builder builder;
  builder.Root({1});
  builder.Node("Div", {"x", "r"}, {"n"}).Node("Mul", {"n", "scale"}, {"y"}).Output("y");
  EXPECT_TRUE(Fuse(builder).unchanged);
}

TEST(FuseRmsNorm, AnotherNumeratorThanOneStopsIt) {
  Builder builder;
  builder.Root();
  builder.Node("Div", {"two", "r"}, {"i"}).Node("Mul", {"x", "i"}, {"n"});
  builder.Node("Mul", {"scale", "n"}, {"y"}).Output("y");
  EXPECT_TRUE(Fuse(builder).unchanged);
}

TEST(FuseRmsNorm, AScaleOfAnotherAxisStopsItWithItsReason) {
  Builder builder;
  builder.Constant("column", RandomFloats({3, 1}, 5));
  builder.Root();
  builder.Node("Div", {"x", "r"}, {"n"}).Node("Mul", {"n", "column"}, {"y"}).Output("y");
  const PassOutcome outcome = Fuse(builder);
  ASSERT_NO_FATAL_FAILURE(ExpectDeclined(outcome, "extents of the normalized axes"));
  EXPECT_THAT(outcome.report.declines[0].numbers, HasSubstr("'column' has [3,1]"));
}

TEST(FuseRmsNorm, AValueOnTheWayThatIsAnOutputStopsIt) {
  ExpectOutputsOnTheWayStopIt({"p", "m", "w", "r", "n"}, [](const std::string& value) {
    Builder builder;
    builder.Root();
    builder.Node("Div", {"x", "r"}, {"n"}).Node("Mul", {"n", "scale"}, {"y"}).Output("y");
    builder.Output(value);
    return Fuse(builder);
  });
}

}  // namespace
}  // namespace tandem::optimizer::test
