// Reshape, Flatten, Squeeze, Unsqueeze, Dropout, Shape, Size, Constant, ConstantOfShape.
#include <gtest/gtest.h>

#include "engine/ops/registry.h"
#include "tests/support/compare.h"
#include "tests/support/op_runner.h"

namespace tandem {
namespace {

using graph::Dim;
using test::Exact;
using Ints = std::vector<int64_t>;

Tensor Vector(const Ints& values) {
  return Tensor::Of<int64_t>({static_cast<int64_t>(values.size())},
                             std::span<const int64_t>(values));
}

Tensor Filled(Shape shape, float value = 1) {
  const std::vector<float> values(static_cast<size_t>(shape.elements()), value);
  return Tensor::Of<float>(shape, std::span<const float>(values));
}

// "[1,2]" of the first output, or the error.
std::string ShapeAfter(const test::OpCall& call, const std::vector<Tensor>& inputs) {
  const auto outputs = test::RunOp(call, inputs);
  if (!outputs.ok()) return std::string(Message(outputs.status()));
  return ToString((*outputs)[0].shape());
}

// The inferred type of `op` on a float input of symbolic `dims` and a constant.
std::string Inferred(const std::string& op, graph::DimVector dims, const Ints& constant,
                     graph::Attributes attributes = {}) {
  test::GraphBuilder builder;
  builder.Input("x", DType::kFloat, std::move(dims)).Constant("c", Vector(constant));
  builder.Node(op, {"x", "c"}, {"y"}, std::move(attributes)).Output("y");
  graph::Graph graph = builder.BuildRaw();
  Status status = ops::ResolveAll(graph);
  if (status.ok()) status = ops::InferAll(graph);
  if (!status.ok()) return std::string(Message(status));
  return graph::ToString(*graph.value(graph.FindValue("y")).type.dims);
}

TEST(Reshape, ResolvesZeroAndMinusOne) {
  const test::OpCall call{.op_type = "Reshape"};
  EXPECT_EQ(ShapeAfter(call, {Filled({1, 52, 8, 32}), Vector({0, 0, 8, 16, 2})}), "[1,52,8,16,2]");
  EXPECT_EQ(ShapeAfter(call, {Filled({2, 3, 4}), Vector({-1})}), "[24]");
  EXPECT_EQ(ShapeAfter(call, {Filled({2, 3, 4}), Vector({4, -1, 2})}), "[4,3,2]");
  EXPECT_EQ(ShapeAfter(call, {Filled({}), Vector({1, 1})}), "[1,1]");
  EXPECT_EQ(ShapeAfter(call, {Filled({1}), Vector({})}), "[]");
  EXPECT_EQ(ShapeAfter(call, {Filled({0, 3}), Vector({3, 0})}),
            "an input of shape [0,3] does not have the elements of shape [3,0]");
}

TEST(Reshape, AllowzeroTakesZeroLiterally) {
  test::OpCall call{.op_type = "Reshape", .attributes = {{"allowzero", int64_t{1}}}};
  EXPECT_EQ(ShapeAfter(call, {Filled({0, 3}), Vector({3, 0})}), "[3,0]");
  EXPECT_EQ(ShapeAfter(call, {Filled({0, 3}), Vector({0, -1})}),
            "shape [0,-1] has both 0 and -1 with allowzero = 1, which leaves the extent open");
  call.opset = 13;
  EXPECT_EQ(ShapeAfter(call, {Filled({0, 3}), Vector({3, 0})}),
            "opset 13 of Reshape has no attribute 'allowzero' (1)");
}

TEST(Reshape, RefusesShapesThatDoNotFit) {
  const test::OpCall call{.op_type = "Reshape"};
  EXPECT_EQ(ShapeAfter(call, {Filled({2, 3}), Vector({4, -1})}),
            "an input of shape [2,3] does not have the elements of shape [4,-1]");
  EXPECT_EQ(ShapeAfter(call, {Filled({2, 3}), Vector({7})}),
            "an input of shape [2,3] does not have the elements of shape [7]");
  EXPECT_EQ(ShapeAfter(call, {Filled({2, 3}), Vector({-1, -1})}),
            "shape [-1,-1] has more than one -1");
  EXPECT_EQ(ShapeAfter(call, {Filled({2, 3}), Vector({-2, 3})}),
            "shape [-2,3] has an extent below -1");
  EXPECT_EQ(ShapeAfter(call, {Filled({6}), Vector({6, 0})}),
            "shape [6,0] copies extent 1 of an input of shape [6]");
}

TEST(Reshape, KeepsSymbols) {
  const Dim n = Dim::Symbol("N");
  const Dim t = Dim::Symbol("T");
  EXPECT_EQ(Inferred("Reshape", {n, 16, 4, 4}, {-1, 256}), "[N,256]");
  EXPECT_EQ(Inferred("Reshape", {n, 16, 4, 4}, {0, -1}), "[N,256]");
  EXPECT_EQ(Inferred("Reshape", {n, t, 256}, {0, -1, 8, 32}), "[N,T,8,32]");
  EXPECT_EQ(Inferred("Reshape", {n, t, 256}, {0, 0, 8, 32}), "[N,T,8,32]");
  EXPECT_EQ(Inferred("Reshape", {n, t, 256}, {-1, 256}), "[?,256]");
  EXPECT_EQ(Inferred("Reshape", {n, 12}, {-1, 4}), "[3*N,4]");
  EXPECT_EQ(Inferred("Reshape", {n, 256}, {5, 256}), "[5,256]");
  EXPECT_EQ(Inferred("Reshape", {Dim(), 256}, {0, 2, -1}), "[?,2,128]");
  EXPECT_NE(Inferred("Reshape", {n, 256}, {0, 255}).find("does not have the elements"),
            std::string::npos);
}

TEST(Flatten, CutsBeforeItsAxis) {
  const auto flat = [](int64_t axis) {
    return ShapeAfter({.op_type = "Flatten", .attributes = {{"axis", axis}}},
                      {Filled({2, 3, 4, 5})});
  };
  EXPECT_EQ(flat(0), "[1,120]");
  EXPECT_EQ(flat(1), "[2,60]");
  EXPECT_EQ(flat(4), "[120,1]");
  EXPECT_EQ(flat(-1), "[24,5]");
  EXPECT_EQ(flat(-4), "[1,120]");
  EXPECT_EQ(flat(5), "attribute 'axis' is 5 where -4 to 3 are expected for rank 4");
  EXPECT_EQ(ShapeAfter({.op_type = "Flatten", .opset = 9, .attributes = {{"axis", int64_t{-1}}}},
                       {Filled({2, 3})}),
            "attribute 'axis' is -1 where opset 9 has no negative axes");
}

TEST(Squeeze, DropsNamedAxesOnly) {
  EXPECT_EQ(ShapeAfter({.op_type = "Squeeze", .opset = 11, .attributes = {{"axes", Ints{0}}}},
                       {Filled({1, 2, 1})}),
            "[2,1]");
  EXPECT_EQ(ShapeAfter({.op_type = "Squeeze"}, {Filled({1, 2, 1}), Vector({-1})}), "[1,2]");
  EXPECT_EQ(ShapeAfter({.op_type = "Squeeze"}, {Filled({1, 2, 1})}), "[2]");
  EXPECT_EQ(ShapeAfter({.op_type = "Squeeze"}, {Filled({1, 2, 1}), Vector({1})}),
            "axis 1 of [1,2,1] has extent 2 where 1 is expected");
}

TEST(Unsqueeze, AxesCountInTheOutput) {
  const auto shape = [](const Ints& axes) {
    return ShapeAfter({.op_type = "Unsqueeze"}, {Filled({2, 3}), Vector(axes)});
  };
  EXPECT_EQ(shape({-1, 0}), "[1,2,3,1]");
  EXPECT_EQ(shape({3, -4}), "[1,2,3,1]");
  EXPECT_EQ(shape({0, 1, 2}), "[1,1,1,2,3]");
  EXPECT_EQ(shape({0, -4}), "axes names axis 0 twice");
  EXPECT_EQ(shape({3}), "axes is 3 where -3 to 2 are expected for rank 3");
  EXPECT_EQ(ShapeAfter({.op_type = "Unsqueeze", .opset = 11, .attributes = {{"axes", Ints{1}}}},
                       {Filled({2, 3})}),
            "[2,1,3]");
}

TEST(Dropout, IsItsInputAndAMaskOfOnes) {
  const Tensor x = Tensor::Of<float>({2, 2}, {1, -2, 3, -4});
  for (const int opset : {7, 10, 12, 13, 22}) {
    const auto y = test::RunOp({.op_type = "Dropout", .opset = opset, .outputs = 2}, {x});
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_TRUE(test::Close((*y)[0], x, Exact()));
    const Tensor ones =
        opset < 10 ? Filled({2, 2}) : Tensor::Of<bool>({2, 2}, {true, true, true, true});
    EXPECT_TRUE(test::Close((*y)[1], ones, Exact()));
    EXPECT_TRUE(test::RunOp({.op_type = "Dropout", .opset = opset}, {x}).ok());
  }
}

TEST(Dropout, TrainingIsRefused) {
  EXPECT_EQ(ShapeAfter({.op_type = "Dropout", .opset = 13},
                       {Filled({2}), Tensor::Scalar<float>(0.5f), Tensor::Scalar<bool>(true)}),
            "training_mode is true; only inference is supported");
  EXPECT_EQ(ShapeAfter({.op_type = "Dropout", .opset = 13},
                       {Filled({2}), Tensor::Scalar<float>(0.5f), Tensor::Scalar<bool>(false)}),
            "[2]");
}

TEST(Shape, TakesStartAndEnd) {
  const auto shape = [](graph::Attributes attributes) {
    const auto y =
        test::RunOp({.op_type = "Shape", .attributes = std::move(attributes)}, {Filled({2, 3, 4})});
    EXPECT_TRUE(y.ok()) << y.status();
    const auto span = (*y)[0].span<int64_t>();
    return Ints(span.begin(), span.end());
  };
  EXPECT_EQ(shape({}), (Ints{2, 3, 4}));
  EXPECT_EQ(shape({{"start", int64_t{-1}}}), (Ints{4}));
  EXPECT_EQ(shape({{"start", int64_t{1}}, {"end", int64_t{2}}}), (Ints{3}));
  EXPECT_EQ(shape({{"start", int64_t{-9}}, {"end", int64_t{9}}}), (Ints{2, 3, 4}));
  EXPECT_EQ(shape({{"start", int64_t{2}}, {"end", int64_t{1}}}), (Ints{}));
}

TEST(Size, CountsElements) {
  const auto y = test::RunOp({.op_type = "Size"}, {Filled({2, 0, 4})});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_TRUE(test::Close((*y)[0], Tensor::Scalar<int64_t>(0), Exact()));
}

TEST(Constant, ReadsEveryKindOfValue) {
  const auto value = [](const std::string& name, graph::Attribute attribute) {
    const auto y =
        test::RunOp({.op_type = "Constant", .attributes = {{name, std::move(attribute)}}}, {});
    EXPECT_TRUE(y.ok()) << y.status();
    return (*y)[0];
  };
  EXPECT_TRUE(test::Close(value("value_int", int64_t{3}), Tensor::Scalar<int64_t>(3), Exact()));
  EXPECT_TRUE(test::Close(value("value_float", 2.5f), Tensor::Scalar<float>(2.5f), Exact()));
  EXPECT_TRUE(test::Close(value("value_string", std::string("a")), Tensor::Scalar<std::string>("a"),
                          Exact()));
  EXPECT_TRUE(test::Close(value("value_ints", Ints{1, 2}), Vector({1, 2}), Exact()));
  EXPECT_TRUE(test::Close(value("value_floats", std::vector<float>{1, 2}),
                          Tensor::Of<float>({2}, {1, 2}), Exact()));
  EXPECT_TRUE(test::Close(value("value_strings", std::vector<std::string>{"a", "b"}),
                          Tensor::Of<std::string>({2}, {"a", "b"}), Exact()));
  graph::ConstantStore store;
  const Tensor tensor = Tensor::Of<float>({2, 1}, {4, 5});
  EXPECT_TRUE(test::Close(value("value", store.Intern(tensor)), tensor, Exact()));
}

TEST(Constant, NeedsExactlyOneValue) {
  EXPECT_EQ(ShapeAfter({.op_type = "Constant"}, {}),
            "0 of the value attributes are set where 1 is expected");
}

TEST(ConstantOfShape, DefaultsToFloatZeros) {
  const auto y = test::RunOp({.op_type = "ConstantOfShape"}, {Vector({2, 3})});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_TRUE(test::Close((*y)[0], Filled({2, 3}, 0), Exact()));
  EXPECT_EQ(ShapeAfter({.op_type = "ConstantOfShape"}, {Vector({})}), "[]");
  EXPECT_EQ(ShapeAfter({.op_type = "ConstantOfShape"}, {Vector({2, -1})}),
            "the shape (input 0) is [2,-1] where extents >= 0 are expected");
}

TEST(ConstantOfShape, FillsWithItsValueOfAnyDtype) {
  graph::ConstantStore store;
  const auto y =
      test::RunOp({.op_type = "ConstantOfShape",
                   .attributes = {{"value", store.Intern(Tensor::Of<int64_t>({1}, {7}))}}},
                  {Vector({2, 2})});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_TRUE(test::Close((*y)[0], Tensor::Of<int64_t>({2, 2}, {7, 7, 7, 7}), Exact()));
}

TEST(ConstantOfShape, AHugeShapeIsRefusedAndNotMadeByInference) {
  const int64_t huge = int64_t{1} << 31;
  EXPECT_NE(ShapeAfter({.op_type = "ConstantOfShape"}, {Vector({huge, huge})}).find("passes"),
            std::string::npos);
}

TEST(BatchOfViews, ItemsAreFoundByTheirSymbolAndLiteralsDecline) {
  const Dim n = Dim::Symbol("N");
  // The axis of the items and how often they come round there.
  using Place = std::pair<int, int64_t>;
  const Place none = {-1, 0};
  const auto batch = [&](const std::string& op, graph::DimVector dims, int axis, const Ints& c) {
    test::GraphBuilder builder;
    builder.Input("x", DType::kFloat, std::move(dims)).Constant("c", Vector(c));
    builder.Node(op, {"x", "c"}, {"y"}).Output("y");
    const graph::Graph graph = builder.Build();
    const graph::Node& node = graph.node(graph.order()[0]);
    const ops::ValueFacts in = ops::FactsOf(graph.value(node.inputs[0]));
    const ops::ValueFacts constant = ops::FactsOf(graph.value(node.inputs[1]));
    const ops::ValueFacts out = ops::FactsOf(graph.value(node.outputs[0]));
    const std::optional<int> axes[] = {axis, std::nullopt};
    const ops::ValueFacts* inputs[] = {&in, &constant};
    const ops::ValueFacts* outputs[] = {&out};
    const ops::BatchAnswer answer =
        ops::OpOf(node).Batch({node, graph::Dim::Symbol("N"), axes, inputs, outputs});
    return answer.declined ? none : Place(answer.outputs[0].value_or(-2), answer.rounds);
  };
  EXPECT_EQ(batch("Reshape", {n, 6}, 0, {0, 2, 3}), Place(0, 1));
  EXPECT_EQ(batch("Reshape", {6, n}, 1, {2, 3, -1}), Place(2, 1));
  EXPECT_EQ(batch("Reshape", {n, 6}, 0, {-1}), Place(0, 1));     // 6 elements an item
  EXPECT_EQ(batch("Reshape", {n, 6}, 0, {-1, 2}), Place(0, 1));  // 3 elements an item
  EXPECT_EQ(batch("Reshape", {6, n}, 1, {-1}), Place(0, 6));     // one element in each of 6 rounds
  EXPECT_EQ(batch("Reshape", {6, n, 4}, 1, {2, -1}), Place(1, 3));  // four in each of 3 rounds
  EXPECT_EQ(batch("Reshape", {n, 6}, 0, {2, -1}), none);            // halves of the batch
  EXPECT_EQ(batch("Reshape", {n, 6}, 0, {4, 6}), none);
  EXPECT_EQ(batch("Unsqueeze", {n, 6}, 0, {0}), Place(1, 1));
  EXPECT_EQ(batch("Squeeze", {1, n, 6}, 1, {0}), Place(0, 1));
}

}  // namespace
}  // namespace tandem
