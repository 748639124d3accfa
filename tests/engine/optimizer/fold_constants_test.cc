#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/dump.h"
#include "tests/engine/optimizer/toy_ops.h"
#include "tests/support/compare.h"
#include "tests/support/interpreter.h"
#include "tests/support/random_tensor.h"

namespace tandem::optimizer::test {
namespace {

using tandem::test::Close;
using tandem::test::Exact;
using tandem::test::Interpret;
using tandem::test::RandomFloats;
using testing::HasSubstr;

// c -> Double (grown) -> h ; Add(x, h) -> y. `h` has `elements` elements.
struct OneFold : ToyGraph {
  graph::ValueId c, h, y;
  explicit OneFold(int64_t elements = 4, const ToyBehaviour& behaviour = Double(),
                   const std::string& op = "Double")
      : ToyGraph({elements}) {
    c = Constant("c", RandomFloats({elements / behaviour.grows}, 1));
    h = Node(op, {c}, "h", behaviour);
    y = Node("Add", {Input("x"), h}, "y", Residual());
    Output(y);
  }
  bool folds(const OptimizeOptions& options = {}) {
    const auto report = Optimize(graph, constants, options);
    EXPECT_TRUE(report.ok()) << Message(report.status());
    declines = report->declines;
    return graph.value(h).constant != nullptr;
  }
  std::vector<Decline> declines;
};

TEST(FoldConstants, AChainFoldsInOneSweepAndItsSourcesAreFreed) {
  ToyGraph toy;
  graph::ValueId last = toy.Constant("c", Tensor::Of<float>({4}, {1, 2, 3, 4}));
  for (int i = 0; i < 10; ++i) last = toy.Node("Double", {last}, "h", Double());
  toy.Output(toy.Node("Add", {toy.Input("x"), last}, "y", Residual()));
  const auto report = Optimize(toy.graph, toy.constants, {});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->folded.nodes.size(), 10u);
  EXPECT_EQ(report->folded.made_bytes, 160u);
  EXPECT_EQ(toy.graph.order().size(), 1u);
  EXPECT_EQ(toy.constants.stats().bytes, 16u);
  const Tensor folded = toy.graph.value(last).constant->tensor();
  EXPECT_TRUE(Close(folded, Tensor::Of<float>({4}, {1024, 2048, 3072, 4096}), Exact()));
}

TEST(FoldConstants, AFoldedGraphOutputIsReturnedUnderItsName) {
  ToyGraph toy;
  toy.Output(
      toy.Node("Double", {toy.Constant("c", Tensor::Of<float>({4}, {1, 2, 3, 4}))}, "y", Double()));
  const auto before = Interpret(toy.graph, {});
  ASSERT_TRUE(Optimize(toy.graph, toy.constants, {}).ok());
  EXPECT_TRUE(toy.graph.order().empty());
  const auto after = Interpret(toy.graph, {});
  ASSERT_TRUE(before.ok() && after.ok());
  ASSERT_EQ(after->size(), 1u);
  EXPECT_TRUE(Close(after->at("y"), before->at("y"), Exact()));
}

TEST(FoldConstants, EveryReadOutputOfANodeFoldsAndUnreadOnesVanish) {
  ToyBehaviour two = Double();
  two.outputs = 3;
  ToyGraph toy;
  const graph::ValueId h =
      toy.Node("Split", {toy.Constant("c", Tensor::Of<float>({4}, {1, 2, 3, 4}))}, "h", two);
  toy.Output(toy.Node("Add", {toy.Input("x"), h}, "y", Residual()));
  toy.Output(toy.graph.FindValue("h2"));
  ASSERT_TRUE(Optimize(toy.graph, toy.constants, {}).ok());
  EXPECT_NE(toy.graph.value(h).constant, nullptr);
  EXPECT_EQ(toy.graph.value(toy.graph.FindValue("h1")).constant, nullptr);
  const auto outputs = Interpret(toy.graph, {{"x", Tensor::Of<float>({4}, {0, 0, 0, 0})}});
  ASSERT_TRUE(outputs.ok());
  EXPECT_TRUE(Close(outputs->at("h2"), Tensor::Of<float>({4}, {2, 4, 6, 8}), Exact()));
}

TEST(FoldConstants, ANodeWhoseResultDiffersFromRunToRunStays) {
  ToyBehaviour random = Double();
  random.traits.deterministic = false;
  OneFold fold(4, random, "RandomNormalLike");
  const std::string before = graph::Dump(fold.graph);
  EXPECT_FALSE(fold.folds());
  EXPECT_EQ(graph::Dump(fold.graph), before);
  ASSERT_EQ(fold.declines.size(), 1u);
  EXPECT_EQ(fold.declines[0].rule, "its result differs from run to run");
  EXPECT_THAT(fold.declines[0].node, HasSubstr("node_h"));
}

TEST(FoldConstants, AQuantisedWeightStays) {
  OneFold fold(4, Double(), "DequantizeLinear");
  EXPECT_FALSE(fold.folds());
  ASSERT_EQ(fold.declines.size(), 1u);
  EXPECT_THAT(fold.declines[0].rule, HasSubstr("quantised"));
}

TEST(FoldConstants, ABodyOfControlFlowStays) {
  OneFold fold;
  fold.graph.mutable_node(fold.graph.value(fold.h).def).attributes["body"] =
      std::make_shared<const graph::Graph>();
  EXPECT_FALSE(fold.folds());
  ASSERT_EQ(fold.declines.size(), 1u);
  EXPECT_THAT(fold.declines[0].rule, HasSubstr("control flow"));
}

TEST(FoldConstants, AnInputWithADefaultFoldsUnlessRequestsMayOverrideIt) {
  OneFold fixed;
  fixed.graph.MarkInput(fixed.c);
  EXPECT_TRUE(fixed.folds());
  EXPECT_NE(fixed.graph.value(fixed.c).constant, nullptr) << "an input keeps its default";
  OneFold open;
  open.graph.MarkInput(open.c);
  OptimizeOptions options;
  options.defaults = graph::TakeDefaults(open.graph);
  EXPECT_FALSE(open.folds(options));
  ASSERT_EQ(open.declines.size(), 1u);
  EXPECT_THAT(open.declines[0].rule, HasSubstr("replace"));
  EXPECT_THAT(open.declines[0].numbers, HasSubstr("'c'"));
}

// Four floats become 16: 64 bytes made, 16 freed.
ToyBehaviour Growing() {
  ToyBehaviour behaviour = Double();
  behaviour.grows = 4;
  return behaviour;
}

TEST(FoldConstants, OneFoldMakesAtMostItsGrowthBudget) {
  OptimizeOptions options;
  options.fold.growth_bytes = 64;
  EXPECT_TRUE(OneFold(16, Growing()).folds(options));
  options.fold.growth_bytes = 63;
  OneFold over(16, Growing());
  EXPECT_FALSE(over.folds(options));
  ASSERT_EQ(over.declines.size(), 1u);
  EXPECT_EQ(over.declines[0].numbers, "64 > 63 bytes, grows 4.0x");
}

TEST(FoldConstants, OneFoldMayAlwaysMakeWhatItFrees) {
  OptimizeOptions options;
  options.fold.growth_bytes = 0;
  EXPECT_TRUE(OneFold(16).folds(options));
  OneFold shared(16);
  shared.Output(shared.c);  // now the source stays
  EXPECT_FALSE(shared.folds(options));
}

TEST(FoldConstants, TheModelGrowsAtMostByItsBudget) {
  OptimizeOptions options;
  options.fold.model_growth_share = 0.5;  // of 16 bytes
  options.fold.model_growth_bytes = 40;
  EXPECT_TRUE(OneFold(16, Growing()).folds(options));
  options.fold.model_growth_bytes = 39;
  OneFold over(16, Growing());
  EXPECT_FALSE(over.folds(options));
  EXPECT_EQ(over.declines.at(0).numbers, "48 > 47 bytes");
}

TEST(FoldConstants, WhatIsAliveWhileFoldingIsBounded) {
  OptimizeOptions options;
  options.fold.live_bytes = 64;
  EXPECT_TRUE(OneFold(16, Growing()).folds(options));
  options.fold.live_bytes = 63;
  OneFold over(16, Growing());
  EXPECT_FALSE(over.folds(options));
  EXPECT_EQ(over.declines.at(0).numbers, "64 > 63 bytes");
}

TEST(FoldConstants, TheWorkOfFoldingIsBounded) {
  OptimizeOptions options;
  options.fold.elements = 16;  // 4 read, 16 written
  EXPECT_TRUE(OneFold(16, Growing()).folds(options));
  options.fold.elements = 15;
  OneFold over(16, Growing());
  EXPECT_FALSE(over.folds(options));
  EXPECT_EQ(over.declines.at(0).numbers, "16 > 15 elements");
  ToyBehaviour heavy = Growing();
  heavy.multiply_adds = 17;
  options.fold.elements = 16;
  EXPECT_FALSE(OneFold(16, heavy).folds(options));
}

}  // namespace
}  // namespace tandem::optimizer::test
