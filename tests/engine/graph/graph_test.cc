#include "engine/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/dump.h"
#include "engine/graph/patch.h"
#include "engine/graph/verify.h"

namespace tandem::graph {
namespace {

ValueType Floats(DimVector dims) {
  ValueType type;
  type.dtype = DType::kFloat;
  type.dims = std::move(dims);
  return type;
}

Node MakeNode(std::string op, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
  Node node;
  node.op_type = std::move(op);
  node.opset = 17;
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  return node;
}

// x -> Relu -> h -> Neg -> y, with h also a graph output.
struct Chain {
  Graph graph;
  ValueId x, h, y;
  NodeId relu, neg;
  Chain() {
    x = graph.AddInput("x", Floats({2}));
    h = graph.AddValue("h", Floats({2}));
    y = graph.AddValue("y", Floats({2}));
    relu = graph.AddNode(MakeNode("Relu", {x}, {h}));
    neg = graph.AddNode(MakeNode("Neg", {h}, {y}));
    graph.AddOutput("y", y);
    graph.AddOutput("h", h);
  }
};

TEST(Graph, AGraphOutputIsAUse) {
  Chain chain;
  EXPECT_EQ(chain.graph.value(chain.h).uses.size(), 2u);
  EXPECT_EQ(chain.graph.node_uses(chain.h), 1);
  EXPECT_TRUE(chain.graph.is_output(chain.h));
  EXPECT_TRUE(Verify(chain.graph).ok());
}

TEST(Graph, ReplacingUsesMovesGraphOutputsAndKeepsTheirNames) {
  Chain chain;
  chain.graph.ReplaceUses(chain.h, chain.x);
  EXPECT_EQ(chain.graph.outputs()[1], chain.x);
  EXPECT_EQ(chain.graph.output_names()[1], "h");
  EXPECT_EQ(chain.graph.RemoveDeadNodes(), 1);
  EXPECT_TRUE(Verify(chain.graph).ok());
}

TEST(Graph, SortOrdersNodesThatWereAddedReadersFirst) {
  Graph graph;
  const ValueId x = graph.AddInput("x", Floats({2}));
  const ValueId h = graph.AddValue("h", Floats({2}));
  const ValueId y = graph.AddValue("y", Floats({2}));
  const NodeId neg = graph.AddNode(MakeNode("Neg", {h}, {y}));
  const NodeId relu = graph.AddNode(MakeNode("Relu", {x}, {h}));
  graph.AddOutput("y", y);
  EXPECT_FALSE(Verify(graph).ok());
  ASSERT_TRUE(graph.Sort().ok());
  EXPECT_THAT(graph.order(), testing::ElementsAre(relu, neg));
  EXPECT_TRUE(Verify(graph).ok());
}

TEST(Graph, ACycleIsRefusedByName) {
  Graph graph;
  const ValueId a = graph.AddValue("a", Floats({2}));
  const ValueId b = graph.AddValue("b", Floats({2}));
  Node first = MakeNode("Neg", {b}, {a});
  first.name = "first";
  graph.AddNode(first);
  graph.AddNode(MakeNode("Relu", {a}, {b}));
  const Status sorted = graph.Sort();
  EXPECT_EQ(sorted.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(sorted)), testing::HasSubstr("node 'first' (Neg)"));
}

TEST(Patch, ChangesNothingBeforeCommitAndAllOfItAfter) {
  Chain chain;
  const std::string before = Dump(chain.graph);
  Patch patch(chain.graph);
  const ValueId fused = patch.NewValue("fused", Floats({2}));
  patch.AddNode(MakeNode("Abs", {chain.h}, {fused}));
  patch.ReplaceUses(chain.y, fused);
  patch.RemoveNode(chain.neg);
  EXPECT_EQ(Dump(chain.graph), before);
  patch.Commit(chain.graph);
  ASSERT_TRUE(chain.graph.Sort().ok());
  EXPECT_TRUE(Verify(chain.graph).ok());
  EXPECT_THAT(Dump(chain.graph), testing::HasSubstr("output 'y' <- 'fused'"));
  EXPECT_THAT(Dump(chain.graph), testing::Not(testing::HasSubstr("Neg")));
}

TEST(ConstantStore, EqualContentIsHeldOnceAndFreedWithItsLastReader) {
  ConstantStore store;
  ConstantRef a = store.Intern(Tensor::Of<float>({2}, {1, 2}));
  ConstantRef b = store.Intern(Tensor::Of<float>({2}, {1, 2}));
  const ConstantRef other_shape = store.Intern(Tensor::Of<float>({1, 2}, {1, 2}));
  EXPECT_EQ(a, b);
  EXPECT_NE(a, other_shape);
  EXPECT_EQ(store.stats().constants, 2u);
  EXPECT_EQ(store.stats().bytes, 16u);
  a.reset();
  b.reset();
  EXPECT_EQ(store.stats().bytes, 8u);
}

TEST(Dim, ArithmeticKeepsSymbolsWhereItIsExact) {
  const Dim n = Dim::Symbol("N");
  EXPECT_EQ(ToString(n * 4), "4*N");
  EXPECT_EQ(ToString(ExactDiv(n * 4, 4)), "N");
  EXPECT_EQ(ToString(n + n), "2*N");
  EXPECT_EQ(ToString(n - n), "0");
  EXPECT_TRUE((n * n).is_unknown());
  EXPECT_FALSE(Dim().SameAs(Dim()));
  EXPECT_TRUE(ExactDiv(Dim(7), Dim(2)).is_unknown());
}

}  // namespace
}  // namespace tandem::graph
