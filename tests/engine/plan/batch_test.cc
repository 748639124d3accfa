// Which models join requests: the number of items may shape a result, never be part of it.
#include "engine/plan/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem::plan {
namespace {

using test::GraphBuilder;
using test::RandomFloats;
using testing::HasSubstr;
using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");

// Input x [N, 4, 6]; n is the number of items as int64 [1].
struct Builder : GraphBuilder {
  Builder() {
    Input("x", DType::kFloat, {kN, 4, 6});
    Constant("zero", Tensor::Of<int64_t>({1}, {0})).Constant("one", Tensor::Of<int64_t>({1}, {1}));
    Constant("minus", Tensor::Of<int64_t>({1}, {-1}))
        .Constant("four", Tensor::Of<int64_t>({1}, {4}));
    Constant("six", Tensor::Of<int64_t>({1}, {6}));
    Node("Shape", {"x"}, {"shape"}).Node("Gather", {"shape", "zero"}, {"n"});
  }
  void Float() { Node("Cast", {"n"}, {"f"}, {{"to", int64_t{1}}}); }
};

BatchAnalysis Analyze(Builder& builder) {
  builder.Output("y");
  return AnalyzeBatch(builder.Build(), {});
}

void ExpectDeclined(Builder& builder, const std::string& text) {
  const BatchAnalysis analysis = Analyze(builder);
  EXPECT_FALSE(analysis.joinable);
  EXPECT_THAT(analysis.reason, HasSubstr(text));
}

TEST(Batch, AnElementwiseModelJoins) {
  Builder builder;
  builder.Node("Relu", {"x"}, {"y"});
  const BatchAnalysis analysis = Analyze(builder);
  EXPECT_TRUE(analysis.joinable) << analysis.reason;
}

TEST(Batch, TheNumberOfItemsMayShapeAReshape) {
  Builder builder;
  builder.Node("Concat", {"n", "minus"}, {"s"}, {{"axis", int64_t{0}}});
  builder.Node("Reshape", {"x", "s"}, {"y"});
  const BatchAnalysis analysis = Analyze(builder);
  EXPECT_TRUE(analysis.joinable) << analysis.reason;
}

TEST(Batch, ItemsMayBeSeveralRowsThatComeInRounds) {
  Builder builder;
  builder.Constant("rows", Tensor::Of<int64_t>({2}, {-1, 6}))
      .Constant("rounds", Tensor::Of<int64_t>({3}, {4, -1, 6}));
  builder.Node("Transpose", {"x"}, {"t"}, {{"perm", Ints{1, 0, 2}}})
      .Node("Reshape", {"t", "rows"}, {"r"})
      .Node("Softmax", {"r"}, {"s"})
      .Node("Reshape", {"s", "rounds"}, {"u"})
      .Node("Transpose", {"u"}, {"y"}, {{"perm", Ints{1, 0, 2}}});
  const BatchAnalysis analysis = Analyze(builder);
  EXPECT_TRUE(analysis.joinable) << analysis.reason;
}

TEST(Batch, RowsOfDifferentItemsDoNotMeet) {
  Builder builder;
  builder.Constant("rows", Tensor::Of<int64_t>({2}, {-1, 6}))
      .Constant("back", Tensor::Of<int64_t>({3}, {-1, 4, 6}));
  builder.Node("Transpose", {"x"}, {"t"}, {{"perm", Ints{1, 0, 2}}})
      .Node("Reshape", {"t", "rows"}, {"rounds"})
      .Node("Reshape", {"x", "rows"}, {"items"})
      .Node("Add", {"rounds", "items"}, {"a"})
      .Node("Reshape", {"a", "back"}, {"y"});
  ExpectDeclined(builder, "'rounds' and 'items' hold the items in different ways");
}

// One column alone is summed as a row is, several are summed side by side.
TEST(Batch, SumsThatTakeAnotherOrderForOneItemStopIt) {
  const graph::Attributes last = {{"perm", Ints{1, 2, 0}}};
  const graph::Attributes back = {{"perm", Ints{2, 0, 1}}};
  Builder softmax;
  softmax.Node("Transpose", {"x"}, {"t"}, last)
      .Node("Softmax", {"t"}, {"s"}, {{"axis", int64_t{1}}})
      .Node("Transpose", {"s"}, {"y"}, back);
  ExpectDeclined(softmax, "the order of its sums depends on the number of items");

  Builder around;
  around.Node("Transpose", {"x"}, {"t"}, {{"perm", Ints{1, 0, 2}}})
      .Node("ReduceMean", {"t"}, {"m"}, {{"axes", Ints{0, 2}}})
      .Node("Transpose", {"m"}, {"y"}, {{"perm", Ints{1, 0, 2}}});
  ExpectDeclined(around, "the order of its sums depends on the number of items");

  Builder columns;
  columns.Node("Transpose", {"x"}, {"t"}, last)
      .Node("Softmax", {"t"}, {"s"}, {{"axis", int64_t{0}}})
      .Node("Transpose", {"s"}, {"u"}, back)
      .Node("Transpose", {"u"}, {"v"}, {{"perm", Ints{1, 0, 2}}})
      .Node("ReduceSum", {"v", "zero"}, {"m"})
      .Node("Transpose", {"m"}, {"y"}, {{"perm", Ints{1, 0, 2}}});
  const BatchAnalysis analysis = Analyze(columns);
  EXPECT_TRUE(analysis.joinable) << analysis.reason;
}

TEST(Batch, AConstantRepeatedForEveryItemCarriesTheBatch) {
  for (const bool fill : {false, true}) {
    Builder builder;
    builder.Constant("token", RandomFloats({1, 1, 6}, 1));
    builder.Node("Concat", {"n", "one", "six"}, {"s"}, {{"axis", int64_t{0}}});
    if (fill) {
      builder.Node("ConstantOfShape", {"s"}, {"t"});
    } else {
      builder.Node("Expand", {"token", "s"}, {"t"});
    }
    builder.Node("Concat", {"t", "x"}, {"y"}, {{"axis", int64_t{1}}});
    const BatchAnalysis analysis = Analyze(builder);
    EXPECT_TRUE(analysis.joinable) << analysis.reason;
  }
}

TEST(Batch, TheNumberOfItemsAsAnOperandStopsIt) {
  Builder builder;
  builder.Float();
  builder.Node("Div", {"x", "f"}, {"y"});
  ExpectDeclined(builder, "'f' depends on the number of items");
}

TEST(Batch, TheSizeOfTheBatchAsAnOperandStopsIt) {
  Builder builder;
  builder.Node("Size", {"x"}, {"size"}).Node("Cast", {"size"}, {"f"}, {{"to", int64_t{1}}});
  builder.Node("Mul", {"x", "f"}, {"y"});
  ExpectDeclined(builder, "'f' depends on the number of items");
}

TEST(Batch, TheNumberOfItemsAsABoundOrAChoiceStopsIt) {
  {
    Builder builder;
    builder.Node("Slice", {"x", "zero", "n", "one"}, {"y"});
    ExpectDeclined(builder, "'n' depends on the number of items");
  }
  {
    Builder builder;
    builder.Node("Gather", {"x", "n"}, {"y"}, {{"axis", int64_t{1}}});
    ExpectDeclined(builder, "'n' depends on the number of items");
  }
  {
    Builder builder;
    builder.Float();
    builder.Node("Greater", {"x", "f"}, {"y"});
    ExpectDeclined(builder, "'f' depends on the number of items");
  }
}

TEST(Batch, AnAxisAsLongAsTheBatchStopsIt) {
  Builder builder;
  builder.Constant("token", RandomFloats({1, 1}, 1));
  builder.Node("Concat", {"n", "n"}, {"s"}, {{"axis", int64_t{0}}});
  builder.Node("Expand", {"token", "s"}, {"y"});
  ExpectDeclined(builder, "depends on the number of items");
}

TEST(Batch, PositionsWithinTheBatchStopIt) {
  Builder builder;
  builder.Constant("start", Tensor::Scalar<int64_t>(0))
      .Constant("step", Tensor::Scalar<int64_t>(1));
  builder.Node("Squeeze", {"n", "zero"}, {"count"})
      .Node("Range", {"start", "count", "step"}, {"r"});
  builder.Node("Cast", {"r"}, {"f"}, {{"to", int64_t{1}}});
  builder.Constant("axes", Tensor::Of<int64_t>({2}, {1, 2}));
  builder.Node("Unsqueeze", {"f", "axes"}, {"column"}).Node("Add", {"x", "column"}, {"y"});
  ExpectDeclined(builder, "'column' depends on the number of items");
}

// An extent of `value`, as a float.
void AddExtent(const std::string& value, const std::string& axis, Builder& builder) {
  builder.Node("Shape", {value}, {"extents"})
      .Node("Gather", {"extents", axis}, {"c"})
      .Node("Cast", {"c"}, {"f"}, {{"to", int64_t{1}}});
}

TEST(Batch, AnExtentNextToTheBatchIsNoObstacle) {
  Builder builder;
  AddExtent("x", "one", builder);
  builder.Node("Div", {"x", "f"}, {"y"});
  const BatchAnalysis analysis = Analyze(builder);
  EXPECT_TRUE(analysis.joinable) << analysis.reason;
}

// As exporters cut tables of positions to the length of a text.
TEST(Batch, AnOpenExtentNextToTheBatchIsNoObstacle) {
  Builder builder;
  builder.Input("t", DType::kFloat, {kN, graph::Dim::Symbol("length")})
      .Constant("table", RandomFloats({1, 9}, 1));
  builder.Node("Shape", {"t"}, {"extents"})
      .Node("Gather", {"extents", "one"}, {"length"})
      .Node("Slice", {"table", "zero", "length", "one"}, {"cut"})
      .Node("Add", {"t", "cut"}, {"y"});
  const BatchAnalysis analysis = Analyze(builder);
  EXPECT_TRUE(analysis.joinable) << analysis.reason;
}

TEST(Batch, AnExtentWithoutANameIsNoObstacle) {
  Builder builder;
  builder.Input("t", DType::kFloat, {kN, graph::Dim(), 6});
  builder.Node("Relu", {"t"}, {"r"});
  AddExtent("r", "one", builder);
  builder.Node("Div", {"t", "f"}, {"y"});
  const BatchAnalysis analysis = Analyze(builder);
  EXPECT_TRUE(analysis.joinable) << analysis.reason;
}

TEST(Batch, TheBatchMovedAsideStillCounts) {
  Builder builder;
  builder.Node("Transpose", {"x"}, {"moved"}, {{"perm", Ints{1, 0, 2}}});
  AddExtent("moved", "one", builder);
  builder.Node("Div", {"x", "f"}, {"y"});
  ExpectDeclined(builder, "'f' depends on the number of items");
}

TEST(Batch, AProductWithTheNumberOfItemsStopsIt) {
  Builder builder;
  AddExtent("x", "one", builder);
  builder.Node("Mul", {"c", "n"}, {"elements"})
      .Node("Cast", {"elements"}, {"e"}, {{"to", int64_t{1}}})
      .Node("Div", {"x", "e"}, {"y"});
  ExpectDeclined(builder, "'e' depends on the number of items");
}

// Why y = a + b does not join; nothing is known of the rank of an input without extents.
std::string ReasonFor(const std::optional<graph::DimVector>& a, const graph::DimVector& b) {
  GraphBuilder builder;
  builder.Input("a", DType::kFloat, a.value_or(graph::DimVector()));
  builder.Input("b", DType::kFloat, b).Node("Relu", {"b"}, {"y"}).Output("y");
  graph::Graph graph = builder.Build();
  if (!a) graph.mutable_value(graph.FindValue("a")).type.dims.reset();
  const BatchAnalysis analysis = AnalyzeBatch(graph, {});
  EXPECT_EQ(analysis.reason.empty(), analysis.joinable);
  return analysis.reason;
}

TEST(Batch, AFirstExtentThatIsFixedIsCalledSo) {
  EXPECT_EQ(ReasonFor({{4, 2}}, {4, 2}), "the first extent of 'a' is fixed at 4");
  EXPECT_EQ(ReasonFor({{kN, 2}}, {7}), "the first extent of 'b' is fixed at 7, and N is the batch");
  EXPECT_EQ(ReasonFor({{1, 2}}, {4}), "the first extent of 'b' is fixed at 4, and 1 is the batch");
}

TEST(Batch, AFirstExtentThatIsAnotherOneIsNamed) {
  const graph::Dim other = graph::Dim::Symbol("M");
  EXPECT_EQ(ReasonFor({{kN}}, {other}), "the first extent of 'b' is M, and N is the batch");
  EXPECT_EQ(ReasonFor({{kN}}, {graph::Dim()}),
            "the first extent of 'b' is unknown, and N is the batch");
  EXPECT_EQ(ReasonFor({{kN * 2}}, {kN * 2}), "the first extent of 'a' is 2*N");
}

TEST(Batch, AnUnknownRankIsNoScalar) {
  EXPECT_EQ(ReasonFor(std::nullopt, {kN}), "the rank of 'a' is unknown");
  EXPECT_EQ(ReasonFor(graph::DimVector(), {kN}), "'a' is a scalar and has no first axis");
}

}  // namespace
}  // namespace tandem::plan
