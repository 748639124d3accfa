#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/optimizer/pass_testing.h"
#include "tests/support/compare.h"
#include "tests/support/interpreter.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_bytes.h"
#include "tests/support/random_tensor.h"

namespace tandem::optimizer::test {
namespace {

using tandem::test::GraphBuilder;
using tandem::test::RandomFloats;
using tandem::test::Reduction;
using testing::HasSubstr;

constexpr int64_t kIn = 3;
constexpr int64_t kOut = 5;

// Input x [2,3,6,7], weight W [5,3,3,3], bias B [5], parameters of two normalizations.
struct Builder : GraphBuilder {
  Builder() {
    Input("x", DType::kFloat, {2, kIn, 6, 7});
    Constant("W", RandomFloats({kOut, kIn, 3, 3}, 1));
    Constant("B", RandomFloats({kOut}, 2));
    for (const std::string n : {"a", "b"}) {
      const uint32_t seed = n == "a" ? 10 : 20;
      Constant(n + "_scale", RandomFloats({kOut}, seed, 0.5, 2));
      Constant(n + "_bias", RandomFloats({kOut}, seed + 1));
      Constant(n + "_mean", RandomFloats({kOut}, seed + 2));
      Constant(n + "_var", RandomFloats({kOut}, seed + 3, 0.1F, 2));
    }
  }
  void Norm(const std::string& n, const std::string& from, const std::string& to) {
    Node("BatchNormalization", {from, n + "_scale", n + "_bias", n + "_mean", n + "_var"}, {to},
         {{"epsilon", 0.01F}}, "norm_" + n);
  }
};

PassOutcome OptimizeAndCompare(GraphBuilder& builder, OptimizeOptions options = {}) {
  return RunPass("fold_batch_norm", builder, Reduction(kIn * 9), std::move(options));
}

TEST(FoldBatchNorm, TheNormalizationGoesIntoTheConvolution) {
  for (const bool with_bias : {false, true}) {
    Builder builder;
    const std::vector<std::string> inputs =
        with_bias ? std::vector<std::string>{"x", "W", "B"} : std::vector<std::string>{"x", "W"};
    builder.Node("Conv", inputs, {"h"}, {}, "conv");
    builder.Norm("a", "h", "y");
    builder.Output("y");
    const PassOutcome result = OptimizeAndCompare(builder);
    ASSERT_EQ(result.graph.order().size(), 1u);
    EXPECT_EQ(result.graph.node(result.graph.order()[0]).origin, "conv + norm_a");
    EXPECT_EQ(result.report.folded.nodes.size(), 1u);
  }
}

TEST(FoldBatchNorm, GroupsScaleTheirOwnChannels) {
  Builder builder;
  builder.Input("z", DType::kFloat, {1, kOut, 5, 5});
  builder.Constant("D", RandomFloats({kOut, 1, 3, 3}, 5));
  builder.Node("Conv", {"z", "D"}, {"h"}, {{"group", int64_t{kOut}}});
  builder.Norm("a", "h", "y");
  builder.Output("y");
  EXPECT_EQ(OptimizeAndCompare(builder).graph.order().size(), 1u);
}

TEST(FoldBatchNorm, AWeightOfTwoConvolutionsIsScaledForEachByItself) {
  Builder builder;
  builder.Node("Conv", {"x", "W", "B"}, {"h"}).Node("Conv", {"x", "W", "B"}, {"i"});
  builder.Norm("a", "h", "y");
  builder.Norm("b", "i", "z");
  builder.Output("y").Output("z");
  EXPECT_EQ(OptimizeAndCompare(builder).graph.order().size(), 2u);
}

// Its scales take the factors, of which there is one for each channel then.
TEST(FoldBatchNorm, AQuantisedWeightStaysInItsBytes) {
  for (const int64_t scales : {int64_t{1}, kOut}) {
    Builder builder;
    StridedTensor weight =
        StridedTensor::Of(tandem::test::RandomBytes<uint8_t>({kOut, kIn, 3, 3}, 5));
    weight.dtype = DType::kFloat;
    Quantised quantised;
    for (int64_t i = 0; i < scales; ++i) {
      quantised.scales.push_back(0.01F * static_cast<float>(1 + i));
      quantised.zero_points.push_back(static_cast<float>(3 - i));
    }
    weight.quantised = std::make_shared<const Quantised>(quantised);
    builder.Node("Conv", {"x", "W", "B"}, {"h"}, {}, "conv");
    builder.Norm("a", "h", "y");
    builder.Output("y");
    graph::Graph graph = builder.Build();
    graph.SetConstant(graph.FindValue("W"), builder.constants().InternView(weight));
    const Tensor x = RandomFloats({2, kIn, 6, 7}, 6);
    const auto expected = tandem::test::Interpret(graph, {{"x", x}});
    OptimizeOptions options;
    for (const std::string& pass : PassNames()) {
      if (pass != "fold_batch_norm") options.disabled_passes.insert(pass);
    }
    ASSERT_TRUE(Optimize(graph, builder.constants(), options).ok());
    ASSERT_EQ(graph.order().size(), 1u);
    const auto actual = tandem::test::Interpret(graph, {{"x", x}});
    ASSERT_TRUE(expected.ok() && actual.ok());
    EXPECT_TRUE(Close(actual->at("y"), expected->at("y"), Reduction(kIn * 9)));
    const graph::ConstantRef folded = graph.value(graph.node(graph.order()[0]).inputs[1]).constant;
    EXPECT_EQ(folded->held().dtype(), DType::kUint8);
    EXPECT_EQ(folded->strided().quantised->scales.size(), size_t{kOut});
  }
}

TEST(FoldBatchNorm, ScalesOfInputChannelsStopIt) {
  Builder builder;
  StridedTensor weight = StridedTensor::Of(tandem::test::RandomBytes<int8_t>({kOut, kIn, 3, 3}, 5));
  weight.dtype = DType::kFloat;
  weight.quantised = std::make_shared<const Quantised>(
      Quantised{.scales = {0.1F, 0.2F, 0.3F}, .zero_points = {0, 0, 0}});
  weight.quantised_axis = 1;
  builder.Node("Conv", {"x", "W", "B"}, {"h"}, {}, "conv");
  builder.Norm("a", "h", "y");
  builder.Output("y");
  graph::Graph graph = builder.Build();
  graph.SetConstant(graph.FindValue("W"), builder.constants().InternView(weight));
  OptimizeOptions options;
  for (const std::string& pass : PassNames()) {
    if (pass != "fold_batch_norm") options.disabled_passes.insert(pass);
  }
  const auto report = Optimize(graph, builder.constants(), options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(graph.order().size(), 2u);
  ASSERT_EQ(report->declines.size(), 1u);
  EXPECT_EQ(report->declines[0].rule,
            "the scales of the quantised weight are not those of output channels");
}

TEST(FoldBatchNorm, AWeightThatIsAGraphOutputStaysWhatItIs) {
  Builder builder;
  builder.Node("Conv", {"x", "W"}, {"h"});
  builder.Norm("a", "h", "y");
  builder.Output("y").Output("W");
  EXPECT_EQ(OptimizeAndCompare(builder).graph.order().size(), 1u);
}

TEST(FoldBatchNorm, AResultThatIsAGraphOutputStopsIt) {
  Builder builder;
  builder.Node("Conv", {"x", "W"}, {"h"});
  builder.Norm("a", "h", "y");
  builder.Output("y").Output("h");
  const PassOutcome result = OptimizeAndCompare(builder);
  EXPECT_TRUE(result.unchanged);
  ASSERT_EQ(result.report.declines.size(), 1u);
  EXPECT_THAT(result.report.declines[0].rule, HasSubstr("another reader: 'h' is a graph output"));
}

TEST(FoldBatchNorm, ASecondReaderStopsIt) {
  Builder builder;
  builder.Node("Conv", {"x", "W"}, {"h"});
  builder.Norm("a", "h", "y");
  builder.Norm("b", "h", "z");
  builder.Output("y").Output("z");
  EXPECT_TRUE(OptimizeAndCompare(builder).unchanged);
}

TEST(FoldBatchNorm, ConstantsThatAreNoneStopIt) {
  for (const std::string name : {"W", "B", "a_scale", "a_var"}) {
    Builder builder;
    builder.Input("given", DType::kFloat,
                  name == "W" ? graph::DimVector{kOut, kIn, 3, 3} : graph::DimVector{kOut});
    const auto pick = [&](const std::string& wanted) { return wanted == name ? "given" : wanted; };
    builder.Node("Conv", {"x", pick("W"), pick("B")}, {"h"});
    // A run-time variance must not be negative: the square of the input is not at hand, a shift is.
    builder.Node("BatchNormalization", {"h", pick("a_scale"), "a_bias", "a_mean", pick("a_var")},
                 {"y"}, {{"epsilon", 2.0F}});
    builder.Output("y");
    const PassOutcome result = OptimizeAndCompare(builder);
    EXPECT_TRUE(result.unchanged) << name;
    ASSERT_EQ(result.report.declines.size(), 1u);
    EXPECT_THAT(result.report.declines[0].rule, HasSubstr("constant")) << name;
  }
}

TEST(FoldBatchNorm, TheBudgetOfFoldingHolds) {
  for (const size_t below : {size_t{0}, size_t{1}}) {
    Builder builder;
    builder.Node("Conv", {"x", "W"}, {"h"});
    builder.Norm("a", "h", "y");
    builder.Output("y").Output("W");  // the source is not freed
    OptimizeOptions options;
    options.fold.growth_bytes = (kOut * kIn * 9 + kOut) * sizeof(float) - below;
    const PassOutcome result = OptimizeAndCompare(builder, options);
    EXPECT_EQ(result.unchanged, below == 1);
    if (below == 0) continue;
    ASSERT_EQ(result.report.declines.size(), 1u);
    EXPECT_EQ(result.report.declines[0].numbers, "560 > 559 bytes, grows 7.0x");
  }
}

// A new bias is made for the parameters that go, however small the growth that is left.
TEST(FoldBatchNorm, TheParametersThatGoMakeRoomForTheBias) {
  Builder builder;
  builder.Node("Conv", {"x", "W"}, {"h"});
  builder.Norm("a", "h", "y");
  builder.Output("y");
  OptimizeOptions options;
  options.fold.growth_bytes = 0;
  options.fold.model_growth_share = 0;
  options.fold.model_growth_bytes = 0;
  EXPECT_EQ(OptimizeAndCompare(builder, options).graph.order().size(), 1u);
}

}  // namespace
}  // namespace tandem::optimizer::test
