// Einsum as simpler operators: which equations become one matrix product, with equal numbers.
#include <gtest/gtest.h>

#include "tests/engine/optimizer/pass_testing.h"

namespace tandem::optimizer::test {
namespace {

using tandem::test::GraphBuilder;
using tandem::test::Reduction;
using Names = std::vector<std::string>;

// The operators that the equation becomes for inputs of these shapes.
Names Lowered(const std::string& equation, const std::vector<graph::DimVector>& dims) {
  GraphBuilder builder;
  Names names;
  for (const graph::DimVector& shape : dims) {
    names.push_back(fmt::format("x{}", names.size()));
    builder.Input(names.back(), DType::kFloat, shape);
  }
  builder.Node("Einsum", names, {"y"}, {{"equation", equation}}).Output("y");
  const PassOutcome outcome = RunPass("lower", builder, Reduction(64));
  Names ops;
  for (const graph::NodeId id : outcome.graph.order()) {
    ops.push_back(outcome.graph.node(id).op_type);
  }
  return ops;
}

TEST(LowerEinsum, AProductInTheRightOrderIsOneMatMul) {
  EXPECT_EQ(Lowered("ij,jk->ik", {{3, 4}, {4, 5}}), (Names{"MatMul"}));
  EXPECT_EQ(Lowered("bhij,bhjd->bhid", {{2, 3, 4, 5}, {2, 3, 5, 6}}), (Names{"MatMul"}));
  EXPECT_EQ(Lowered("...ij,...jk->...ik", {{2, 3, 4}, {2, 4, 5}}), (Names{"MatMul"}));
  EXPECT_EQ(Lowered("bsd,de->bse", {{2, 3, 4}, {4, 5}}), (Names{"MatMul"}));
}

TEST(LowerEinsum, AttentionTransposesItsKeys) {
  EXPECT_EQ(Lowered("bhid,bhjd->bhij", {{2, 3, 4, 5}, {2, 3, 6, 5}}),
            (Names{"Transpose", "MatMul"}));
  EXPECT_EQ(Lowered("btnh,bsnh->bnts", {{2, 3, 4, 5}, {2, 6, 4, 5}}),
            (Names{"Transpose", "Transpose", "MatMul"}));
  EXPECT_EQ(Lowered("bnts,bsnh->btnh", {{2, 3, 4, 5}, {2, 5, 3, 6}}),
            (Names{"Transpose", "MatMul", "Transpose"}));
}

TEST(LowerEinsum, SeveralLabelsOfOneKindAreMerged) {
  EXPECT_EQ(Lowered("bsd,dnh->bsnh", {{2, 3, 4}, {4, 5, 6}}),
            (Names{"Reshape", "MatMul", "Reshape"}));
  EXPECT_EQ(Lowered("bsnh,nhd->bsd", {{2, 3, 4, 5}, {4, 5, 6}}),
            (Names{"Reshape", "Reshape", "MatMul"}));
  EXPECT_EQ(Lowered("bhwc,hkc->bhwk", {{2, 3, 4, 5}, {3, 6, 5}}),
            (Names{"Transpose", "Reshape", "Transpose", "MatMul", "Reshape", "Transpose"}));
  // The same number of axes before and after, but others.
  EXPECT_EQ(Lowered("k,knm->nm", {{4}, {4, 5, 6}}),
            (Names{"Reshape", "Reshape", "MatMul", "Reshape"}));
}

TEST(LowerEinsum, DotAndOuterProducts) {
  EXPECT_EQ(Lowered("i,i->", {{3}, {3}}), (Names{"Reshape", "Reshape", "MatMul", "Reshape"}));
  EXPECT_EQ(Lowered("bd,bd->b", {{2, 3}, {2, 3}}),
            (Names{"Reshape", "Reshape", "MatMul", "Reshape"}));
  EXPECT_EQ(Lowered("i,j->ij", {{3}, {4}}), (Names{"Reshape", "Reshape", "MatMul"}));
}

TEST(LowerEinsum, MoreThanTwoOperandsAreCombinedInTheirOrder) {
  EXPECT_EQ(Lowered("bij,bjk,bkl->bil", {{2, 3, 4}, {2, 4, 5}, {2, 5, 6}}),
            (Names{"MatMul", "MatMul"}));
}

TEST(LowerEinsum, OthersStay) {
  EXPECT_EQ(Lowered("ij->ji", {{3, 4}}), (Names{"Einsum"}));
  EXPECT_EQ(Lowered("ii,ij->j", {{3, 3}, {3, 4}}), (Names{"Einsum"})) << "a diagonal";
  EXPECT_EQ(Lowered("ijk,j->i", {{3, 4, 2}, {4}}), (Names{"Einsum"})) << "k is summed alone";
  EXPECT_EQ(Lowered("ij,jk->ik", {{3, 1}, {4, 5}}), (Names{"Einsum"})) << "j broadcasts";
  EXPECT_EQ(Lowered("ij,jk->ik", {{3, 0}, {0, 5}}), (Names{"MatMul"}));
}

TEST(LowerEinsum, SymbolicBatchesAndLengthsLower) {
  const graph::Dim n = graph::Dim::Symbol("N");
  const graph::Dim s = graph::Dim::Symbol("S");
  const auto lowered = [&](const std::string& equation, const graph::DimVector& a,
                           const graph::DimVector& b) {
    GraphBuilder builder;
    graph::Graph graph = builder.Input("a", DType::kFloat, a)
                             .Input("b", DType::kFloat, b)
                             .Node("Einsum", {"a", "b"}, {"y"}, {{"equation", equation}})
                             .Output("y")
                             .Build();
    const auto report = Optimize(graph, builder.constants(), {});
    EXPECT_TRUE(report.ok()) << Message(report.status());
    Names ops;
    for (const graph::NodeId id : graph.order()) ops.push_back(graph.node(id).op_type);
    return ops;
  };
  EXPECT_EQ(lowered("bhid,bhjd->bhij", {n, 3, s, 5}, {n, 3, s, 5}), (Names{"Transpose", "MatMul"}));
  EXPECT_EQ(lowered("bsd,dnh->bsnh", {n, s, 4}, {4, 5, 6}),
            (Names{"Reshape", "MatMul", "Reshape"}));
  EXPECT_EQ(lowered("bij,bjk->bik", {n, 3, 4}, {s, 4, 5}), (Names{"Einsum"})) << "N or S may be 1";
}

}  // namespace
}  // namespace tandem::optimizer::test
