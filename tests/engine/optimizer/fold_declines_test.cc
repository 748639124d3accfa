// Why folding leaves a node to every run: one record with node, role, rule and numbers, a graph
// that is what it was, and the same answers.
#include <gtest/gtest.h>

#include "engine/graph/dump.h"
#include "tests/engine/optimizer/toy_ops.h"
#include "tests/support/compare.h"
#include "tests/support/interpreter.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem::optimizer::test {
namespace {

using tandem::test::GraphBuilder;
using tandem::test::NamedTensors;
using tandem::test::RandomFloats;

NamedTensors RandomInputs(const graph::Graph& graph) {
  NamedTensors inputs;
  for (const graph::ValueId id : graph.inputs()) {
    const graph::Value& value = graph.value(id);
    inputs[value.name] = RandomFloats(*graph::ToShape(*value.type.dims), 9, 0.5F, 2);
  }
  return inputs;
}

// The reasons that folding alone gives; it changes neither the graph nor its answers.
std::vector<Decline> Declines(graph::Graph& graph, graph::ConstantStore& constants,
                              OptimizeOptions options = {}) {
  for (const std::string& name : PassNames()) {
    if (name != "fold_constants") options.disabled_passes.insert(name);
  }
  const NamedTensors inputs = RandomInputs(graph);
  const std::string dump = graph::Dump(graph);
  const auto before = tandem::test::Interpret(graph, inputs);
  const auto report = Optimize(graph, constants, options);
  const auto after = tandem::test::Interpret(graph, inputs);
  EXPECT_TRUE(before.ok() && report.ok() && after.ok());
  if (!before.ok() || !report.ok() || !after.ok()) return {};
  EXPECT_EQ(graph::Dump(graph), dump);
  EXPECT_EQ(report->folded.nodes.size(), 0u);
  EXPECT_EQ(before->size(), after->size());
  for (const auto& [name, tensor] : *before) {
    EXPECT_TRUE(tandem::test::Close(after->at(name), tensor, tandem::test::Exact())) << name;
  }
  return report->declines;
}

void ExpectOne(const std::vector<Decline>& declines, const Decline& expected) {
  ASSERT_EQ(declines.size(), 1u);
  EXPECT_EQ(declines[0].pass, "fold_constants");
  EXPECT_EQ(declines[0].node, expected.node);
  EXPECT_EQ(declines[0].role, expected.role);
  EXPECT_EQ(declines[0].rule, expected.rule);
  EXPECT_EQ(declines[0].numbers, expected.numbers);
}

// y = x w, where w [60,50] is what a node named "source" makes.
struct Builder : GraphBuilder {
  Builder() { Input("x", DType::kFloat, {3, 60}); }
  graph::Graph BuildProduct() {
    Node("MatMul", {"x", "w"}, {"y"}, {}, "product").Output("y");
    return Build();
  }
};

TEST(FoldDeclines, ASourceThatARequestBringsRaisesNoQuestion) {
  Builder builder;
  builder.Input("g", DType::kFloat, {60, 1}).Constant("v", RandomFloats({60, 50}, 1));
  builder.Node("Mul", {"v", "g"}, {"w"}, {}, "source");
  graph::Graph graph = builder.BuildProduct();
  EXPECT_TRUE(Declines(graph, builder.constants()).empty());
}

TEST(FoldDeclines, GrowthBeyondTheBudgetSaysBothNumbers) {
  Builder builder;
  builder.Constant("down", RandomFloats({60, 4}, 1)).Constant("up", RandomFloats({4, 50}, 2));
  builder.Node("MatMul", {"down", "up"}, {"w"}, {}, "source");
  graph::Graph graph = builder.BuildProduct();
  OptimizeOptions options;
  options.fold.growth_bytes = 11999;
  ExpectOne(Declines(graph, builder.constants(), options),
            {.node = "node 'source' (MatMul)",
             .role = "outputs",
             .rule = "makes more than it frees and more than one fold may",
             .numbers = "12000 > 11999 bytes, grows 6.8x"});
}

TEST(FoldDeclines, GrowthOfTheModelBeyondItsBudgetSaysBothNumbers) {
  Builder builder;
  builder.Constant("down", RandomFloats({60, 4}, 1)).Constant("up", RandomFloats({4, 50}, 2));
  builder.Node("MatMul", {"down", "up"}, {"w"}, {}, "source");
  graph::Graph graph = builder.BuildProduct();
  OptimizeOptions options;
  options.fold.model_growth_share = 0;
  options.fold.model_growth_bytes = 10239;
  ExpectOne(Declines(graph, builder.constants(), options),
            {.node = "node 'source' (MatMul)",
             .role = "outputs",
             .rule = "grows the model beyond its budget",
             .numbers = "10240 > 10239 bytes"});
}

TEST(FoldDeclines, ADefaultThatARequestMayReplaceIsNamed) {
  Builder builder;
  builder.Constant("v", RandomFloats({60, 50}, 1)).Node("Tanh", {"v"}, {"w"}, {}, "source");
  graph::Graph graph = builder.BuildProduct();
  graph.MarkInput(graph.FindValue("v"));
  OptimizeOptions options;
  options.defaults = graph::TakeDefaults(graph);
  ExpectOne(Declines(graph, builder.constants(), options),
            {.node = "node 'source' (Tanh)",
             .role = "input 0",
             .rule = "a request may replace this default",
             .numbers = "'v'"});
}

// It is left to view_quantised, which says what becomes of it.
TEST(FoldDeclines, AQuantisedWeightIsNoFloatWeight) {
  Builder builder;
  Tensor bytes = *Tensor::Allocate(DType::kInt8, {60, 50});
  for (int64_t i = 0; i < bytes.elements(); ++i) {
    bytes.mutable_data<int8_t>()[i] = static_cast<int8_t>(i * 37 % 251 - 125);
  }
  builder.Constant("bytes", bytes).Constant("scale", Tensor::Scalar(0.01F));
  builder.Node("DequantizeLinear", {"bytes", "scale"}, {"w"}, {}, "source");
  graph::Graph graph = builder.BuildProduct();
  EXPECT_TRUE(Declines(graph, builder.constants()).empty());
  EXPECT_EQ(graph.value(graph.FindValue("w")).constant, nullptr);
}

TEST(FoldDeclines, AResultThatDiffersFromRunToRunIsNone) {
  ToyGraph toy;
  ToyBehaviour random = Double();
  random.traits.deterministic = false;
  const graph::ValueId c = toy.Constant("c", RandomFloats({4}, 1));
  const graph::ValueId w = toy.Node("RandomNormalLike", {c}, "source", random);
  toy.Output(toy.Node("Add", {toy.Input("x"), w}, "y", Residual()));
  ExpectOne(Declines(toy.graph, toy.constants), {.node = "node 'node_source' (RandomNormalLike)",
                                                 .role = "node",
                                                 .rule = "its result differs from run to run",
                                                 .numbers = ""});
}

}  // namespace
}  // namespace tandem::optimizer::test
