// GatherElements, GatherND, ScatterElements, Scatter, ScatterND.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "engine/ops/registry.h"
#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using graph::Dim;
using test::Apply;
using test::Close;
using test::Exact;

Tensor Arange(Shape shape) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  std::iota(values.begin(), values.end(), 0.0F);
  return Tensor::Of<float>(shape, std::span<const float>(values));
}

Tensor Ints(Shape shape, std::initializer_list<int64_t> values) {
  return Tensor::Of<int64_t>(std::move(shape), values);
}

Tensor Floats(Shape shape, std::initializer_list<float> values) {
  return Tensor::Of<float>(std::move(shape), values);
}

std::string Error(const test::OpCall& call, const std::vector<Tensor>& inputs) {
  const auto outputs = test::RunOp(call, inputs);
  return outputs.ok() ? "ok" : std::string(Message(outputs.status()));
}

test::OpCall Call(const std::string& op_type, graph::Attributes attributes = {}) {
  return {.op_type = op_type, .opset = 18, .attributes = std::move(attributes)};
}

TEST(GatherElements, PutsTheIndexInPlaceOfACoordinate) {
  const Tensor data = Arange({3, 3});
  EXPECT_TRUE(Close(Apply(Call("GatherElements"), {data, Ints({2, 3}, {1, 2, 0, -1, 0, 0})}),
                    Floats({2, 3}, {3, 7, 2, 6, 1, 2}), Exact()));
  EXPECT_TRUE(Close(
      Apply(Call("GatherElements", {{"axis", int64_t{-1}}}), {data, Ints({2, 2}, {0, 0, -1, 1})}),
      Floats({2, 2}, {0, 0, 5, 4}), Exact()));
  const Tensor cube = Arange({2, 3, 4});
  const Tensor indices = Tensor::Of<int32_t>({2, 2, 3}, {0, 1, 2, 2, 1, 0, 1, 1, 1, 0, 2, 0});
  const Tensor y = Apply(Call("GatherElements", {{"axis", int64_t{1}}}), {cube, indices});
  for (int64_t i = 0; i < 12; ++i) {
    const int64_t from = i / 6 * 12 + indices.data<int32_t>()[i] * 4 + i % 3;
    EXPECT_EQ(y.data<float>()[i], static_cast<float>(from));
  }
}

TEST(GatherElements, EmptyIndicesGiveTheirShape) {
  EXPECT_EQ(Apply(Call("GatherElements"), {Arange({2, 3}), Ints({0, 3}, {})}).shape(),
            Shape({0, 3}));
}

TEST(GatherElements, SaysWhatIsWrong) {
  const Tensor data = Arange({2, 3});
  EXPECT_EQ(Error(Call("GatherElements"), {data, Ints({1, 3}, {0, 1, 2})}),
            "element 2: the index is 2 where -2 to 1 are expected for an axis of extent 2");
  EXPECT_EQ(Error(Call("GatherElements"), {data, Ints({1, 4}, {0, 0, 0, 0})}),
            "indices have extent 4 of axis 1 where at most 3 is expected");
  EXPECT_EQ(Error(Call("GatherElements"), {data, Ints({2}, {0, 0})}),
            "indices have shape [2] where rank 2 is expected");
  EXPECT_EQ(Error(Call("GatherElements"), {data, Arange({2, 3})}),
            "indices are float where int32 or int64 is expected");
  EXPECT_EQ(Error(Call("GatherElements"), {Arange({}), Ints({}, {0})}),
            "attribute 'axis' is 0 where the tensor has no axes");
}

TEST(GatherND, PicksElementsAndSlicesNegativeIndicesIncluded) {
  EXPECT_TRUE(Close(Apply(Call("GatherND"), {Arange({3, 2}), Ints({2, 1}, {-1, 0})}),
                    Floats({2, 2}, {4, 5, 0, 1}), Exact()));
  EXPECT_TRUE(Close(Apply(Call("GatherND"), {Arange({3, 2}), Ints({2, 2}, {-1, -2, 1, 1})}),
                    Floats({2}, {4, 3}), Exact()));
  EXPECT_EQ(Apply(Call("GatherND"), {Arange({3, 0}), Ints({1, 1}, {0})}).shape(), Shape({1, 0}));
  EXPECT_EQ(Apply(Call("GatherND"), {Arange({3, 2}), Ints({0, 1}, {})}).shape(), Shape({0, 2}));
}

