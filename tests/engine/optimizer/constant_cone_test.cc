// Folds of several nodes at once: what is too large to keep on the way is made and used up at load.
#include "engine/optimizer/constant_cone.h"

#include <gtest/gtest.h>

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

// delta = down[8,2] up[2,8]; w = weight[8,8] + delta; y = x w. One fold may make what it frees: the
// product alone makes 256 bytes of 128.
struct LowRank : GraphBuilder {
  LowRank() {
    Input("x", DType::kFloat, {3, 8})
        .Constant("down", RandomFloats({8, 2}, 1))
        .Constant("up", RandomFloats({2, 8}, 2))
        .Constant("weight", RandomFloats({8, 8}, 3))
        .Node("MatMul", {"down", "up"}, {"delta"})
        .Node("Add", {"weight", "delta"}, {"w"})
        .Node("MatMul", {"x", "w"}, {"y"})
        .Output("y");
  }
};

OptimizeOptions NoGrowth() {
  OptimizeOptions options;
  options.fold.growth_bytes = 0;
  options.fold.model_growth_share = 0;
  options.fold.model_growth_bytes = 0;
  options.isa = DetectIsa();
  // Which would make one node of some cones.
  options.disabled_passes = {"fuse_epilogue"};
  return options;
}

struct Result {
  graph::Graph graph;
  OptimizeReport report;

  bool folds(std::string_view name) const {
    const graph::ValueId id = graph.FindValue(name);
    return id != graph::kNoValue && graph.value(id).constant != nullptr;
  }
};

Result Optimized(GraphBuilder& builder, const OptimizeOptions& options) {
  Result result;
  result.graph = builder.Build();
  auto report = Optimize(result.graph, builder.constants(), options);
  EXPECT_TRUE(report.ok()) << report.status();
  if (report.ok()) result.report = *std::move(report);
  return result;
}

TEST(ConstantCone, AProductThatIsAddedToItsWeightFoldsWithTheSum) {
  LowRank builder;
  const Result result = Optimized(builder, NoGrowth());
  EXPECT_TRUE(result.folds("w"));
  EXPECT_EQ(result.graph.order().size(), 1u) << "the product has gone, too";
  EXPECT_TRUE(result.report.declines.empty());
  EXPECT_EQ(result.report.folded.nodes.size(), 2u);
  EXPECT_EQ(result.report.folded.made_bytes, 256u);
  EXPECT_EQ(result.report.folded.freed_bytes, 256u + 128u);
  LowRank plain;
  const Tensor x = RandomFloats({3, 8}, 4);
  const auto expected = test::Interpret(plain.Build(), {{"x", x}});
  const auto actual = test::Interpret(result.graph, {{"x", x}});
  ASSERT_TRUE(expected.ok() && actual.ok());
  EXPECT_TRUE(Close(actual->at("y"), expected->at("y"), Exact()));
}

TEST(ConstantCone, WhatIsAliveOnTheWayIsBounded) {
  OptimizeOptions options = NoGrowth();
  options.fold.live_bytes = 512;  // the product and the sum
  LowRank builder;
  EXPECT_TRUE(Optimized(builder, options).folds("w"));
  options.fold.live_bytes = 511;
  LowRank over;
  EXPECT_FALSE(Optimized(over, options).folds("w"));
}

TEST(ConstantCone, TheWorkOfAllItsNodesIsBounded) {
  OptimizeOptions options = NoGrowth();
  options.fold.elements = 128 + 128;  // 8 * 8 * 2 multiply-adds, 128 elements read
  LowRank builder;
  EXPECT_TRUE(Optimized(builder, options).folds("w"));
  options.fold.elements = 255;
  LowRank over;
  const Result declined = Optimized(over, options);
  EXPECT_FALSE(declined.folds("w"));
  ASSERT_EQ(declined.report.declines.size(), 1u) << "the first reason is the one that counts";
  EXPECT_EQ(declined.report.declines[0].rule,
            "makes more than it frees and more than one fold may");
  EXPECT_EQ(declined.report.declines[0].numbers, "256 > 128 bytes, grows 2.0x");
}

TEST(ConstantCone, ANodeThatOthersReadStaysAndKeepsItsSources) {
  LowRank builder;
  builder.Output("delta");
  const Result result = Optimized(builder, NoGrowth());
  EXPECT_TRUE(result.folds("w"));
  EXPECT_FALSE(result.folds("delta"));
  EXPECT_EQ(result.report.folded.freed_bytes, 256u) << "the weight alone";
  EXPECT_EQ(result.graph.order().size(), 2u);
  LowRank shared;
  shared.Output("delta").Output("weight");
  EXPECT_FALSE(Optimized(shared, NoGrowth()).folds("w")) << "nothing is freed";
}

TEST(ConstantCone, AChainThatIsTooLongStays) {
  for (const int links : {14, 15}) {
    GraphBuilder builder;
    builder.Input("x", DType::kFloat, {8, 8})
        .Constant("down", RandomFloats({8, 2}, 1))
        .Constant("up", RandomFloats({2, 8}, 2))
        .Node("MatMul", {"down", "up"}, {"h0"});
    for (int i = 0; i < links; ++i) {
      builder.Node("Neg", {"h" + std::to_string(i)}, {"h" + std::to_string(i + 1)});
    }
    builder.Node("ReduceSum", {"h" + std::to_string(links)}, {"sum"})
        .Node("Add", {"x", "sum"}, {"y"})
        .Output("y");
    EXPECT_EQ(Optimized(builder, NoGrowth()).folds("sum"), links == 14);
  }
}

}  // namespace
}  // namespace tandem::optimizer
