// Every pass on what looks like its case and is none: the graph stays what it is, node by node.
#include <gtest/gtest.h>

#include "tests/engine/optimizer/pass_testing.h"
#include "tests/support/random_tensor.h"

namespace tandem::optimizer::test {
namespace {

using tandem::test::Exact;
using tandem::test::GraphBuilder;
using tandem::test::Reduction;

graph::Attributes Perm(std::vector<int64_t> perm) { return {{"perm", std::move(perm)}}; }

graph::Attributes To(DType dtype) { return {{"to", static_cast<int64_t>(dtype)}}; }

// x [2,3,4] and shapes.
struct Builder : GraphBuilder {
  Builder() {
    Input("x", DType::kFloat, {2, 3, 4});
    Constant("flat", Tensor::Of<int64_t>({2}, {6, 4}));
    Constant("back", Tensor::Of<int64_t>({3}, {3, 2, 4}));
  }
};

void ExpectUnchanged(std::string_view pass, GraphBuilder& builder) {
  EXPECT_TRUE(RunPass(pass, builder, Exact()).unchanged);
}

TEST(UnsafeCases, AnIdentityFromAnInputToAnOutputStays) {
  Builder builder;
  builder.Node("Identity", {"x"}, {"y"}).Output("y");
  ExpectUnchanged("drop_identity", builder);
}

TEST(UnsafeCases, AnIdentityBetweenTwoOutputsStays) {
  Builder builder;
  builder.Node("Reshape", {"x", "flat"}, {"h"}).Node("Identity", {"h"}, {"y"});
  builder.Output("h").Output("y");
  ExpectUnchanged("drop_identity", builder);
}

TEST(UnsafeCases, ADropoutWhoseMaskIsReadStaysAndSaysSo) {
  Builder builder;
  builder.Node("Dropout", {"x"}, {"d", "mask"}, {}, "drop")
      .Node("Cast", {"mask"}, {"m"}, To(DType::kFloat))
      .Node("Add", {"d", "m"}, {"y"})
      .Output("y");
  const PassOutcome outcome = RunPass("drop_identity", builder, Exact());
  ExpectDeclined(outcome, "the mask is read");
  EXPECT_EQ(outcome.report.declines.at(0).node, "node 'drop' (Dropout)");
  EXPECT_EQ(outcome.report.declines.at(0).role, "output 1 (mask)");
}

TEST(UnsafeCases, CastsThereAndBackStay) {
  Builder builder;
  builder.Node("Cast", {"x"}, {"i"}, To(DType::kInt32))
      .Node("Cast", {"i"}, {"f"}, To(DType::kFloat))
      .Node("Relu", {"f"}, {"y"})
      .Output("y");
  ExpectUnchanged("drop_noop", builder);
}

TEST(UnsafeCases, TransposesThatAreNoInversesStay) {
  Builder builder;
  builder.Node("Transpose", {"x"}, {"a"}, Perm({1, 2, 0}))
      .Node("Transpose", {"a"}, {"b"}, Perm({1, 2, 0}))
      .Node("Relu", {"b"}, {"y"})
      .Output("y");
  ExpectUnchanged("drop_noop", builder);
}

TEST(UnsafeCases, ReshapesToOtherExtentsOfAsManyElementsStay) {
  Builder builder;
  builder.Node("Reshape", {"x", "flat"}, {"a"})
      .Node("Reshape", {"a", "back"}, {"b"})
      .Node("Relu", {"b"}, {"y"})
      .Output("y");
  ExpectUnchanged("drop_noop", builder);
}

TEST(UnsafeCases, AReshapeBehindSomethingElseStays) {
  Builder builder;
  builder.Constant("own", Tensor::Of<int64_t>({3}, {2, 3, 4}));
  builder.Node("Reshape", {"x", "flat"}, {"a"})
      .Node("Softmax", {"a"}, {"s"}, {{"axis", int64_t{0}}})
      .Node("Reshape", {"s", "own"}, {"y"})
      .Output("y");
  ExpectUnchanged("drop_noop", builder);
}

TEST(UnsafeCases, AnEinsumThatIsNoProductStays) {
  struct Case {
    const char* equation;
    graph::DimVector a, b;
  };
  for (const Case& c : {Case{"ii,ij->j", {3, 3}, {3, 4}}, Case{"ijk,j->i", {3, 4, 2}, {4}},
                        Case{"ij,jk->ik", {3, 1}, {4, 5}}}) {
    SCOPED_TRACE(c.equation);
    GraphBuilder builder;
    builder.Input("a", DType::kFloat, c.a).Input("b", DType::kFloat, c.b);
    builder.Node("Einsum", {"a", "b"}, {"y"}, {{"equation", std::string(c.equation)}}).Output("y");
    EXPECT_TRUE(RunPass("lower", builder, Reduction(64)).unchanged);
  }
}

TEST(UnsafeCases, AGemmOfTwoInputsThatScalesNothingStays) {
  GraphBuilder builder;
  builder.Input("a", DType::kFloat, {3, 4}).Input("b", DType::kFloat, {4, 5});
  builder.Node("Gemm", {"a", "b"}, {"y"}).Output("y");
  EXPECT_TRUE(RunPass("lower", builder, Exact()).unchanged);
}

// A vector as long as the image is wide and as the channels are many scales columns of the image.
TEST(UnsafeCases, AVectorBehindAConvolutionIsNoNormalization) {
  GraphBuilder builder;
  builder.Input("x", DType::kFloat, {2, 3, 6, 5}).Constant("v", tandem::test::RandomFloats({5}, 2));
  builder.Constant("w", tandem::test::RandomFloats({5, 3, 1, 1}, 1));
  builder.Node("Conv", {"x", "w"}, {"c"}).Node("Mul", {"c", "v"}, {"y"}).Output("y");
  ExpectUnchanged("fold_batch_norm", builder);
}

}  // namespace
}  // namespace tandem::optimizer::test