TEST(GatherND, BatchAxesStayTogether) {
  const Tensor data = Arange({2, 3, 2});
  EXPECT_TRUE(Close(
      Apply(Call("GatherND", {{"batch_dims", int64_t{1}}}), {data, Ints({2, 2, 1}, {2, 0, 1, 1})}),
      Floats({2, 2, 2}, {4, 5, 0, 1, 8, 9, 8, 9}), Exact()));
  EXPECT_EQ(
      Error(Call("GatherND", {{"batch_dims", int64_t{1}}}), {Arange({3, 3}), Ints({2, 1}, {0, 1})}),
      "batch axis 0 has extent 3 in data and 2 in the indices");
  EXPECT_EQ(Error(Call("GatherND", {{"batch_dims", int64_t{-1}}}), {data, Ints({1, 1}, {0})}),
            "attribute 'batch_dims' is -1 where 0 to 64 are expected");
  EXPECT_EQ(Error(Call("GatherND", {{"batch_dims", int64_t{2}}}), {data, Ints({2, 1}, {0, 0})}),
            "indices have shape [2,1] where more than 2 axes are expected");
}

TEST(GatherND, SaysWhatIsWrong) {
  const Tensor data = Arange({2, 3});
  EXPECT_EQ(Error(Call("GatherND"), {data, Ints({2, 2}, {0, 2, 1, 3})}),
            "element 3: the index is 3 where -3 to 2 are expected for an axis of extent 3");
  EXPECT_EQ(Error(Call("GatherND"), {data, Ints({1, 3}, {0, 0, 0})}),
            "indices have 3 in a tuple where 1 to 2 are expected");
  EXPECT_EQ(Error(Call("GatherND"), {data, Tensor::Of<int32_t>({1, 1}, {0})}),
            "indices are int32 where int64 is expected");
}

TEST(ScatterElements, TheLastOfSeveralUpdatesStays) {
  const Tensor data = Arange({2, 3});
  EXPECT_TRUE(Close(Apply(Call("ScatterElements", {{"axis", int64_t{1}}}),
                          {data, Ints({2, 2}, {1, 1, -1, 0}), Floats({2, 2}, {10, 11, 12, 13})}),
                    Floats({2, 3}, {0, 11, 2, 13, 4, 12}), Exact()));
  EXPECT_TRUE(
      Close(Apply(Call("ScatterElements"), {data, Ints({1, 2}, {1, 0}), Floats({1, 2}, {10, 11})}),
            Floats({2, 3}, {0, 11, 2, 10, 4, 5}), Exact()));
  EXPECT_TRUE(Close(Apply(Call("ScatterElements"), {data, Ints({0, 3}, {}), Floats({0, 3}, {})}),
                    data, Exact()));
  const Tensor names = Tensor::Of<std::string>({2}, {"a", "b"});
  EXPECT_TRUE(Close(
      Apply(Call("ScatterElements"), {names, Ints({1}, {1}), Tensor::Of<std::string>({1}, {"z"})}),
      Tensor::Of<std::string>({2}, {"a", "z"}), Exact()));
}

TEST(ScatterElements, ReductionsCombineInOrder) {
  const auto reduced = [](const char* reduction, auto data, auto updates) {
    using T = typename decltype(data)::value_type;
    const Tensor y = Apply(Call("ScatterElements", {{"reduction", reduction}}),
                           {Tensor::Of<T>({3}, std::span<const T>(data)), Ints({4}, {0, 2, 0, -1}),
                            Tensor::Of<T>({4}, std::span<const T>(updates))});
    return std::vector<T>(y.data<T>(), y.data<T>() + 3);
  };
  using Floats32 = std::vector<float>;
  const Floats32 data = {1, 2, 3};
  const Floats32 updates = {4, 0, 5, -1};
  EXPECT_EQ(reduced("add", data, updates), (Floats32{10, 2, 2}));
  EXPECT_EQ(reduced("mul", data, updates), (Floats32{20, 2, 0}));
  EXPECT_EQ(reduced("max", data, updates), (Floats32{5, 2, 3}));
  EXPECT_EQ(reduced("min", data, updates), (Floats32{1, 2, -1}));
  EXPECT_EQ(reduced("add", std::vector<uint8_t>{250, 0, 0}, std::vector<uint8_t>{4, 1, 5, 1}),
            (std::vector<uint8_t>{3, 0, 2}))
      << "integers wrap";
}

