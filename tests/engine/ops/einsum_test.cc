#include <gtest/gtest.h>

#include <numeric>

#include "engine/ops/registry.h"
#include "tests/support/compare.h"
#include "tests/support/op_runner.h"

namespace tandem {
namespace {

using graph::Dim;
using test::Close;
using test::Exact;

Tensor Arange(Shape shape) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  std::iota(values.begin(), values.end(), 0.0F);
  return Tensor::Of<float>(shape, std::span<const float>(values));
}

test::OpCall Call(const std::string& equation) {
  return {.op_type = "Einsum", .attributes = {{"equation", equation}}};
}

Tensor Sum(const std::string& equation, const std::vector<Tensor>& inputs) {
  return test::Apply(Call(equation), inputs);
}

std::string Error(const std::string& equation, const std::vector<Tensor>& inputs) {
  const auto outputs = test::RunOp(Call(equation), inputs);
  return outputs.ok() ? "ok" : std::string(Message(outputs.status()));
}

Tensor Floats(Shape shape, std::initializer_list<float> values) {
  return Tensor::Of<float>(std::move(shape), values);
}

TEST(Einsum, SumsOverLabelsThatTheOutputLeavesOut) {
  const Tensor a = Arange({2, 3});
  EXPECT_TRUE(Close(Sum("ij,ji->", {a, Arange({3, 2})}), Floats({}, {50}), Exact()));
  EXPECT_TRUE(Close(Sum("ijk->i", {Arange({2, 3, 4})}), Floats({2}, {66, 210}), Exact()));
  EXPECT_TRUE(Close(Sum("ij->j", {a}), Floats({3}, {3, 5, 7}), Exact()));
  EXPECT_TRUE(Close(Sum("ij,j->i", {a, Floats({3}, {1, 0, 2})}), Floats({2}, {4, 13}), Exact()));
}

TEST(Einsum, WithoutAnOutputLabelsThatOccurOnceStayInAlphabeticalOrder) {
  const Tensor a = Arange({2, 3});
  EXPECT_TRUE(Close(Sum("ba", {a}), Floats({3, 2}, {0, 3, 1, 4, 2, 5}), Exact()));
  EXPECT_TRUE(
      Close(Sum(" ij , jk ", {a, Floats({3, 1}, {1, 1, 1})}), Floats({2, 1}, {3, 12}), Exact()));
  EXPECT_TRUE(Close(Sum("aB", {a}), Floats({3, 2}, {0, 3, 1, 4, 2, 5}), Exact()))
      << "capital letters come first";
}

TEST(Einsum, DiagonalsAndProductsOfManyOperands) {
  EXPECT_TRUE(Close(Sum("ii->i", {Arange({3, 3})}), Floats({3}, {0, 4, 8}), Exact()));
  EXPECT_TRUE(Close(Sum("ii,j,i->", {Arange({2, 2}), Floats({3}, {1, 2, 3}), Floats({2}, {5, 7})}),
                    Floats({}, {126}), Exact()));
  EXPECT_TRUE(Close(Sum("i,j->ij", {Floats({2}, {2, 3}), Floats({2}, {5, 7})}),
                    Floats({2, 2}, {10, 14, 15, 21}), Exact()));
}

TEST(Einsum, EllipsesBroadcastFromTheRight) {
  const Tensor a = Arange({2, 3});
  EXPECT_TRUE(Close(Sum("...,...->...", {a, Floats({3}, {1, 0, 2})}),
                    Floats({2, 3}, {0, 0, 4, 3, 0, 10}), Exact()));
  EXPECT_EQ(Sum("a...,b...,c...->...", {Arange({2, 3}), Arange({4, 3}), Arange({5, 3})}).shape(),
            Shape({3}));
  EXPECT_EQ(Sum("j,jk...->k...", {Arange({3}), Arange({3, 2, 4})}).shape(), Shape({2, 4}));
  EXPECT_EQ(Sum("...ij,...jk->...ik", {Arange({2, 1, 3, 4}), Arange({5, 4, 6})}).shape(),
            Shape({2, 5, 3, 6}));
}

TEST(Einsum, AnExtentOfOneBroadcastsAndOfZeroSumsToZero) {
  EXPECT_TRUE(Close(Sum("ij,j->i", {Floats({2, 1}, {2, 3}), Floats({3}, {1, 2, 3})}),
                    Floats({2}, {12, 18}), Exact()));
  EXPECT_TRUE(Close(Sum("ij,jk->ik", {Arange({2, 0}), Arange({0, 2})}),
                    Floats({2, 2}, {0, 0, 0, 0}), Exact()));
  EXPECT_EQ(Sum("ij->ji", {Arange({0, 3})}).shape(), Shape({3, 0}));
}

TEST(Einsum, IntegersWrap) {
  const Tensor x = Tensor::Of<uint8_t>({3}, {100, 100, 100});
  EXPECT_TRUE(Close(Sum("i->", {x}), Tensor::Of<uint8_t>({}, {44}), Exact()));
  EXPECT_TRUE(Close(Sum("i,i->i", {x, x}), Tensor::Of<uint8_t>({3}, {16, 16, 16}), Exact()));
}

TEST(Einsum, SaysWhatIsWrong) {
  const Tensor a = Arange({2, 3});
  EXPECT_EQ(Error("ij->ijj", {a}), "attribute 'equation' names 'j' twice in its output");
  EXPECT_EQ(Error("ij->ik", {a}), "attribute 'equation' names 'k' in its output alone");
  EXPECT_EQ(Error("i1->i", {a}),
            "attribute 'equation' has the term 'i1' where letters and one ellipsis are expected");
  EXPECT_EQ(Error("ij..->ij", {a}),
            "attribute 'equation' has the term 'ij..' where letters and one ellipsis are expected");
  EXPECT_EQ(Error("ij,jk->ik", {a}), "equation 'ij,jk->ik' has 2 terms where 1 inputs are given");
  EXPECT_EQ(Error("ijk->i", {a}),
            "input 0 has rank 2 where its term of equation 'ijk->i' has 3 labels");
  EXPECT_EQ(Error("ijk...->i", {a}),
            "input 0 has rank 2 where its term of equation 'ijk...->i' has at least 3 labels");
  EXPECT_EQ(Error("i...->i", {a}), "the output of equation 'i...->i' has no ellipsis for 1 axes");
  EXPECT_EQ(Error("ij,jk->ik", {a, Arange({4, 2})}),
            "input 1 has extent 4 of axis 0 where 3 is expected");
  EXPECT_EQ(Error("ij,jk->ik", {a, Tensor::Of<int32_t>({3, 1}, {1, 2, 3})}),
            "input 1 is of type int32 where float, the type of input 0, is expected");
}

// What the operator says of batches of two inputs [N,3,4] and [N,4,5] on these axes (-1: shared).
std::string Batch(const std::string& equation, std::optional<int> a, std::optional<int> b) {
  const Dim n = Dim::Symbol("N");
  const graph::Graph graph = test::GraphBuilder()
                                 .Input("a", DType::kFloat, {n, 3, 4})
                                 .Input("b", DType::kFloat, {n, 4, 5})
                                 .Node("Einsum", {"a", "b"}, {"y"}, {{"equation", equation}})
                                 .Output("y")
                                 .Build();
  const graph::Node& node = graph.node(graph.order()[0]);
  const ops::ValueFacts left = ops::FactsOf(graph.value(node.inputs[0]));
  const ops::ValueFacts right = ops::FactsOf(graph.value(node.inputs[1]));
  const ops::ValueFacts result = ops::FactsOf(graph.value(node.outputs[0]));
  const std::vector<std::optional<int>> axes = {a, b};
  const std::vector<const ops::ValueFacts*> inputs = {&left, &right};
  const std::vector<const ops::ValueFacts*> outputs = {&result};
  const ops::BatchAnswer answer =
      ops::OpOf(node).Batch({node, graph::Dim::Symbol("N"), axes, inputs, outputs});
  return answer.declined.value_or(
      answer.outputs.empty() ? "" : fmt::format("axis {}", answer.outputs[0].value_or(-1)));
}

TEST(Einsum, CarriesABatchThatKeepsItsLabel) {
  EXPECT_EQ(Batch("bij,bjk->bik", 0, 0), "axis 0");
  EXPECT_EQ(Batch("bij,bjk->ibk", 0, 0), "axis 1");
  EXPECT_EQ(Batch("bij,cjk->bik", 0, std::nullopt), "axis 0");
  EXPECT_EQ(Batch("bij,bjk->ik", 0, 0), "it sums over the batch");
  EXPECT_EQ(Batch("bij,cjk->bc", 0, 0), "the batch has two labels");
  EXPECT_EQ(Batch("bij,bjk->bik", 0, std::nullopt),
            "items are combined with one another or with a shared axis");
}

}  // namespace
}  // namespace tandem
