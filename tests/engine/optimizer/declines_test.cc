// What is told of declines after many sweeps of many passes.
#include "engine/optimizer/declines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/optimizer/pass_testing.h"
#include "tests/engine/optimizer/rewrite_testing.h"
#include "tests/support/random_tensor.h"

namespace tandem::optimizer::test {
namespace {

using tandem::test::GraphBuilder;
using tandem::test::RandomFloats;
using testing::ElementsAre;
using testing::IsEmpty;
using Ints = std::vector<int64_t>;

// What the pass says of the graph after all passes have run, without the nodes.
std::vector<std::string> ReasonsOf(std::string_view pass, GraphBuilder& builder) {
  const PassOutcome outcome =
      RunRewrite([](graph::Graph& graph,
                    graph::ConstantStore& constants) { return Optimize(graph, constants, {}); },
                 builder, tandem::test::Reduction(40));
  std::vector<std::string> reasons;
  for (const Decline& decline : outcome.report.declines) {
    if (decline.pass != pass) continue;
    reasons.push_back(fmt::format("{}: {} ({})", decline.role, decline.rule, decline.numbers));
  }
  return reasons;
}

// x [2, 4, 6] normalized along its last axis, with a scale of these extents.
struct LayerNorm : GraphBuilder {
  explicit LayerNorm(const Shape& scale) : GraphBuilder(13) {
    const graph::Attributes last = {{"axes", Ints{-1}}};
    Input("x", DType::kFloat, {2, 4, 6}).Constant("epsilon", Tensor::Scalar(1e-3F));
    Constant("scale", RandomFloats(scale, 1)).Constant("bias", RandomFloats({6}, 2));
    Node("ReduceMean", {"x"}, {"m"}, last).Node("Sub", {"x", "m"}, {"d"});
    Node("Mul", {"d", "d"}, {"p"}).Node("ReduceMean", {"p"}, {"v"}, last);
    Node("Add", {"v", "epsilon"}, {"w"}).Node("Sqrt", {"w"}, {"r"}).Node("Div", {"d", "r"}, {"n"});
    Node("Mul", {"n", "scale"}, {"s"}).Node("Add", {"s", "bias"}, {"y"}).Output("y");
  }
};

// fuse_epilogue makes one node of the end of the formula afterwards.
TEST(Declines, OfANodeThatAnotherPassTookStay) {
  LayerNorm builder({1, 1, 6});
  EXPECT_THAT(ReasonsOf("fuse_layer_norm", builder),
              ElementsAre("fuse into LayerNormalization: scale and bias need the extents of the "
                          "normalized axes ('scale' has [1,1,6])"));
}

// fuse_epilogue takes the Add of the mask afterwards, and the anchor stays.
TEST(Declines, OfAFormulaThatAnotherPassTookApartStay) {
  GraphBuilder builder(13);
  builder.Input("q", DType::kFloat, {3, 5, 4}).Input("k", DType::kFloat, {3, 7, 4});
  builder.Input("v", DType::kFloat, {3, 7, 6}).Input("mask", DType::kFloat, {7});
  builder.Node("Transpose", {"k"}, {"t"}, {{"perm", Ints{0, 2, 1}}});
  builder.Node("MatMul", {"q", "t"}, {"s"}).Node("Add", {"s", "mask"}, {"m"});
  builder.Node("Softmax", {"m"}, {"p"}).Node("MatMul", {"p", "v"}, {"y"}).Output("y");
  EXPECT_THAT(ReasonsOf("fuse_attention", builder),
              ElementsAre("fuse into Attention: the mask has another rank ()"));
}

// d * d asks for both of its inputs.
TEST(Declines, AreToldOnce) {
  LayerNorm builder({1, 1, 6});
  const std::vector<std::string> reasons = ReasonsOf("fuse_epilogue", builder);
  EXPECT_FALSE(reasons.empty());
  EXPECT_EQ(std::set<std::string>(reasons.begin(), reasons.end()).size(), reasons.size())
      << testing::PrintToString(reasons);
}

TEST(Declines, NothingIsToldOfWhatIsFused) {
  LayerNorm builder({6});
  EXPECT_THAT(ReasonsOf("fuse_layer_norm", builder), IsEmpty());
}

// A node 0 that a patch may replace by node 1, and what the pass said of node 0.
struct Replaced {
  graph::Graph graph;
  Lineage lineage;
  PassDeclines declines;
  graph::ValueId x = graph.AddInput("x", {});

  Replaced() {
    Add("a");
    declines.Update({Refused(0)}, graph, lineage);
  }
  void Add(const std::string& output) {
    graph::Node node;
    node.op_type = "Relu";
    node.inputs = {x};
    node.outputs = {graph.AddValue(output, {})};
    graph.AddNode(std::move(node));
  }
  void Replace() {
    Add("b");
    graph.RemoveNode(0);
    lineage.Record({0}, 1, 2);
  }
  static Refusal Refused(graph::NodeId node, const std::string& role = "role") {
    return {node, {"pass", fmt::format("node {}", node), role, "rule", ""}};
  }
  std::vector<std::string> After(std::vector<Refusal> fresh) {
    declines.Update(std::move(fresh), graph, lineage);
    std::vector<std::string> nodes;
    for (const Decline& decline : declines.All()) nodes.push_back(decline.node);
    return nodes;
  }
};

TEST(Declines, StayWhenThePassSaysNothingMore) {
  Replaced stays;
  EXPECT_THAT(stays.After({}), ElementsAre("node 0"));
  stays.Replace();
  EXPECT_THAT(stays.After({}), ElementsAre("node 0"));
}

TEST(Declines, GoWhenThePassTakesTheNodeAfterAll) {
  Replaced taken;
  taken.Replace();
  taken.declines.Settle(1);
  EXPECT_THAT(taken.After({}), IsEmpty());
}

TEST(Declines, GoWithTheNodeWhenNobodyReadsIt) {
  Replaced dead;
  dead.graph.RemoveNode(0);
  EXPECT_THAT(dead.After({}), IsEmpty());
}

TEST(Declines, TheLastWordInARoleCounts) {
  Replaced again;
  again.Replace();
  EXPECT_THAT(again.After({Replaced::Refused(1)}), ElementsAre("node 1"));
  EXPECT_THAT(again.After({Replaced::Refused(1, "other")}), ElementsAre("node 1", "node 1"));
}

}  // namespace
}  // namespace tandem::optimizer::test