TEST(ScatterElements, SaysWhatIsWrong) {
  const Tensor data = Arange({2, 3});
  const Tensor one = Ints({1, 1}, {0});
  EXPECT_EQ(Error(Call("ScatterElements"), {data, one, Floats({1, 2}, {0, 0})}),
            "updates have shape [1,2] where [1,1], that of the indices, is expected");
  EXPECT_EQ(Error(Call("ScatterElements"), {data, one, one}),
            "updates are int64 where data is float");
  EXPECT_EQ(Error(Call("ScatterElements"), {data, Ints({1, 1}, {-3}), Floats({1, 1}, {0})}),
            "element 0: the index is -3 where -2 to 1 are expected for an axis of extent 2");
  const graph::Attributes max{{"reduction", "max"}};
  EXPECT_EQ(Error({.op_type = "ScatterElements", .opset = 16, .attributes = max}, {data, one, one}),
            "attribute 'reduction' is 'max' where one of none, add, mul is expected");
  EXPECT_EQ(Error(Call("ScatterElements", max),
                  {Tensor::Of<bool>({1}, {true}), Ints({1}, {0}), Tensor::Of<bool>({1}, {true})}),
            "a reduction of bool is not supported");
  EXPECT_EQ(Error({.op_type = "ScatterElements", .opset = 13, .attributes = max}, {data, one, one}),
            "opset 13 of ScatterElements has no attribute 'reduction' (\"max\")");
}

TEST(Scatter, IsScatterElementsOfOlderOpsets) {
  const std::vector<Tensor> inputs = {Arange({2}), Ints({1}, {1}), Floats({1}, {9})};
  EXPECT_TRUE(
      Close(Apply({.op_type = "Scatter", .opset = 9}, inputs), Floats({2}, {0, 9}), Exact()));
  EXPECT_EQ(Error({.op_type = "Scatter", .opset = 11}, inputs),
            "opset 11 has ScatterElements in place of Scatter");
}

TEST(ScatterND, TuplesNameSlicesOrElements) {
  const Tensor data = Arange({4, 4});
  const Tensor y = Apply(Call("ScatterND"), {data, Ints({2, 1}, {2, -4}),
                                             Floats({2, 4}, {20, 21, 22, 23, 30, 31, 32, 33})});
  EXPECT_TRUE(Close(y, Floats({4, 4}, {30, 31, 32, 33, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15}),
                    Exact()));
  const Tensor elements = Apply(
      Call("ScatterND"),
      {data, Ints({5, 2}, {0, 0, 1, -1, 3, 3, 2, 0, 0, 0}), Floats({5}, {90, 91, 92, 93, 94})});
  EXPECT_TRUE(Close(
      elements, Floats({4, 4}, {94, 1, 2, 3, 4, 5, 6, 91, 93, 9, 10, 11, 12, 13, 14, 92}), Exact()))
      << "a tuple of as many indices as axes names one element";
  EXPECT_TRUE(
      Close(Apply(Call("ScatterND"), {data, Ints({0, 1}, {}), Floats({0, 4}, {})}), data, Exact()));
}

TEST(ScatterND, ReductionsOfTuplesOfSeveralIndices) {
  const auto reduced = [](const char* reduction) {
    return Apply(
        Call("ScatterND", {{"reduction", reduction}}),
        {Floats({2, 2}, {1, 2, 3, 4}), Ints({3, 2}, {0, 1, 0, 1, 1, 0}), Floats({3}, {5, -1, 2})});
  };
  EXPECT_TRUE(Close(reduced("max"), Floats({2, 2}, {1, 5, 3, 4}), Exact()));
  EXPECT_TRUE(Close(reduced("min"), Floats({2, 2}, {1, -1, 2, 4}), Exact()));
  EXPECT_TRUE(Close(reduced("add"), Floats({2, 2}, {1, 6, 5, 4}), Exact()));
  EXPECT_TRUE(Close(reduced("mul"), Floats({2, 2}, {1, -10, 6, 4}), Exact()));
}

