// OneHot, Range, EyeLike, Trilu, ReverseSequence.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "engine/ops/registry.h"
#include "tests/support/compare.h"
#include "tests/support/op_runner.h"

namespace tandem {
namespace {

using graph::Dim;
using test::Apply;
using test::Close;
using test::Exact;

Tensor Arange(Shape shape) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  std::iota(values.begin(), values.end(), 1.0F);
  return Tensor::Of<float>(shape, std::span<const float>(values));
}

Tensor Ints(std::initializer_list<int64_t> values) {
  return Tensor::Of<int64_t>({static_cast<int64_t>(values.size())}, values);
}

std::string Error(const test::OpCall& call, const std::vector<Tensor>& inputs) {
  const auto outputs = test::RunOp(call, inputs);
  return outputs.ok() ? "ok" : std::string(Message(outputs.status()));
}

// What a node of x [N,5,5] and constants says of the batch on axis 0 of x: where its output carries
// it, or why not.
std::string Batch(const test::OpCall& call, const std::vector<Tensor>& constants) {
  test::GraphBuilder builder(call.opset);
  builder.Input("x", DType::kInt64, {Dim::Symbol("N"), 5, 5});
  std::vector<std::string> names = {"x"};
  for (const Tensor& constant : constants) {
    names.push_back(fmt::format("c{}", names.size()));
    builder.Constant(names.back(), constant);
  }
  const graph::Graph graph =
      builder.Node(call.op_type, names, {"y"}, call.attributes).Output("y").Build();
  const graph::Node& node = graph.node(graph.order()[0]);
  std::vector<ops::ValueFacts> facts;
  for (const graph::ValueId id : node.inputs) facts.push_back(ops::FactsOf(graph.value(id)));
  facts.push_back(ops::FactsOf(graph.value(node.outputs[0])));
  std::vector<const ops::ValueFacts*> pointers;
  for (const ops::ValueFacts& fact : facts) pointers.push_back(&fact);
  std::vector<std::optional<int>> axes(node.inputs.size());
  axes[0] = 0;
  const std::span<const ops::ValueFacts* const> all(pointers);
  const ops::BatchAnswer answer = ops::OpOf(node).Batch(
      {node, graph::Dim::Symbol("N"), axes, all.first(node.inputs.size()), all.last(1)});
  return answer.declined.value_or(
      fmt::format("axis {}", answer.outputs.empty() ? -1 : answer.outputs[0].value_or(-1)));
}

TEST(OneHot, PutsTheNewAxisAnywhere) {
  const Tensor indices = Ints({0, 2});
  const Tensor depth = Tensor::Scalar<int64_t>(3);
  const Tensor values = Tensor::Of<float>({2}, {0, 5});
  EXPECT_TRUE(Close(Apply({.op_type = "OneHot"}, {indices, depth, values}),
                    Tensor::Of<float>({2, 3}, {5, 0, 0, 0, 0, 5}), Exact()));
  EXPECT_TRUE(Close(
      Apply({.op_type = "OneHot", .attributes = {{"axis", int64_t{0}}}}, {indices, depth, values}),
      Tensor::Of<float>({3, 2}, {5, 0, 0, 0, 0, 5}), Exact()));
  EXPECT_EQ(Apply({.op_type = "OneHot", .attributes = {{"axis", int64_t{-2}}}},
                  {Tensor::Of<int32_t>({2, 4}, std::vector<int32_t>(8, 1)), depth, values})
                .shape(),
            Shape({2, 3, 4}));
  EXPECT_EQ(
      Error({.op_type = "OneHot", .attributes = {{"axis", int64_t{2}}}}, {indices, depth, values}),
      "attribute 'axis' is 2 where -2 to 1 are expected for rank 2");
}

TEST(OneHot, IndicesOutOfRangeAreOffEverywhere) {
  const Tensor indices = Ints({-5, -1, 0, 3, 7});
  const Tensor values = Tensor::Of<int32_t>({2}, {0, 1});
  const std::vector<Tensor> inputs = {indices, Tensor::Of<float>({1}, {4}), values};
  EXPECT_TRUE(Close(
      Apply({.op_type = "OneHot", .opset = 11}, inputs),
      Tensor::Of<int32_t>({5, 4}, {0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}),
      Exact()));
  EXPECT_TRUE(Close(
      Apply({.op_type = "OneHot", .opset = 9}, inputs),
      Tensor::Of<int32_t>({5, 4}, {0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}),
      Exact()))
      << "opset 9 does not count from the end";
}

TEST(OneHot, TakesFloatIndicesAndValuesOfAnyType) {
  EXPECT_TRUE(Close(
      Apply({.op_type = "OneHot"}, {Tensor::Of<float>({2}, {1.9F, -1}), Tensor::Scalar<uint8_t>(2),
                                    Tensor::Of<std::string>({2}, {"off", "on"})}),
      Tensor::Of<std::string>({2, 2}, {"off", "on", "off", "on"}), Exact()));
  EXPECT_EQ(Apply({.op_type = "OneHot"},
                  {Ints({1, 2}), Tensor::Scalar<int64_t>(0), Tensor::Of<bool>({2}, {false, true})})
                .shape(),
            Shape({2, 0}));
}

TEST(OneHot, SaysWhatIsWrong) {
  const Tensor values = Tensor::Of<float>({2}, {0, 1});
  EXPECT_EQ(Error({.op_type = "OneHot"}, {Ints({1}), Ints({-1}), values}),
            "depth is -1 where a number >= 0 is expected");
  EXPECT_EQ(Error({.op_type = "OneHot"}, {Ints({1}), Ints({1, 2}), values}),
            "depth has shape [2] where one element is expected");
  EXPECT_EQ(Error({.op_type = "OneHot"}, {Ints({1}), Ints({2}), Arange({3})}),
            "values has shape [3] where [2] is expected");
}

TEST(OneHot, CarriesTheBatchOfItsIndices) {
  const Tensor values = Tensor::Of<float>({2}, {0, 1});
  EXPECT_EQ(Batch({.op_type = "OneHot"}, {Ints({4}), values}), "axis 0");
  EXPECT_EQ(Batch({.op_type = "OneHot", .attributes = {{"axis", int64_t{0}}}}, {Ints({4}), values}),
            "axis 1");
}

template <typename T>
Tensor RangeOf(T start, T limit, T delta) {
  return Apply({.op_type = "Range"},
               {Tensor::Scalar(start), Tensor::Scalar(limit), Tensor::Scalar(delta)});
}

TEST(Range, CountsUpAndDownAndMayBeEmpty) {
  EXPECT_TRUE(Close(RangeOf<int64_t>(5, 0, -2), Ints({5, 3, 1}), Exact()));
  EXPECT_TRUE(Close(RangeOf<int32_t>(3, 9, 3), Tensor::Of<int32_t>({2}, {3, 6}), Exact()));
  EXPECT_EQ(RangeOf<int16_t>(5, 5, 1).shape(), Shape({0}));
  EXPECT_EQ(RangeOf<int64_t>(5, 0, 1).shape(), Shape({0}));
  EXPECT_TRUE(
      Close(RangeOf<float>(1, 2, 0.25F), Tensor::Of<float>({4}, {1, 1.25F, 1.5F, 1.75F}), Exact()));
  EXPECT_EQ(RangeOf<float>(0, 1, 0.1F).shape(), Shape({10}));
  EXPECT_EQ(RangeOf<double>(0, 1000, 0.5).data<double>()[1999], 999.5);
}

TEST(Range, SurvivesTheEndsOfInt64) {
  constexpr int64_t kLow = std::numeric_limits<int64_t>::min();
  constexpr int64_t kHigh = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(Close(RangeOf<int64_t>(kLow, kHigh, kHigh), Ints({kLow, -1, kHigh - 1}), Exact()));
  EXPECT_TRUE(Close(RangeOf<int64_t>(kHigh, kLow, kLow), Ints({kHigh, -1}), Exact()));
}

TEST(Range, SaysWhatIsWrong) {
  const auto error = [](auto start, auto limit, auto delta) {
    return Error({.op_type = "Range"},
                 {Tensor::Scalar(start), Tensor::Scalar(limit), Tensor::Scalar(delta)});
  };
  EXPECT_EQ(error(int64_t{0}, int64_t{1}, int64_t{0}), "delta is 0");
  EXPECT_EQ(error(0.0F, 1.0F, 0.0F), "delta is 0");
  EXPECT_EQ(error(0.0F, std::numeric_limits<float>::quiet_NaN(), 1.0F),
            "a range from 0 to nan by 1 has no length");
  EXPECT_EQ(error(0.0, 1e300, 1.0), "the range has more than 281474976710656 elements");
  EXPECT_EQ(Error({.op_type = "Range"}, {Ints({0, 1}), Ints({1}), Ints({1})}),
            "input 0 has shape [2] where a scalar is expected");
  EXPECT_EQ(error(uint8_t{0}, uint8_t{1}, uint8_t{1}).substr(0, 26), "input 0 is of type uint8 w");
}

TEST(Range, ALengthIsKnownWithoutItsElements) {
  const auto dims = [](const Tensor& limit) {
    test::GraphBuilder builder;
    builder.Input("x", DType::kFloat, {Dim::Symbol("N"), 4})
        .Constant("zero", Tensor::Scalar<int64_t>(0))
        .Constant("one", Tensor::Scalar<int64_t>(1))
        .Node("Shape", {"x"}, {"shape"})
        .Node("Gather", {"shape", "zero"}, {"n"});
    if (limit.valid()) builder.Constant("limit", limit);
    const graph::Graph graph =
        builder.Node("Range", {"zero", limit.valid() ? "limit" : "n", "one"}, {"y"})
            .Output("y")
            .Build();
    return ToString(*graph.value(graph.FindValue("y")).type.dims);
  };
  EXPECT_EQ(dims(Tensor()), "[N]");
  EXPECT_EQ(dims(Tensor::Scalar<int64_t>(100'000'000)), "[100000000]");
}

TEST(EyeLike, EveryDiagonalOfAWideAndATallMatrix) {
  const auto eye = [](const Shape& shape, int64_t k) {
    const Tensor y =
        Apply({.op_type = "EyeLike", .opset = 9, .attributes = {{"k", k}}}, {Arange(shape)});
    std::vector<std::pair<int64_t, int64_t>> ones;
    for (int64_t i = 0; i < y.elements(); ++i) {
      if (y.data<float>()[i] == 1) ones.emplace_back(i / shape[1], i % shape[1]);
    }
    return ones;
  };
  using Places = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(eye({2, 3}, 0), (Places{{0, 0}, {1, 1}}));
  EXPECT_EQ(eye({2, 3}, 2), (Places{{0, 2}}));
  EXPECT_EQ(eye({3, 2}, -1), (Places{{1, 0}, {2, 1}}));
  EXPECT_EQ(eye({3, 2}, 2), Places());
  EXPECT_EQ(eye({3, 2}, -3), Places());
  EXPECT_EQ(eye({2, 2}, std::numeric_limits<int64_t>::min()), Places());
  EXPECT_EQ(eye({0, 2}, 0), Places());
}

TEST(EyeLike, TakesTheTypeOfItsAttribute) {
  const int64_t half = static_cast<int64_t>(DType::kFloat16);
  const Tensor y = Apply({.op_type = "EyeLike", .attributes = {{"dtype", half}}}, {Arange({1, 1})});
  EXPECT_EQ(y.dtype(), DType::kFloat16);
  EXPECT_EQ(y.data<Float16>()->bits, 0x3c00);
  EXPECT_EQ(Error({.op_type = "EyeLike", .attributes = {{"dtype", int64_t{8}}}}, {Arange({1, 1})}),
            "attribute 'dtype' is 8 where a number type is expected");
  EXPECT_EQ(Error({.op_type = "EyeLike"}, {Arange({3})}),
            "input 0 is float[3] where rank 2 is expected");
}

TEST(Trilu, KeepsTheTriangleFromAnyDiagonal) {
  const auto triangle = [](int64_t upper, int64_t k) {
    const Tensor y = Apply({.op_type = "Trilu", .attributes = {{"upper", upper}}},
                           {Arange({2, 3}), Tensor::Scalar(k)});
    return std::vector<float>(y.data<float>(), y.data<float>() + 6);
  };
  using Row = std::vector<float>;
  EXPECT_EQ(triangle(1, 0), (Row{1, 2, 3, 0, 5, 6}));
  EXPECT_EQ(triangle(1, 2), (Row{0, 0, 3, 0, 0, 0}));
  EXPECT_EQ(triangle(1, -1), (Row{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(triangle(0, 0), (Row{1, 0, 0, 4, 5, 0}));
  EXPECT_EQ(triangle(0, -1), (Row{0, 0, 0, 4, 0, 0}));
  EXPECT_EQ(triangle(0, 2), (Row{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(triangle(0, std::numeric_limits<int64_t>::min()), Row(6, 0));
  EXPECT_EQ(triangle(1, std::numeric_limits<int64_t>::max()), Row(6, 0));
}

TEST(Trilu, WorksOnEachMatrixOfAnyType) {
  const Tensor x = Tensor::Of<std::string>({2, 1, 2}, {"a", "b", "c", "d"});
  EXPECT_TRUE(Close(Apply({.op_type = "Trilu", .attributes = {{"upper", int64_t{0}}}}, {x}),
                    Tensor::Of<std::string>({2, 1, 2}, {"a", "", "c", ""}), Exact()));
  EXPECT_EQ(Apply({.op_type = "Trilu"}, {Arange({3, 0, 5})}).shape(), Shape({3, 0, 5}));
  EXPECT_EQ(Error({.op_type = "Trilu"}, {Arange({3})}),
            "input 0 is float[3] where rank 2 or more is expected");
  EXPECT_EQ(Error({.op_type = "Trilu"}, {Arange({3, 3}), Ints({1, 2})}),
            "input 1 (k) is int64[2] where an int64 scalar is expected");
  EXPECT_EQ(Batch({.op_type = "Trilu"}, {}), "axis 0");
}

TEST(ReverseSequence, ReversesTheBeginningOfEachItem) {
  const Tensor x = Arange({4, 4});
  const Tensor lengths = Ints({0, 1, 3, 4});
  const auto run = [&](int64_t batch_axis) {
    return Apply({.op_type = "ReverseSequence",
                  .attributes = {{"batch_axis", batch_axis}, {"time_axis", 1 - batch_axis}}},
                 {x, lengths});
  };
  EXPECT_TRUE(Close(
      run(0), Tensor::Of<float>({4, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 11, 10, 9, 12, 16, 15, 14, 13}),
      Exact()));
  EXPECT_TRUE(Close(
      run(1), Tensor::Of<float>({4, 4}, {1, 2, 11, 16, 5, 6, 7, 12, 9, 10, 3, 8, 13, 14, 15, 4}),
      Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "ReverseSequence"}, {Arange({2, 1, 3}), Ints({2})}),
                    Tensor::Of<float>({2, 1, 3}, {4, 5, 6, 1, 2, 3}), Exact()));
}

TEST(ReverseSequence, SaysWhatIsWrong) {
  const Tensor x = Arange({2, 3});
  EXPECT_EQ(Error({.op_type = "ReverseSequence"}, {x, Ints({1, 2, 3})}),
            "element 2 of sequence_lens is 3 where 0 to 2 are expected");
  EXPECT_EQ(Error({.op_type = "ReverseSequence"}, {x, Ints({1, 2, -1})}),
            "element 2 of sequence_lens is -1 where 0 to 2 are expected");
  EXPECT_EQ(Error({.op_type = "ReverseSequence"}, {x, Ints({1, 2})}),
            "input 1 (sequence_lens) has 2 elements where 3 are expected");
  EXPECT_EQ(Error({.op_type = "ReverseSequence", .attributes = {{"time_axis", int64_t{1}}}},
                  {x, Ints({1, 2, 1})}),
            "attributes 'batch_axis' and 'time_axis' are both 1 where 0 and 1 are expected");
}

}  // namespace
}  // namespace tandem
