// Constants that only repeat a smaller one are views: they hold no bytes and cost no budget of
// folding.
#include <gtest/gtest.h>

#include "engine/optimizer/optimizer.h"
#include "tests/support/compare.h"
#include "tests/support/interpreter.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem::optimizer {
namespace {

using test::Close;
using test::Exact;
using test::GraphBuilder;
using test::RandomFloats;

// x [2, 40] through MatMul with a weight [40, 50] of ConstantOfShape and an Add of a row expanded
// to [2, 50]: 8000 and 400 bytes.
struct Network {
  GraphBuilder builder;
  graph::Graph graph;
  OptimizeReport report;

  explicit Network(const OptimizeOptions& options = {}) {
    builder.Input("x", DType::kFloat, {2, 40})
        .Constant("shape", Tensor::Of<int64_t>({2}, {40, 50}))
        .Constant("row", RandomFloats({50}, 1))
        .Constant("rows", Tensor::Of<int64_t>({2}, {2, 50}))
        .Node("ConstantOfShape", {"shape"}, {"w"},
              {{"value", builder.constants().Intern(Tensor::Of<float>({1}, {0.5f}))}})
        .Node("MatMul", {"x", "w"}, {"h"})
        .Node("Expand", {"row", "rows"}, {"bias"})
        .Node("Add", {"h", "bias"}, {"y"})
        .Output("y");
    graph = builder.Build();
    auto optimized = Optimize(graph, builder.constants(), options);
    EXPECT_TRUE(optimized.ok()) << optimized.status();
    if (optimized.ok()) report = *std::move(optimized);
  }
  graph::ConstantRef constant(std::string_view name) const {
    return graph.value(graph.FindValue(name)).constant;
  }
};

// Nothing may be folded.
OptimizeOptions NoBudget() {
  OptimizeOptions options;
  options.fold = {
      .growth_bytes = 0, .model_growth_share = 0, .model_growth_bytes = 0, .live_bytes = 0};
  return options;
}

TEST(FoldViews, ARepeatedConstantIsAViewWithoutBytes) {
  const Network network(NoBudget());
  ASSERT_NE(network.constant("w"), nullptr);
  EXPECT_TRUE(network.constant("w")->is_view());
  EXPECT_EQ(network.constant("w")->held_bytes(), sizeof(float));
  EXPECT_EQ(network.constant("w")->shape(), (Shape{40, 50}));
  EXPECT_EQ(network.report.folded.made_bytes, 0u);
  EXPECT_EQ(network.constant("bias"), nullptr) << "a small one is written out, for which there is "
                                                  "no budget here";
  const Network plain;
  EXPECT_FALSE(plain.constant("bias")->is_view());
}

TEST(FoldViews, TheNumbersAreThoseOfTheUnfoldedGraph) {
  const Tensor x = RandomFloats({2, 40}, 2);
  OptimizeOptions off;
  off.disabled_passes = {"fold_constants"};
  const auto expected = test::Interpret(Network(off).graph, {{"x", x}});
  const auto actual = test::Interpret(Network().graph, {{"x", x}});
  ASSERT_TRUE(expected.ok() && actual.ok());
  EXPECT_TRUE(Close(actual->at("y"), expected->at("y"), Exact()));
}

TEST(FoldViews, AllViewsTogetherTakeAtMostTheirBudgetOnceWrittenOut) {
  OptimizeOptions options;
  options.fold.view_bytes = 8000;
  EXPECT_NE(Network(options).constant("w"), nullptr);
  options.fold.view_bytes = 7999;
  const Network over(options);
  EXPECT_EQ(over.constant("w"), nullptr);
  ASSERT_EQ(over.report.declines.size(), 1u);
  EXPECT_EQ(over.report.declines[0].rule, "repeats a constant beyond what all such may take");
  EXPECT_EQ(over.report.declines[0].numbers, "8000 > 7999 bytes");
}

// ConstantOfShape -> Neg: 8000 bytes are written out to be read, 8000 are made and none freed.
graph::Graph Negated(GraphBuilder& builder, const OptimizeOptions& options) {
  builder.Input("x", DType::kFloat, {40, 50})
      .Constant("shape", Tensor::Of<int64_t>({2}, {40, 50}))
      .Node("ConstantOfShape", {"shape"}, {"w"})
      .Node("Neg", {"w"}, {"n"})
      .Node("Add", {"x", "n"}, {"y"})
      .Output("y");
  graph::Graph graph = builder.Build();
  EXPECT_TRUE(Optimize(graph, builder.constants(), options).ok());
  return graph;
}

TEST(FoldViews, AFoldOfAViewIsChargedWithWhatItMakesAndWritesOut) {
  const auto folds = [](const OptimizeOptions& options) {
    GraphBuilder builder;
    const graph::Graph graph = Negated(builder, options);
    return graph.value(graph.FindValue("n")).constant != nullptr;
  };
  OptimizeOptions growth;
  growth.fold.growth_bytes = 8000;
  EXPECT_TRUE(folds(growth));
  growth.fold.growth_bytes = 7999;
  EXPECT_FALSE(folds(growth));
  OptimizeOptions live;
  // The shape's 16 bytes have gone before.
  live.fold.live_bytes = 16000;
  EXPECT_TRUE(folds(live));
  live.fold.live_bytes = 15999;
  EXPECT_FALSE(folds(live));
}

TEST(FoldViews, OneElementRepeatsUnderAnyShape) {
  GraphBuilder builder;
  builder.Input("x", DType::kFloat, {2000})
      .Constant("shape", Tensor::Of<int64_t>({2}, {40, 50}))
      .Constant("flat", Tensor::Of<int64_t>({1}, {-1}))
      .Constant("more", Tensor::Of<int64_t>({2}, {3, 2000}))
      .Node("ConstantOfShape", {"shape"}, {"w"})
      .Node("Reshape", {"w", "flat"}, {"r"})
      .Node("Expand", {"r", "more"}, {"e"})
      .Node("Add", {"x", "e"}, {"y"})
      .Output("y");
  graph::Graph graph = builder.Build();
  ASSERT_TRUE(Optimize(graph, builder.constants(), NoBudget()).ok());
  const graph::ConstantRef e = graph.value(graph.FindValue("e")).constant;
  ASSERT_NE(e, nullptr);
  EXPECT_EQ(e->held_bytes(), sizeof(float));
  EXPECT_EQ(e->shape(), (Shape{3, 2000}));
}

}  // namespace
}  // namespace tandem::optimizer
