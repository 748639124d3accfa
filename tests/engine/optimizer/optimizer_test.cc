// The optimizer with the operators that the engine has: networks before and after, all passes.
#include "engine/optimizer/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/dump.h"
#include "tests/support/compare.h"
#include "tests/support/interpreter.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem::optimizer::test {
namespace {

using tandem::test::Close;
using tandem::test::GraphBuilder;
using tandem::test::Interpret;
using tandem::test::RandomFloats;
using tandem::test::Reduction;

// Values of the inputs, random and reproducible.
tandem::test::NamedTensors InputsOf(const graph::Graph& graph) {
  tandem::test::NamedTensors inputs;
  for (const graph::ValueId id : graph.inputs()) {
    const graph::Value& value = graph.value(id);
    inputs[value.name] = RandomFloats(*graph::ToShape(*value.type.dims), 9);
  }
  return inputs;
}

// Optimizes and checks that the outputs keep names and values; sums have at most `k` terms.
graph::Graph Optimized(GraphBuilder& builder, int64_t k, const OptimizeOptions& options = {}) {
  graph::Graph graph = builder.Build();
  const auto before = Interpret(graph, InputsOf(graph));
  const auto report = Optimize(graph, builder.constants(), options);
  EXPECT_TRUE(report.ok()) << Message(report.status());
  const auto after = Interpret(graph, InputsOf(graph));
  EXPECT_TRUE(before.ok()) << Message(before.status());
  EXPECT_TRUE(after.ok()) << Message(after.status());
  if (!before.ok() || !after.ok()) return graph;
  EXPECT_EQ(before->size(), after->size());
  for (const auto& [name, tensor] : *before) {
    EXPECT_TRUE(after->contains(name) && Close(after->at(name), tensor, Reduction(k))) << name;
  }
  return graph;
}

// A residual block: Conv, normalization, Relu, Conv, normalization, Add of the input, Clip.
struct Block : GraphBuilder {
  Block() {
    Input("x", DType::kFloat, {2, 5, 6, 7});
    for (const std::string n : {"1", "2"}) {
      const uint32_t seed = n == "1" ? 1 : 11;
      Constant("W" + n, RandomFloats({5, 5, 3, 3}, seed));
      Constant("scale" + n, RandomFloats({5}, seed + 1, 0.5, 2));
      Constant("bias" + n, RandomFloats({5}, seed + 2));
      Constant("mean" + n, RandomFloats({5}, seed + 3));
      Constant("var" + n, RandomFloats({5}, seed + 4, 0.5, 2));
    }
    Constant("low", Tensor::Scalar<float>(-1));
    Constant("high", Tensor::Scalar<float>(2));
    Convolution("1", "x");
    Node("Relu", {"norm1"}, {"relu"});
    Convolution("2", "relu");
    Node("Add", {"norm2", "x"}, {"sum"});
    Node("Clip", {"sum", "low", "high"}, {"y"});
    Output("y");
  }
  void Convolution(const std::string& n, const std::string& from) {
    Node("Conv", {from, "W" + n}, {"conv" + n}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
    Node("BatchNormalization", {"conv" + n, "scale" + n, "bias" + n, "mean" + n, "var" + n},
         {"norm" + n});
  }
};

TEST(Optimizer, AResidualBlockBecomesTwoConvolutions) {
  Block block;
  const graph::Graph graph = Optimized(block, 90);
  ASSERT_EQ(graph.order().size(), 2u) << graph::Dump(graph);
  const graph::Node& last = graph.node(graph.order()[1]);
  ASSERT_EQ(last.epilogue.size(), 2u);
  EXPECT_EQ(last.epilogue[0].op, "Add");
  EXPECT_EQ(last.epilogue[1].op, "Clip");
}

TEST(Optimizer, EveryValueOfTheBlockMayBeAGraphOutput) {
  for (const std::string name :
       {"conv1", "norm1", "relu", "conv2", "norm2", "sum", "x", "W1", "bias2"}) {
    Block block;
    block.Output(name);
    Optimized(block, 90);
  }
}

TEST(Optimizer, AnyPassMayBeSwitchedOff) {
  for (const std::string& name : PassNames()) {
    Block block;
    Optimized(block, 90, {.disabled_passes = {name}});
  }
}

TEST(Optimizer, IdentitiesOnEveryEdgeHideNothing) {
  GraphBuilder builder;
  builder.Input("x", DType::kFloat, {2, 5, 6, 7});
  builder.Constant("W", RandomFloats({5, 5, 3, 3}, 1));
  builder.Constant("bias", RandomFloats({5, 1, 1}, 2));
  builder.Node("Identity", {"x"}, {"x1"})
      .Node("Identity", {"W"}, {"W1"})
      .Node("Identity", {"W1"}, {"W2"})
      .Node("Conv", {"x1", "W2"}, {"h"})
      .Node("Identity", {"h"}, {"h1"})
      .Node("Identity", {"bias"}, {"bias1"})
      .Node("Add", {"bias1", "h1"}, {"s"})
      .Node("Identity", {"s"}, {"s1"})
      .Node("Relu", {"s1"}, {"r"})
      .Node("Identity", {"r"}, {"y"})
      .Output("y");
  const graph::Graph graph = Optimized(builder, 45);
  ASSERT_EQ(graph.order().size(), 1u) << graph::Dump(graph);
  EXPECT_EQ(graph.node(graph.order()[0]).epilogue.size(), 2u);
}

TEST(Optimizer, MatrixProductsTakeBiasAndActivation) {
  for (const std::string op : {"MatMul", "Gemm"}) {
    GraphBuilder builder;
    builder.Input("x", DType::kFloat, {3, 7});
    builder.Constant("W", RandomFloats({7, 19}, 1)).Constant("b", RandomFloats({19}, 2));
    builder.Node(op, {"x", "W"}, {"h"}).Node("Add", {"b", "h"}, {"s"}).Node("Tanh", {"s"}, {"y"});
    builder.Output("y");
    const graph::Graph graph = Optimized(builder, 7);
    ASSERT_EQ(graph.order().size(), 1u) << graph::Dump(graph);
    EXPECT_EQ(graph.node(graph.order()[0]).epilogue.size(), 2u);
  }
}

// The bias stays omitted: an operand of a later stage must not become it.
TEST(Optimizer, AResidualAfterAnActivationIsNoBias) {
  GraphBuilder builder;
  builder.Input("x", DType::kFloat, {1, 5, 5, 5}).Constant("W", RandomFloats({5, 5, 1, 1}, 1));
  builder.Constant("c", RandomFloats({5, 1, 1}, 2));
  builder.Node("Conv", {"x", "W"}, {"h"}).Node("Relu", {"h"}, {"r"});
  builder.Node("Add", {"r", "x"}, {"s"}).Node("Mul", {"c", "s"}, {"y"}).Output("y");
  const graph::Graph graph = Optimized(builder, 5);
  ASSERT_EQ(graph.order().size(), 1u) << graph::Dump(graph);
  const graph::Node& conv = graph.node(graph.order()[0]);
  ASSERT_EQ(conv.epilogue.size(), 3u);
  EXPECT_EQ(conv.inputs[2], graph::kNoValue);
  EXPECT_EQ(conv.epilogue[1].operand, 3);
  EXPECT_EQ(conv.epilogue[2].operand, 4);
}

// ONNX aligns [C] with the last axis, which is the width of an image.
TEST(Optimizer, AVectorAfterAConvolutionIsNoChannelScale) {
  for (const int64_t width : {5, 7}) {
    GraphBuilder builder;
    builder.Input("x", DType::kFloat, {1, 3, 5, width});
    builder.Constant("W", RandomFloats({5, 3, 1, 1}, 1));
    builder.Constant("v", RandomFloats({width}, 2));
    builder.Node("Conv", {"x", "W"}, {"h"}).Node("Mul", {"h", "v"}, {"y"}).Output("y");
    const graph::Graph graph = Optimized(builder, 3);
    EXPECT_EQ(graph.order().size(), 2u);
  }
}

TEST(Optimizer, AGroupedConvolutionTakesAFullOperand) {
  GraphBuilder builder;
  builder.Input("x", DType::kFloat, {1, 8, 5, 5});
  builder.Constant("W", RandomFloats({12, 2, 1, 1}, 1));
  builder.Constant("r", RandomFloats({1, 12, 5, 5}, 2));
  builder.Node("Conv", {"x", "W"}, {"h"}, {{"group", int64_t{4}}});
  builder.Node("Add", {"h", "r"}, {"y"}).Output("y");
  Optimized(builder, 2);
}

TEST(Optimizer, TwoTowersOfSharedWeightsThatMeetInAnAddKeepTheirValues) {
  for (const std::string visible : {"", "a", "b", "s"}) {
    GraphBuilder builder;
    builder.Input("x", DType::kFloat, {1, 3, 5, 5}).Input("z", DType::kFloat, {1, 3, 5, 5});
    builder.Constant("W", RandomFloats({3, 3, 3, 3}, 1));
    builder.Node("Conv", {"x", "W"}, {"a"}).Node("Conv", {"z", "W"}, {"b"});
    builder.Node("Add", {"a", "b"}, {"s"}).Node("Relu", {"s"}, {"y"}).Output("y");
    if (!visible.empty()) builder.Output(visible);
    Optimized(builder, 27);
  }
}

// The pipeline runs to a fixed point: a second run finds nothing.
TEST(Optimizer, ASecondRunChangesNothing) {
  Block block;
  graph::Graph graph = Optimized(block, 90);
  const std::string once = graph::Dump(graph);
  const auto again = Optimize(graph, block.constants(), {});
  ASSERT_TRUE(again.ok());
  for (const PassReport& pass : again->passes) EXPECT_EQ(pass.changes, 0) << pass.pass;
  EXPECT_EQ(graph::Dump(graph), once);
}

}  // namespace
}  // namespace tandem::optimizer::test
