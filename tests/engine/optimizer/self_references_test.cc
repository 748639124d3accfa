// Formulas whose operand is a value on their own way: a fused node would read what it replaces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/optimizer/rewrite_testing.h"
#include "tests/support/random_tensor.h"

namespace tandem::optimizer::test {
namespace {

using tandem::test::GraphBuilder;
using tandem::test::RandomFloats;
using tandem::test::Reduction;
using testing::Contains;
using testing::Field;
using Ints = std::vector<int64_t>;

// The whole pipeline leaves the answers alone, and `pass` says that `value` stands in the way.
void ExpectLeftAlone(const std::string& pass, const std::string& value, GraphBuilder& builder) {
  const PassOutcome outcome =
      RunRewrite([](graph::Graph& graph,
                    graph::ConstantStore& constants) { return Optimize(graph, constants, {}); },
                 builder, Reduction(40));
  EXPECT_THAT(outcome.report.declines,
              Contains(testing::AllOf(
                  Field(&Decline::pass, pass), Field(&Decline::numbers, "'" + value + "'"),
                  Field(&Decline::rule, "what only the replaced nodes make is still read"))));
}

// Scores s of q and k, both [1, 5, 8].
struct Attention : GraphBuilder {
  Attention() : GraphBuilder(13) {
    Input("q", DType::kFloat, {1, 5, 8}).Input("k", DType::kFloat, {1, 5, 8});
    Node("Transpose", {"k"}, {"t"}, {{"perm", Ints{0, 2, 1}}}).Node("MatMul", {"q", "t"}, {"s"});
  }
};

TEST(SelfReferences, WeightsOfAnAttentionMayBeItsValues) {
  Attention builder;
  builder.Node("Softmax", {"s"}, {"p"}).Node("MatMul", {"p", "p"}, {"y"}).Output("y");
  ExpectLeftAlone("fuse_attention", "p", builder);
}

TEST(SelfReferences, ScoresOfAnAttentionMayBeItsMask) {
  Attention builder;
  builder.Input("v", DType::kFloat, {1, 5, 4}).Constant("half", Tensor::Scalar(0.5F));
  builder.Node("Mul", {"s", "half"}, {"h"}).Node("Add", {"h", "s"}, {"m"});
  builder.Node("Softmax", {"m"}, {"p"}).Node("MatMul", {"p", "v"}, {"y"}).Output("y");
  ExpectLeftAlone("fuse_attention", "s", builder);
}

TEST(SelfReferences, TransposedKeysOfAnAttentionMayBeItsQueries) {
  GraphBuilder builder(13);
  builder.Input("k", DType::kFloat, {1, 6, 6}).Input("v", DType::kFloat, {1, 6, 4});
  builder.Node("Transpose", {"k"}, {"t"}, {{"perm", Ints{0, 2, 1}}});
  builder.Node("MatMul", {"t", "t"}, {"s"}).Node("Softmax", {"s"}, {"p"});
  builder.Node("MatMul", {"p", "v"}, {"y"}).Output("y");
  ExpectLeftAlone("fuse_attention", "t", builder);
}

// n = d / sqrt(mean(d^2) + epsilon) of x [7], d its deviation from the mean or x itself.
struct Norm : GraphBuilder {
  explicit Norm(const std::string& d) : GraphBuilder(13) {
    Input("x", DType::kFloat, {7}).Constant("epsilon", Tensor::Scalar(1e-3F));
    Constant("c", RandomFloats({7}, 1));
    const graph::Attributes last = {{"axes", Ints{-1}}};
    if (d != "x") Node("ReduceMean", {"x"}, {"m"}, last).Node("Sub", {"x", "m"}, {d});
    Node("Mul", {d, d}, {"p"}).Node("ReduceMean", {"p"}, {"v"}, last);
    Node("Add", {"v", "epsilon"}, {"w"}).Node("Sqrt", {"w"}, {"r"}).Node("Div", {d, "r"}, {"n"});
  }
};

TEST(SelfReferences, ANormMayBeItsOwnScale) {
  Norm builder("x");
  builder.Node("Mul", {"n", "n"}, {"y"}).Output("y");
  ExpectLeftAlone("fuse_rms_norm", "n", builder);
}

TEST(SelfReferences, ADeviationMayBeScaleOrBiasOfItsNorm) {
  Norm scale("d");
  scale.Node("Mul", {"n", "d"}, {"s"}).Node("Add", {"s", "c"}, {"y"}).Output("y");
  ExpectLeftAlone("fuse_layer_norm", "d", scale);
  Norm bias("d");
  bias.Node("Mul", {"n", "c"}, {"s"}).Node("Add", {"s", "d"}, {"y"}).Output("y");
  ExpectLeftAlone("fuse_layer_norm", "d", bias);
}

}  // namespace
}  // namespace tandem::optimizer::test
