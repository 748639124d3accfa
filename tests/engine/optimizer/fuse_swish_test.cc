#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/optimizer/pass_testing.h"

namespace tandem::optimizer::test {
namespace {

using tandem::test::GraphBuilder;
using tandem::test::Ulp;

struct Builder : GraphBuilder {
  Builder() { Input("x", DType::kFloat, {2, 5}).Input("z", DType::kFloat, {2, 5}); }
};

PassOutcome Fuse(Builder& builder) { return RunPass("fuse_swish", builder, Ulp(4)); }

const graph::Node& Only(const PassOutcome& outcome) {
  EXPECT_EQ(outcome.graph.order().size(), 1u);
  return outcome.graph.node(outcome.graph.order()[0]);
}

TEST(FuseSwish, XTimesItsSigmoidInEitherOrder) {
  for (const bool first : {false, true}) {
    Builder builder;
    builder.Node("Sigmoid", {"x"}, {"s"}, {}, "gate");
    builder.Node("Mul",
                 first ? std::vector<std::string>{"s", "x"} : std::vector<std::string>{"x", "s"},
                 {"y"}, {}, "mul");
    builder.Output("y");
    const PassOutcome outcome = Fuse(builder);
    EXPECT_EQ(Only(outcome).op_type, "Swish");
    EXPECT_EQ(Only(outcome).origin, "gate + mul");
  }
}

TEST(FuseSwish, TheSigmoidOfAScaledXKeepsTheScaleAsAlpha) {
  Builder builder;
  builder.Constant("c", Tensor::Scalar(1.702F));
  builder.Node("Mul", {"x", "c"}, {"t"}).Node("Sigmoid", {"t"}, {"s"});
  builder.Node("Mul", {"x", "s"}, {"y"}).Output("y");
  const PassOutcome outcome = Fuse(builder);
  EXPECT_EQ(Only(outcome).attributes.at("alpha").get<float>(), 1.702F);
}

TEST(FuseSwish, XTimesItsHardSigmoidIsHardSwishForTheRightSlopeOnly) {
  for (const float alpha : {1.0F / 6, 0.2F}) {
    Builder builder;
    builder.Node("HardSigmoid", {"x"}, {"s"}, {{"alpha", alpha}, {"beta", 0.5F}});
    builder.Node("Mul", {"x", "s"}, {"y"}).Output("y");
    const PassOutcome outcome = Fuse(builder);
    EXPECT_EQ(outcome.unchanged, alpha == 0.2F);
    if (outcome.unchanged) continue;
    EXPECT_EQ(Only(outcome).op_type, "HardSwish");
  }
}

TEST(FuseSwish, TheGateOfAnotherValueIsLeftAlone) {
  Builder builder;
  builder.Node("Sigmoid", {"z"}, {"s"}).Node("Mul", {"x", "s"}, {"y"}).Output("y");
  EXPECT_TRUE(Fuse(builder).unchanged);
}

TEST(FuseSwish, AGateThatIsReadElsewhereOrAnOutputStopsIt) {
  for (const bool output : {false, true}) {
    Builder builder;
    builder.Node("Sigmoid", {"x"}, {"s"}).Node("Mul", {"x", "s"}, {"y"}).Output("y");
    if (output) {
      builder.Output("s");
    } else {
      builder.Node("Add", {"s", "z"}, {"w"}, {}, "reader").Output("w");
    }
    const PassOutcome outcome = Fuse(builder);
    ASSERT_NO_FATAL_FAILURE(ExpectDeclined(outcome, "another reader"));
    EXPECT_EQ(outcome.report.declines[0].numbers,
              output ? "'s' is a graph output" : "node 'reader' (Add) reads 's'");
  }
}

TEST(FuseSwish, XMayHaveOtherReaders) {
  Builder builder;
  builder.Node("Neg", {"z"}, {"v"}).Node("Sigmoid", {"v"}, {"s"}).Node("Mul", {"v", "s"}, {"y"});
  builder.Output("y").Output("v");
  EXPECT_EQ(Fuse(builder).graph.order().size(), 2u);
}

}  // namespace
}  // namespace tandem::optimizer::test
