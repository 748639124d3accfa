#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/graph/dump.h"
#include "engine/graph/verify.h"
#include "tests/engine/optimizer/toy_ops.h"
#include "tests/support/compare.h"
#include "tests/support/interpreter.h"
#include "tests/support/random_tensor.h"

namespace tandem::optimizer::test {
namespace {

using tandem::test::Close;
using tandem::test::Exact;
using tandem::test::Interpret;
using tandem::test::NamedTensors;
using tandem::test::RandomFloats;
using testing::HasSubstr;

NamedTensors OutputsOf(const graph::Graph& graph) {
  NamedTensors inputs;
  for (const graph::ValueId id : graph.inputs()) {
    const graph::Value& value = graph.value(id);
    inputs[value.name] = RandomFloats(*graph::ToShape(*value.type.dims), 7);
  }
  auto outputs = Interpret(graph, inputs);
  EXPECT_TRUE(outputs.ok()) << Message(outputs.status());
  return outputs.ok() ? *outputs : NamedTensors();
}

// Optimizes and checks that names and bits of all outputs stay; returns the report.
OptimizeReport OptimizeAndCompare(ToyGraph& toy) {
  const NamedTensors before = OutputsOf(toy.graph);
  const auto report = Optimize(toy.graph, toy.constants, {});
  EXPECT_TRUE(report.ok()) << Message(report.status());
  EXPECT_TRUE(graph::Verify(toy.graph).ok());
  const NamedTensors after = OutputsOf(toy.graph);
  EXPECT_EQ(after.size(), before.size());
  for (const auto& [name, tensor] : before) {
    EXPECT_TRUE(after.contains(name) && Close(after.at(name), tensor, Exact())) << name;
  }
  return report.ok() ? *report : OptimizeReport();
}

const graph::Node& DefOf(const ToyGraph& toy, graph::ValueId id) {
  return toy.graph.node(toy.graph.value(id).def);
}

// x -> Gemm -> h -> Add(h, c) -> s -> Relu -> y
struct Chain : ToyGraph {
  graph::ValueId h, s, y;
  explicit Chain(Tensor operand = RandomFloats({4}, 3), bool named = true) {
    named_nodes = named;
    const graph::ValueId c = Constant("c", std::move(operand));
    h = Node("Gemm", {Input("x")}, "h", Producer());
    s = Node("Add", {h, c}, "s", Residual());
    y = Node("Relu", {s}, "y", Rectify());
    Output(y);
  }
};

TEST(FuseEpilogue, AChainBecomesStagesOfItsProducer) {
  Chain chain;
  OptimizeAndCompare(chain);
  ASSERT_EQ(chain.graph.order().size(), 1u);
  const graph::Node& fused = DefOf(chain, chain.y);
  EXPECT_EQ(fused.op_type, "Gemm");
  ASSERT_EQ(fused.epilogue.size(), 2u);
  EXPECT_EQ(fused.epilogue[0].op, "Add");
  EXPECT_GE(fused.epilogue[0].operand, 1) << "an operand is no input of the operator itself";
  EXPECT_EQ(fused.epilogue[1].op, "Relu");
  EXPECT_EQ(fused.origin, "node_h + node_s + node_y");
}

TEST(FuseEpilogue, UnnamedNodesFuseLikeNamedOnes) {
  Chain chain(RandomFloats({4}, 3), false);
  OptimizeAndCompare(chain);
  EXPECT_EQ(chain.graph.order().size(), 1u);
  EXPECT_EQ(DefOf(chain, chain.y).origin, "Gemm -> 'h' + Add -> 's' + Relu -> 'y'");
}

TEST(FuseEpilogue, TheOrderOfOperandsOfASubtractionIsKept) {
  for (const bool first : {false, true}) {
    ToyGraph toy;
    const graph::ValueId x = toy.Input("x");
    const graph::ValueId h = toy.Node("Gemm", {x}, "h", Producer());
    ToyBehaviour subtract = Residual();
    subtract.apply = [](const std::vector<float>& v) { return v[0] - v[1]; };
    const graph::ValueId y =
        first ? toy.Node("Sub", {x, h}, "y", subtract) : toy.Node("Sub", {h, x}, "y", subtract);
    toy.Output(y);
    OptimizeAndCompare(toy);
    ASSERT_EQ(toy.graph.order().size(), 1u);
    EXPECT_EQ(DefOf(toy, y).epilogue[0].operand_is_first, first);
  }
}

TEST(FuseEpilogue, ASecondReaderStopsIt) {
  Chain chain;
  chain.Output(chain.Node("Double", {chain.h}, "z", Double()));
  const OptimizeReport report = OptimizeAndCompare(chain);
  EXPECT_EQ(DefOf(chain, chain.h).epilogue.size(), 0u);
  ASSERT_FALSE(report.declines.empty());
  EXPECT_EQ(report.declines[0].rule, "the result has other readers");
  EXPECT_EQ(report.declines[0].numbers, "readers=2");
  EXPECT_EQ(report.declines[0].role, "epilogue Add");
}

TEST(FuseEpilogue, AddingAValueToItselfStopsIt) {
  ToyGraph toy;
  const graph::ValueId h = toy.Node("Gemm", {toy.Input("x")}, "h", Producer());
  toy.Output(toy.Node("Add", {h, h}, "y", Residual()));
  const std::string before = graph::Dump(toy.graph);
  OptimizeAndCompare(toy);
  EXPECT_EQ(graph::Dump(toy.graph), before);
}

TEST(FuseEpilogue, EveryIntermediateStaysWhenItIsAGraphOutput) {
  for (const bool sum : {false, true}) {
    Chain chain;
    chain.Output(sum ? chain.s : chain.h);
    const OptimizeReport report = OptimizeAndCompare(chain);
    EXPECT_EQ(chain.graph.order().size(), sum ? 2u : 3u);
    ASSERT_FALSE(report.declines.empty());
    EXPECT_EQ(report.declines[0].rule, "the result is a graph output");
  }
}

TEST(FuseEpilogue, AStageThatTheKernelRefusesIsRecorded) {
  ToyGraph toy;
  const graph::ValueId h = toy.Node("Gemm", {toy.Input("x")}, "h", Producer());
  toy.Output(toy.Node("Exp", {h}, "y", Rectify()));
  const std::string before = graph::Dump(toy.graph);
  const OptimizeReport report = OptimizeAndCompare(toy);
  EXPECT_EQ(graph::Dump(toy.graph), before);
  ASSERT_EQ(report.declines.size(), 1u);
  EXPECT_EQ(report.declines[0].pass, "fuse_epilogue");
  EXPECT_EQ(report.declines[0].rule, "no Exp in this kernel");
  EXPECT_EQ(report.declines[0].numbers, "op=Exp");
  EXPECT_THAT(report.declines[0].node, HasSubstr("node_h"));
}

TEST(FuseEpilogue, AnOperandThatBroadcastsTheResultStopsIt) {
  ToyGraph toy({1});
  const graph::ValueId h = toy.Node("Gemm", {toy.Input("x")}, "h", Producer());
  const graph::ValueId c = toy.Constant("c", RandomFloats({3, 1}, 3));
  toy.Output(toy.Node("Add", {h, c}, "y", Residual()));
  toy.graph.mutable_value(toy.graph.FindValue("y")).type.dims = graph::DimVector{3, 1};
  const OptimizeReport report = OptimizeAndCompare(toy);
  EXPECT_EQ(toy.graph.order().size(), 2u);
  ASSERT_EQ(report.declines.size(), 1u);
  EXPECT_EQ(report.declines[0].numbers, "[3,1] to [1]");
}

TEST(FuseEpilogue, AnOutputOfTheProducerThatIsReadElsewhereStopsIt) {
  ToyGraph toy;
  ToyBehaviour two = Producer();
  two.outputs = 2;
  const graph::ValueId h = toy.Node("Gemm", {toy.Input("x")}, "h", two);
  // The operand depends on the producer: fusing would make a cycle.
  const graph::ValueId r = toy.Node("Double", {toy.graph.FindValue("h1")}, "r", Double());
  toy.Output(toy.Node("Add", {h, r}, "y", Residual()));
  const OptimizeReport report = OptimizeAndCompare(toy);
  EXPECT_EQ(toy.graph.order().size(), 3u);
  ASSERT_EQ(report.declines.size(), 1u);
  EXPECT_EQ(report.declines[0].rule, "another output of the producer is read");
}

// x -> Gemm -> a ; x -> Gemm -> Double -> Gemm -> b ; Add -> Relu -> y
struct Diamond : ToyGraph {
  graph::ValueId a = graph::kNoValue, b = graph::kNoValue, sum = graph::kNoValue,
                 y = graph::kNoValue;
  Diamond(bool deep_first_in_file, bool deep_first_in_add) {
    const graph::ValueId x = Input("x");
    const auto shallow = [&] { a = Node("Gemm", {x}, "a", Producer()); };
    const auto deep = [&] {
      const graph::ValueId h = Node("Double", {Node("Gemm", {x}, "g", Producer())}, "h", Double());
      b = Node("Gemm", {h}, "b", Producer());
    };
    if (deep_first_in_file) deep();
    shallow();
    if (!deep_first_in_file) deep();
    sum = deep_first_in_add ? Node("Add", {b, a}, "sum", Residual())
                            : Node("Add", {a, b}, "sum", Residual());
    y = Node("Relu", {sum}, "y", Rectify());
    Output(y);
  }
};

TEST(FuseEpilogue, OfTwoProducersTheLaterByDataflowTakesTheAdd) {
  for (const bool in_file : {false, true}) {
    for (const bool in_add : {false, true}) {
      Diamond diamond(in_file, in_add);
      OptimizeAndCompare(diamond);
      EXPECT_EQ(DefOf(diamond, diamond.y).name, "node_b");
      EXPECT_EQ(DefOf(diamond, diamond.a).epilogue.size(), 0u);
    }
  }
}

TEST(FuseEpilogue, EveryValueOfADiamondMayBeAGraphOutput) {
  for (const std::string name : {"a", "g", "h", "b", "sum", "x"}) {
    Diamond diamond(false, false);
    diamond.Output(diamond.graph.FindValue(name));
    OptimizeAndCompare(diamond);
  }
}

TEST(FuseEpilogue, UnrelatedNodesBetweenTheLinksChangeNothing) {
  ToyGraph toy;
  const graph::ValueId x = toy.Input("x");
  const graph::ValueId c = toy.Constant("c", RandomFloats({4}, 3));
  const graph::ValueId h = toy.Node("Gemm", {x}, "h", Producer());
  const graph::ValueId other = toy.Node("Gemm", {x}, "u", Producer());
  const graph::ValueId s = toy.Node("Add", {h, c}, "s", Residual());
  const graph::ValueId more = toy.Node("Relu", {other}, "v", Rectify());
  const graph::ValueId y = toy.Node("Relu", {s}, "y", Rectify());
  toy.Output(y);
  toy.Output(more);
  OptimizeAndCompare(toy);
  EXPECT_EQ(toy.graph.order().size(), 2u);
  EXPECT_EQ(DefOf(toy, y).epilogue.size(), 2u);
  EXPECT_EQ(DefOf(toy, more).epilogue.size(), 1u);
}

// The diamond with its nodes added in the order of `permutation`, then sorted.
graph::Graph Shuffled(const graph::Graph& graph, const std::vector<graph::NodeId>& permutation) {
  graph::Graph shuffled;
  for (graph::ValueId id = 0; id < graph.value_limit(); ++id) {
    const graph::Value& value = graph.value(id);
    shuffled.AddValue(value.name, value.type);
    if (value.is_input) shuffled.MarkInput(id);
  }
  for (const graph::NodeId id : permutation) shuffled.AddNode(graph.node(id));
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    shuffled.AddOutput(graph.output_names()[i], graph.outputs()[i]);
  }
  EXPECT_TRUE(shuffled.Sort().ok());
  return shuffled;
}

TEST(FuseEpilogue, TheOrderOfTheNodesInTheFileChangesNothing) {
  Diamond reference(false, false);
  const NamedTensors expected = OutputsOf(reference.graph);
  std::vector<graph::NodeId> order = reference.graph.order();
  std::mt19937 generator(5);
  for (int i = 0; i < 24; ++i) {
    std::shuffle(order.begin(), order.end(), generator);
    Diamond diamond(false, false);
    diamond.graph = Shuffled(diamond.graph, order);
    OptimizeAndCompare(diamond);
    EXPECT_EQ(DefOf(diamond, diamond.y).name, "node_b");
    EXPECT_TRUE(Close(OutputsOf(diamond.graph).at("y"), expected.at("y"), Exact()));
  }
}

}  // namespace
}  // namespace tandem::optimizer::test