TEST(ScatterND, SaysWhatIsWrong) {
  const Tensor data = Arange({4, 4});
  EXPECT_EQ(Error(Call("ScatterND"), {data, Ints({1, 1}, {4}), Arange({1, 4})}),
            "element 0: the index is 4 where -4 to 3 are expected for an axis of extent 4");
  EXPECT_EQ(Error(Call("ScatterND"), {data, Ints({2, 1}, {0, 1}), Arange({2})}),
            "updates have shape [2] where [2,4] is expected");
  EXPECT_EQ(Error(Call("ScatterND"), {data, Ints({1, 3}, {0, 1, 2}), Arange({1})}),
            "indices have 3 in a tuple where 1 to 2 are expected");
}

// The answer to "do these inputs carry the batch?" with the given axes (-1: shared).
std::string Batch(const test::OpCall& call, const std::vector<graph::DimVector>& dims,
                  const std::vector<int>& axes) {
  test::GraphBuilder builder(call.opset);
  std::vector<std::string> names;
  for (const graph::DimVector& shape : dims) {
    names.push_back(fmt::format("i{}", names.size()));
    builder.Input(names.back(), names.size() == 2 ? DType::kInt64 : DType::kFloat, shape);
  }
  const graph::Graph graph =
      builder.Node(call.op_type, names, {"y"}, call.attributes).Output("y").Build();
  const graph::Node& node = graph.node(graph.order()[0]);
  std::vector<ops::ValueFacts> facts;
  std::vector<std::optional<int>> given;
  for (size_t port = 0; port < axes.size(); ++port) {
    facts.push_back(ops::FactsOf(graph.value(node.inputs[port])));
    given.push_back(axes[port] < 0 ? std::nullopt : std::optional(axes[port]));
  }
  facts.push_back(ops::FactsOf(graph.value(node.outputs[0])));
  std::vector<const ops::ValueFacts*> pointers;
  for (const ops::ValueFacts& fact : facts) pointers.push_back(&fact);
  const std::span<const ops::ValueFacts* const> all(pointers);
  const ops::BatchAnswer answer = ops::OpOf(node).Batch(
      {node, graph::Dim::Symbol("N"), given, all.first(axes.size()), all.last(1)});
  return answer.declined.value_or(
      answer.outputs.empty() ? "" : fmt::format("axis {}", answer.outputs[0].value_or(-1)));
}

TEST(GatherScatter, CarryABatchThatTheIndicesDoNotName) {
  const Dim n = Dim::Symbol("N");
  const test::OpCall elements = Call("GatherElements", {{"axis", int64_t{1}}});
  EXPECT_EQ(Batch(elements, {{n, 4}, {n, 2}}, {0, 0}), "axis 0");
  EXPECT_EQ(Batch(elements, {{n, 4}, {n, 2}}, {-1, 0}), "data (input 0) is shared by all items");
  EXPECT_EQ(Batch(elements, {{n, 4}, {n, 2}}, {0, -1}), "not every input carries the batch alike");
  EXPECT_EQ(Batch(Call("GatherElements"), {{n, 4}, {n, 2}}, {0, 0}),
            "its indices name items of the batch");
  EXPECT_EQ(
      Batch(Call("ScatterElements", {{"axis", int64_t{1}}}), {{n, 4}, {n, 2}, {n, 2}}, {0, 0, 0}),
      "axis 0");
  EXPECT_EQ(Batch(Call("GatherND", {{"batch_dims", int64_t{1}}}), {{n, 4}, {n, 2, 1}}, {0, 0}),
            "axis 0");
  EXPECT_EQ(Batch(Call("GatherND"), {{4, 3}, {n, 2}}, {-1, 0}), "axis 0");
  EXPECT_EQ(Batch(Call("GatherND"), {{n, 3}, {n, 1}}, {0, 0}),
            "its indices name items of the batch, or may do so");
  EXPECT_EQ(Batch(Call("ScatterND"), {{n, 3}, {n, 1}, {n, 3}}, {0, 0, 0}),
            "its indices name items of the batch, or may do so");
}

TEST(GatherScatter, ABatchHasTheBitsOfItsItems) {
  const Tensor data = test::RandomFloats({3, 5, 2}, 1);
  const Tensor indices = Ints({3, 2, 1}, {0, 4, 2, 2, 1, 3});
  const test::OpCall nd = Call("GatherND", {{"batch_dims", int64_t{1}}});
  const Tensor y = Apply(nd, {data, indices});
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(
        Close(Apply(nd, {data.Rows(i, i + 1), indices.Rows(i, i + 1)}), y.Rows(i, i + 1), Exact()));
  }
}

}  // namespace
}  // namespace tandem
