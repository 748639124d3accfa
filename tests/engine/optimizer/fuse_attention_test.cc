#include <gtest/gtest.h>

#include "tests/engine/optimizer/pass_testing.h"
#include "tests/support/random_tensor.h"

namespace tandem::optimizer::test {
namespace {

using tandem::test::GraphBuilder;
using tandem::test::RandomFloats;
using tandem::test::Reduction;
using Ints = std::vector<int64_t>;

// q [2, 3, 5, 8], k [2, 3, 7, 8] and v [2, 3, 7, 4].
struct Builder : GraphBuilder {
  Builder() : GraphBuilder(13) {
    Input("q", DType::kFloat, {2, 3, 5, 8}).Input("k", DType::kFloat, {2, 3, 7, 8});
    Input("v", DType::kFloat, {2, 3, 7, 4});
    Constant("root", Tensor::Scalar(2.8284271F)).Constant("third", Tensor::Scalar(0.3F));
  }
  void Transpose() { Node("Transpose", {"k"}, {"t"}, {{"perm", Ints{0, 1, 3, 2}}}); }
  void Finish(const std::string& scores) {
    Node("Softmax", {scores}, {"p"}, {{"axis", int64_t{-1}}});
    Node("MatMul", {"p", "v"}, {"y"}).Output("y");
  }
};

PassOutcome Fuse(Builder& builder) { return RunPass("fuse_attention", builder, Reduction(40)); }

const graph::Node& Last(const PassOutcome& outcome) {
  return outcome.graph.node(outcome.graph.order().back());
}

void ExpectFused(Builder& builder, float scale, size_t nodes = 1) {
  const PassOutcome outcome = Fuse(builder);
  ASSERT_EQ(outcome.graph.order().size(), nodes);
  EXPECT_EQ(Last(outcome).op_type, "Attention");
  EXPECT_FLOAT_EQ(Last(outcome).attributes.at("scale").get<float>(), scale);
}

TEST(FuseAttention, AScaleOfTheProduct) {
  Builder builder;
  builder.Transpose();
  builder.Node("MatMul", {"q", "t"}, {"s"}).Node("Div", {"s", "root"}, {"d"});
  builder.Finish("d");
  ExpectFused(builder, 1 / 2.8284271F);
}

TEST(FuseAttention, AScaleOfQueriesAndKeys) {
  Builder builder;
  builder.Node("Div", {"q", "root"}, {"a"}).Node("Mul", {"third", "k"}, {"b"});
  builder.Node("Transpose", {"b"}, {"t"}, {{"perm", Ints{0, 1, 3, 2}}});
  builder.Node("MatMul", {"a", "t"}, {"s"});
  builder.Finish("s");
  ExpectFused(builder, 0.3F / 2.8284271F);
}

TEST(FuseAttention, NoScaleAndAMaskInEitherOrder) {
  for (const bool first : {false, true}) {
    for (const graph::DimVector& dims :
         {graph::DimVector{5, 7}, {1, 7}, {3, 5, 7}, {2, 1, 1, 7}, {2, 3, 5, 7}}) {
      Builder builder;
      builder.Transpose();
      builder.Input("mask", DType::kFloat, dims).Node("MatMul", {"q", "t"}, {"s"});
      if (first) {
        builder.Node("Add", {"mask", "s"}, {"m"});
      } else {
        builder.Node("Add", {"s", "mask"}, {"m"});
      }
      builder.Finish("m");
      ExpectFused(builder, 1);
    }
  }
}

TEST(FuseAttention, AKeyPermutedFurtherIsBroughtToHeadsFirst) {
  Builder builder;
  builder.Input("rows", DType::kFloat, {2, 7, 3, 8});
  builder.Node("Transpose", {"rows"}, {"t"}, {{"perm", Ints{0, 2, 3, 1}}});
  builder.Node("MatMul", {"q", "t"}, {"s"});
  builder.Finish("s");
  const PassOutcome outcome = Fuse(builder);
  ASSERT_EQ(outcome.graph.order().size(), 2u);
  const graph::Node& transpose = outcome.graph.node(outcome.graph.order()[0]);
  EXPECT_EQ(transpose.attributes.at("perm").get<Ints>(), (Ints{0, 2, 1, 3}));
}

TEST(FuseAttention, ThreeAxesAreItemsOfOneHead) {
  Builder builder;
  builder.Input("q3", DType::kFloat, {6, 5, 8}).Input("k3", DType::kFloat, {7, 6, 8});
  builder.Input("v3", DType::kFloat, {6, 7, 4});
  builder.Node("Transpose", {"k3"}, {"t"}, {{"perm", Ints{1, 2, 0}}});
  builder.Node("MatMul", {"q3", "t"}, {"s"}).Node("Softmax", {"s"}, {"p"});
  builder.Node("MatMul", {"p", "v3"}, {"y"}).Output("y");
  const PassOutcome outcome = Fuse(builder);
  ASSERT_EQ(outcome.graph.order().size(), 2u);
  EXPECT_EQ(Last(outcome).attributes.at("q_num_heads").get<int64_t>(), 1);
}

TEST(FuseAttention, ASoftmaxAlongQueriesStopsIt) {
  Builder builder;
  builder.Transpose();
  builder.Node("MatMul", {"q", "t"}, {"s"}).Node("Softmax", {"s"}, {"p"}, {{"axis", int64_t{2}}});
  builder.Node("MatMul", {"p", "v"}, {"y"}).Output("y");
  EXPECT_TRUE(Fuse(builder).unchanged);
}

TEST(FuseAttention, AScaleByElementsIsNone) {
  Builder builder;
  builder.Constant("each", RandomFloats({7}, 1, 0.5F, 2));
  builder.Transpose();
  builder.Node("MatMul", {"q", "t"}, {"s"}).Node("Mul", {"s", "each"}, {"d"});
  builder.Finish("d");
  EXPECT_TRUE(Fuse(builder).unchanged);
}

TEST(FuseAttention, KeysThatBroadcastOverItemsStopItWithTheReason) {
  Builder builder;
  builder.Input("shared", DType::kFloat, {1, 3, 7, 8});
  builder.Node("Transpose", {"shared"}, {"t"}, {{"perm", Ints{0, 1, 3, 2}}});
  builder.Node("MatMul", {"q", "t"}, {"s"});
  builder.Finish("s");
  ExpectDeclined(Fuse(builder), "leading axes");
}

TEST(FuseAttention, AMaskThatBroadcastsOverKeysStopsItWithTheReason) {
  Builder builder;
  builder.Transpose();
  builder.Input("mask", DType::kFloat, {5, 1}).Node("MatMul", {"q", "t"}, {"s"});
  builder.Node("Add", {"s", "mask"}, {"m"});
  builder.Finish("m");
  ExpectDeclined(Fuse(builder), "extents of the scores");
}

TEST(FuseAttention, AValueOnTheWayThatIsAnOutputStopsIt) {
  ExpectOutputsOnTheWayStopIt({"t", "s", "m", "p"}, [](const std::string& value) {
    Builder builder;
    builder.Transpose();
    builder.Input("mask", DType::kFloat, {5, 7}).Node("MatMul", {"q", "t"}, {"s"});
    builder.Node("Add", {"s", "mask"}, {"m"});
    builder.Finish("m");
    builder.Output(value);
    return Fuse(builder);
  });
}

}  // namespace
}  // namespace tandem::optimizer::test
