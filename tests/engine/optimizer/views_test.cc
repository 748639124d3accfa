#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/dump.h"
#include "engine/ops/registry.h"
#include "tests/engine/optimizer/toy_ops.h"
#include "tests/support/compare.h"
#include "tests/support/interpreter.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem::optimizer::test {
namespace {

using tandem::test::Close;
using tandem::test::Exact;
using tandem::test::GraphBuilder;
using tandem::test::Interpret;
using tandem::test::RandomFloats;

// Optimizes a graph of input "x" [2,3] and checks that all outputs keep names and bits.
graph::Graph Optimized(GraphBuilder& builder) {
  graph::Graph graph = builder.Build();
  const tandem::test::NamedTensors inputs = {{"x", RandomFloats({2, 3}, 1)}};
  const auto before = Interpret(graph, inputs);
  const auto report = Optimize(graph, builder.constants(), {});
  EXPECT_TRUE(report.ok()) << Message(report.status());
  const auto after = Interpret(graph, inputs);
  EXPECT_TRUE(before.ok() && after.ok());
  if (!before.ok() || !after.ok()) return graph;
  EXPECT_EQ(before->size(), after->size());
  for (const auto& [name, tensor] : *before) {
    EXPECT_TRUE(after->contains(name) && Close(after->at(name), tensor, Exact())) << name;
  }
  return graph;
}

// x [2,3] and shapes. A Reshape to [3,2] stays: something to stand around the others.
struct Start : GraphBuilder {
  Start() {
    Input("x", DType::kFloat, {2, 3});
    Constant("s32", Tensor::Of<int64_t>({2}, {3, 2}));
    Constant("s23", Tensor::Of<int64_t>({2}, {2, 3}));
    Constant("zero", Tensor::Of<int64_t>({1}, {0}));
  }
};

TEST(DropIdentity, IdentitiesAndDropoutsGoWhereverTheyStand) {
  Start builder;
  builder.Node("Identity", {"x"}, {"a"})
      .Node("Dropout", {"a"}, {"b"})
      .Node("Identity", {"b"}, {"c"})
      .Node("Reshape", {"c", "s32"}, {"d"})
      .Node("Identity", {"d"}, {"y"})
      .Output("y");
  const graph::Graph graph = Optimized(builder);
  ASSERT_EQ(graph.order().size(), 1u);
  EXPECT_EQ(graph.node(graph.order()[0]).op_type, "Reshape");
}

TEST(DropIdentity, AGraphOutputKeepsAValueOfItsOwn) {
  Start straight;
  straight.Node("Identity", {"x"}, {"y"}).Output("y");
  EXPECT_EQ(Optimized(straight).order().size(), 1u);

  Start twice;
  twice.Node("Reshape", {"x", "s32"}, {"h"}).Node("Identity", {"h"}, {"y"});
  twice.Output("h").Output("y");
  EXPECT_EQ(Optimized(twice).order().size(), 2u);
}

TEST(DropIdentity, OneUnnamedNodeGoesAndNoOther) {
  Start builder;
  builder.Node("Reshape", {"x", "s32"}, {"h"})
      .Node("Dropout", {"h"}, {"d"})
      .Node("Flatten", {"d"}, {"y"}, {{"axis", int64_t{0}}})
      .Output("y");
  EXPECT_EQ(Optimized(builder).order().size(), 2u);
}

TEST(DropIdentity, AMaskThatIsReadKeepsItsDropout) {
  Start builder;
  builder.Node("Reshape", {"x", "s32"}, {"h"})
      .Node("Dropout", {"h"}, {"d", "mask"})
      .Output("d")
      .Output("mask");
  EXPECT_EQ(Optimized(builder).order().size(), 2u);
}

TEST(DropNoop, AReshapeToTheSameExtentsGoes) {
  Start builder;
  builder.Node("Reshape", {"x", "s23"}, {"h"}).Node("Reshape", {"h", "s32"}, {"y"}).Output("y");
  EXPECT_EQ(Optimized(builder).order().size(), 1u);
}

TEST(DropNoop, AReshapeToOtherExtentsStays) {
  Start builder;
  builder.Node("Reshape", {"x", "s32"}, {"y"}).Output("y");
  EXPECT_EQ(Optimized(builder).order().size(), 1u);
}

TEST(DropNoop, ChainsOfInversePairsOfAnyLengthKeepTheirResult) {
  for (int length = 2; length <= 6; ++length) {
    Start builder;
    builder.Node("Reshape", {"x", "s32"}, {"v0"});
    for (int i = 0; i < length; ++i) {
      builder.Node(i % 2 == 0 ? "Unsqueeze" : "Squeeze", {fmt::format("v{}", i), "zero"},
                   {fmt::format("v{}", i + 1)});
    }
    builder.Output(fmt::format("v{}", length));
    const graph::Graph graph = Optimized(builder);
    EXPECT_EQ(graph.order().size(), length % 2 == 0 ? 1u : 2u) << length;
  }
}

TEST(DropNoop, AnIntermediateThatIsAGraphOutputStays) {
  Start builder;
  builder.Node("Reshape", {"x", "s32"}, {"a"})
      .Node("Unsqueeze", {"a", "zero"}, {"b"})
      .Node("Squeeze", {"b", "zero"}, {"c"})
      .Node("Flatten", {"c"}, {"y"}, {{"axis", int64_t{0}}})
      .Output("y")
      .Output("b");
  const graph::Graph graph = Optimized(builder);
  EXPECT_EQ(graph.order().size(), 3u);
}

constexpr int64_t Number(DType dtype) { return static_cast<int64_t>(dtype); }

TEST(DropNoop, ACastToItsOwnTypeGoes) {
  Start builder;
  builder.Node("Cast", {"x"}, {"h"}, {{"to", Number(DType::kFloat)}})
      .Node("Reshape", {"h", "s32"}, {"y"})
      .Output("y");
  EXPECT_EQ(Optimized(builder).order().size(), 1u);
}

// A chain that ends in the type it began with has changed its values on the way.
TEST(DropNoop, CastsThereAndBackStay) {
  Start builder;
  builder.Node("Cast", {"x"}, {"i"}, {{"to", Number(DType::kInt32)}})
      .Node("Cast", {"i"}, {"b"}, {{"to", Number(DType::kUint8)}})
      .Node("Cast", {"b"}, {"j"}, {{"to", Number(DType::kInt32)}})
      .Node("Cast", {"j"}, {"f"}, {{"to", Number(DType::kFloat)}})
      .Output("f");
  EXPECT_EQ(Optimized(builder).order().size(), 4u);
}

graph::Attributes Perm(std::vector<int64_t> perm) { return {{"perm", std::move(perm)}}; }

TEST(DropNoop, ATransposeInOrderAndInversePairsGo) {
  Start builder;
  builder.Node("Transpose", {"x"}, {"a"}, Perm({0, 1}))
      .Node("Transpose", {"a"}, {"b"})
      .Node("Transpose", {"b"}, {"c"}, Perm({1, 0}))
      .Node("Reshape", {"c", "s32"}, {"y"})
      .Output("y");
  EXPECT_EQ(Optimized(builder).order().size(), 1u);
}

TEST(DropNoop, TransposesThatAreNoInversesStay) {
  GraphBuilder builder;
  builder.Input("x", DType::kFloat, {2, 3}).Constant("s", Tensor::Of<int64_t>({3}, {1, 2, 3}));
  builder.Node("Reshape", {"x", "s"}, {"r"})
      .Node("Transpose", {"r"}, {"a"}, Perm({1, 2, 0}))
      .Node("Transpose", {"a"}, {"y"}, Perm({1, 2, 0}))
      .Output("y");
  EXPECT_EQ(Optimized(builder).order().size(), 3u);
}

TEST(DropNoop, ATransposeWithAnotherReaderStaysForIt) {
  Start builder;
  builder.Node("Transpose", {"x"}, {"t"})
      .Node("Transpose", {"t"}, {"u"})
      .Node("MatMul", {"t", "u"}, {"y"})
      .Node("Relu", {"t"}, {"z"})
      .Output("y")
      .Output("z");
  const graph::Graph graph = Optimized(builder);
  EXPECT_EQ(graph.order().size(), 3u);
}

TEST(FoldConstants, ShapesThatAreKnownFold) {
  Start builder;
  builder.Node("Shape", {"x"}, {"s"}).Node("Reshape", {"x", "s"}, {"h"});
  builder.Node("Reshape", {"h", "s32"}, {"y"}).Output("y").Output("s");
  const graph::Graph graph = Optimized(builder);
  EXPECT_EQ(graph.order().size(), 1u);
}

TEST(FoldConstants, AShapeWithASymbolStays) {
  GraphBuilder builder;
  builder.Input("x", DType::kFloat, {graph::Dim::Symbol("N"), 3});
  builder.Node("Shape", {"x"}, {"s"}).Output("s");
  EXPECT_EQ(Optimized(builder).order().size(), 1u);
}

}  // namespace
}  // namespace tandem::optimizer::test
