#include <gtest/gtest.h>

#include "tests/engine/optimizer/pass_testing.h"

namespace tandem::optimizer::test {
namespace {

using tandem::test::GraphBuilder;
using tandem::test::OfScale;

struct Builder : GraphBuilder {
  Builder() {
    Input("x", DType::kFloat, {3, 5}).Input("z", DType::kFloat, {3, 5});
    Constant("half", Tensor::Scalar(0.5F)).Constant("one", Tensor::Scalar(1.0F));
    Constant("two", Tensor::Scalar(2.0F)).Constant("three", Tensor::Scalar(3.0F));
    Constant("sqrt2", Tensor::Scalar(1.4142135F));
    Constant("cubic", Tensor::Scalar(0.044715F)).Constant("slope", Tensor::Scalar(0.7978846F));
  }
  // a = 1 + erf(x / sqrt(2)).
  void ErfGate() {
    Node("Div", {"x", "sqrt2"}, {"t"}).Node("Erf", {"t"}, {"e"}).Node("Add", {"e", "one"}, {"a"});
  }
};

// Written out, the formula cancels near -3: the error is of the scale, not of each element.
PassOutcome Fuse(Builder& builder) { return RunPass("fuse_gelu", builder, OfScale(1e-6)); }

void ExpectFused(Builder& builder, const std::string& form) {
  const PassOutcome outcome = Fuse(builder);
  ASSERT_EQ(outcome.graph.order().size(), 1u);
  const graph::Node& node = outcome.graph.node(outcome.graph.order()[0]);
  EXPECT_EQ(node.op_type, "Gelu");
  EXPECT_EQ(node.attributes.at("approximate").get<std::string>(), form);
}

TEST(FuseGelu, TheErrorFunctionsFormWithItsFactorsInAnyOrder) {
  const std::vector<std::vector<std::vector<std::string>>> products = {
      {{"x", "a", "m"}, {"m", "half", "y"}}, {{"a", "x", "m"}, {"half", "m", "y"}},
      {{"x", "half", "m"}, {"m", "a", "y"}}, {{"half", "a", "m"}, {"x", "m", "y"}},
      {{"a", "half", "m"}, {"m", "x", "y"}},
  };
  for (const auto& product : products) {
    Builder builder;
    builder.ErfGate();
    for (const auto& mul : product) builder.Node("Mul", {mul[0], mul[1]}, {mul[2]});
    builder.Output("y");
    ExpectFused(builder, "none");
  }
}

TEST(FuseGelu, ADivisionByTwoIsAHalf) {
  Builder builder;
  builder.ErfGate();
  builder.Node("Mul", {"x", "a"}, {"m"}).Node("Div", {"m", "two"}, {"y"}).Output("y");
  ExpectFused(builder, "none");
}

TEST(FuseGelu, TheTanhFormWithItsPowersInAnyWriting) {
  for (const int writing : {0, 1, 2}) {
    Builder builder;
    if (writing == 0) {
      builder.Node("Pow", {"x", "three"}, {"p"}).Node("Mul", {"p", "cubic"}, {"q"});
      builder.Node("Add", {"x", "q"}, {"r"}).Node("Mul", {"r", "slope"}, {"t"});
    } else if (writing == 1) {
      builder.Node("Mul", {"x", "x"}, {"p"}).Node("Mul", {"p", "x"}, {"p3"});
      builder.Node("Mul", {"cubic", "p3"}, {"q"});
      builder.Node("Add", {"q", "x"}, {"r"}).Node("Mul", {"slope", "r"}, {"t"});
    } else {
      builder.Node("Pow", {"x", "two"}, {"p"}).Node("Mul", {"p", "cubic"}, {"q"});
      builder.Node("Add", {"one", "q"}, {"r"}).Node("Mul", {"x", "slope"}, {"u"});
      builder.Node("Mul", {"u", "r"}, {"t"});
    }
    builder.Node("Tanh", {"t"}, {"e"}).Node("Add", {"e", "one"}, {"a"});
    builder.Node("Mul", {"x", "a"}, {"m"}).Node("Mul", {"m", "half"}, {"y"}).Output("y");
    ExpectFused(builder, "tanh");
  }
}

TEST(FuseGelu, OtherScalarsStopIt) {
  for (const std::string slope : {"two", "one"}) {
    Builder builder;
    builder.Node("Div", {"x", slope}, {"t"}).Node("Erf", {"t"}, {"e"});
    builder.Node("Add", {"e", "one"}, {"a"}).Node("Mul", {"x", "a"}, {"m"});
    builder.Node("Mul", {"m", "half"}, {"y"}).Output("y");
    EXPECT_TRUE(Fuse(builder).unchanged) << slope;
  }
  Builder builder;
  builder.ErfGate();
  builder.Node("Mul", {"x", "a"}, {"m"}).Node("Mul", {"m", "two"}, {"y"}).Output("y");
  EXPECT_TRUE(Fuse(builder).unchanged);
}

TEST(FuseGelu, TheGateOfAnotherValueStopsIt) {
  Builder builder;
  builder.ErfGate();
  builder.Node("Mul", {"z", "a"}, {"m"}).Node("Mul", {"m", "half"}, {"y"}).Output("y");
  EXPECT_TRUE(Fuse(builder).unchanged);
}

TEST(FuseGelu, AValueOnTheWayThatIsAnOutputStopsIt) {
  ExpectOutputsOnTheWayStopIt({"t", "e", "a"}, [](const std::string& value) {
    Builder builder;
    builder.ErfGate();
    builder.Node("Mul", {"x", "a"}, {"m"}).Node("Mul", {"m", "half"}, {"y"}).Output("y");
    builder.Output(value);
    return Fuse(builder);
  });
}

}  // namespace
}  // namespace tandem::optimizer::test
