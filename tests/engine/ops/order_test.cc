// TopK, NonZero, Compress, Unique.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "engine/ops/registry.h"
#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using graph::Dim;
using test::Close;
using test::Exact;
using Ints = std::vector<int64_t>;

Tensor Vector(const Ints& values) {
  return Tensor::Of<int64_t>({static_cast<int64_t>(values.size())},
                             std::span<const int64_t>(values));
}

Tensor Floats(Shape shape, std::initializer_list<float> values) {
  return Tensor::Of<float>(std::move(shape), values);
}

Ints Elements(const Tensor& tensor) {
  const auto span = tensor.span<int64_t>();
  return {span.begin(), span.end()};
}

std::vector<Tensor> RunAll(const test::OpCall& call, const std::vector<Tensor>& inputs) {
  const auto outputs = test::RunOp(call, inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  if (outputs.ok()) return *outputs;
  return std::vector<Tensor>(static_cast<size_t>(call.outputs), Vector({}));
}

std::string Error(const test::OpCall& call, const std::vector<Tensor>& inputs) {
  const auto outputs = test::RunOp(call, inputs);
  return outputs.ok() ? "ok" : std::string(Message(outputs.status()));
}

test::OpCall TopK(int64_t largest, int64_t axis = -1) {
  return {.op_type = "TopK",
          .opset = 11,
          .attributes = {{"largest", largest}, {"axis", axis}},
          .outputs = 2};
}

TEST(TopK, TheLowerIndexOfEqualElementsIsFirst) {
  const Tensor x = Tensor::Of<uint8_t>({5}, {1, 3, 3, 2, 3});
  const auto largest = RunAll(TopK(1), {x, Vector({3})});
  EXPECT_TRUE(Close(largest[0], Tensor::Of<uint8_t>({3}, {3, 3, 3}), Exact()));
  EXPECT_EQ(Elements(largest[1]), (Ints{1, 2, 4}));
  const auto smallest = RunAll(TopK(0), {x, Vector({4})});
  EXPECT_TRUE(Close(smallest[0], Tensor::Of<uint8_t>({4}, {1, 2, 3, 3}), Exact()));
  EXPECT_EQ(Elements(smallest[1]), (Ints{0, 3, 1, 2}));
}

TEST(TopK, ANaNIsLargerThanEverythingElse) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Tensor x = Floats({5}, {1, kNaN, kInf, -kInf, kNaN});
  EXPECT_EQ(Elements(RunAll(TopK(1), {x, Vector({5})})[1]), (Ints{1, 4, 2, 0, 3}));
  EXPECT_EQ(Elements(RunAll(TopK(0), {x, Vector({5})})[1]), (Ints{3, 0, 2, 1, 4}));
}

TEST(TopK, AgreesWithASortAlongEveryAxisForEveryK) {
  const Tensor x = test::RandomFloats({3, 7, 5}, 2);
  // Few different values, so that there are ties.
  for (float& value : std::span(x.mutable_data<float>(), 105)) value = std::round(value * 4);
  for (const int64_t axis : {0, 1, 2}) {
    const auto a = static_cast<int>(axis);
    const int64_t length = x.shape()[a];
    const int64_t inner = x.shape().Product(a + 1, 3);
    for (int64_t k = 0; k <= length; ++k) {
      for (const int64_t largest : {0, 1}) {
        const auto y = RunAll(TopK(largest, axis), {x, Vector({k})});
        ASSERT_EQ(y[0].shape()[a], k);
        for (int64_t row = 0; row < 105 / length; ++row) {
          const float* slice = x.data<float>() + row / inner * length * inner + row % inner;
          Ints order(static_cast<size_t>(length));
          std::iota(order.begin(), order.end(), 0);
          std::ranges::stable_sort(order, [&](int64_t i, int64_t j) {
            const float left = slice[i * inner];
            const float right = slice[j * inner];
            return largest == 1 ? left > right : left < right;
          });
          for (int64_t i = 0; i < k; ++i) {
            const int64_t at = (row / inner * k + i) * inner + row % inner;
            const int64_t expected = order[static_cast<size_t>(i)];
            ASSERT_EQ(y[1].data<int64_t>()[at], expected);
            ASSERT_EQ(y[0].data<float>()[at], slice[expected * inner]);
          }
        }
      }
    }
  }
}

TEST(TopK, TakesKAsAttributeThenAsInput) {
  const Tensor x = Floats({1, 3}, {1, 3, 2});
  EXPECT_EQ(Elements(RunAll(
                {.op_type = "TopK", .opset = 9, .attributes = {{"k", int64_t{2}}}, .outputs = 2},
                {x})[1]),
            (Ints{1, 2}));
  EXPECT_EQ(Elements(RunAll({.op_type = "TopK", .opset = 10, .outputs = 2}, {x, Vector({1})})[1]),
            (Ints{1}));
  EXPECT_EQ(Error({.op_type = "TopK", .opset = 9, .outputs = 2}, {x}), "attribute 'k' is missing");
  EXPECT_EQ(Error({.op_type = "TopK", .opset = 10, .outputs = 2}, {x}), "input 1 (K) is missing");
}

TEST(TopK, SaysWhatIsWrong) {
  const Tensor x = Floats({2, 3}, {1, 3, 2, 4, 5, 6});
  EXPECT_EQ(Error(TopK(1), {x, Vector({4})}), "k is 4 where axis 1 has 3 elements");
  EXPECT_EQ(Error(TopK(1), {x, Vector({-1})}), "k is -1 where a number >= 0 is expected");
  EXPECT_EQ(Error(TopK(1), {x, Vector({1, 2})}),
            "input 1 (K) is int64[2] where one int64 is expected");
  EXPECT_EQ(Error(TopK(1, 2), {x, Vector({1})}),
            "attribute 'axis' is 2 where -2 to 1 are expected for rank 2");
}

TEST(NonZero, ListsPlacesByAxis) {
  const Tensor x = Floats({2, 3}, {1, 0, -0.0F, 2, std::numeric_limits<float>::quiet_NaN(), 0});
  const Tensor y = RunAll({.op_type = "NonZero"}, {x})[0];
  EXPECT_EQ(y.shape(), Shape({2, 3}));
  EXPECT_EQ(Elements(y), (Ints{0, 1, 1, 0, 0, 1}));
  EXPECT_EQ(RunAll({.op_type = "NonZero"}, {Tensor::Scalar(true)})[0].shape(), Shape({0, 1}));
  EXPECT_EQ(RunAll({.op_type = "NonZero"}, {Floats({0, 3}, {})})[0].shape(), Shape({2, 0}));
  std::vector<int8_t> many(5000, 0);
  many[1024] = many[4999] = 1;
  EXPECT_EQ(Elements(RunAll({.op_type = "NonZero"},
                            {Tensor::Of<int8_t>({5000}, std::span<const int8_t>(many))})[0]),
            (Ints{1024, 4999}));
}

TEST(Compress, KeepsEntriesOfAnAxisOrOfTheFlattenedInput) {
  const Tensor x = Floats({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto run = [&x](std::initializer_list<bool> condition, graph::Attributes attributes) {
    const auto count = static_cast<int64_t>(condition.size());
    return RunAll({.op_type = "Compress", .attributes = std::move(attributes)},
                  {x, Tensor::Of<bool>({count}, condition)})[0];
  };
  EXPECT_TRUE(Close(run({false, true, true}, {{"axis", int64_t{0}}}), Floats({2, 2}, {3, 4, 5, 6}),
                    Exact()));
  EXPECT_TRUE(
      Close(run({false, true}, {{"axis", int64_t{-1}}}), Floats({3, 1}, {2, 4, 6}), Exact()));
  EXPECT_TRUE(Close(run({false, true, false, false, true}, {}), Floats({2}, {2, 5}), Exact()))
      << "what is beyond the condition is left out";
  EXPECT_EQ(run({}, {}).shape(), Shape({0}));
}

TEST(Compress, AConditionBeyondTheAxisMustBeFalse) {
  const Tensor x = Floats({2}, {1, 2});
  EXPECT_TRUE(
      Close(RunAll({.op_type = "Compress"}, {x, Tensor::Of<bool>({3}, {true, false, false})})[0],
            Floats({1}, {1}), Exact()));
  EXPECT_EQ(Error({.op_type = "Compress"}, {x, Tensor::Of<bool>({3}, {true, false, true})}),
            "element 2 of the condition is true where the axis has 2 elements");
  EXPECT_EQ(Error({.op_type = "Compress"}, {x, x}),
            "input 1 (condition) is float[2] where a bool vector is expected");
}

TEST(Unique, RisingOrByFirstOccurrence) {
  const Tensor x = Floats({6}, {2, 1, 1, 3, 4, 3});
  const auto rising = RunAll({.op_type = "Unique", .outputs = 4}, {x});
  EXPECT_TRUE(Close(rising[0], Floats({4}, {1, 2, 3, 4}), Exact()));
  EXPECT_EQ(Elements(rising[1]), (Ints{1, 0, 3, 4}));
  EXPECT_EQ(Elements(rising[2]), (Ints{1, 0, 0, 2, 3, 2}));
  EXPECT_EQ(Elements(rising[3]), (Ints{2, 1, 2, 1}));
  const auto first =
      RunAll({.op_type = "Unique", .attributes = {{"sorted", int64_t{0}}}, .outputs = 4}, {x});
  EXPECT_TRUE(Close(first[0], Floats({4}, {2, 1, 3, 4}), Exact()));
  EXPECT_EQ(Elements(first[1]), (Ints{0, 1, 3, 4}));
  EXPECT_EQ(Elements(first[2]), (Ints{0, 1, 1, 2, 3, 2}));
  EXPECT_EQ(Elements(first[3]), (Ints{1, 2, 2, 1}));
}

TEST(Unique, EntriesOfAnAxisAreOrderedByTheirFirstDifference) {
  const Tensor x = Floats({3, 2}, {1, 5, 1, 5, 0, 9});
  const auto rows =
      RunAll({.op_type = "Unique", .attributes = {{"axis", int64_t{0}}}, .outputs = 4}, {x});
  EXPECT_TRUE(Close(rows[0], Floats({2, 2}, {0, 9, 1, 5}), Exact()));
  EXPECT_EQ(Elements(rows[1]), (Ints{2, 0}));
  EXPECT_EQ(Elements(rows[2]), (Ints{1, 1, 0}));
  const auto columns = RunAll({.op_type = "Unique", .attributes = {{"axis", int64_t{-1}}}}, {x});
  EXPECT_TRUE(Close(columns[0], x, Exact()));
}

TEST(Unique, StringsEmptyInputsAndNaN) {
  EXPECT_TRUE(Close(
      RunAll({.op_type = "Unique"}, {Tensor::Of<std::string>({2, 2}, {"b", "a", "b", ""})})[0],
      Tensor::Of<std::string>({3}, {"", "a", "b"}), Exact()));
  const auto empty = RunAll({.op_type = "Unique", .outputs = 4}, {Floats({0, 2}, {})});
  for (const Tensor& output : empty) EXPECT_EQ(output.shape(), Shape({0}));
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const auto nan = RunAll({.op_type = "Unique", .outputs = 4}, {Floats({3}, {kNaN, 1, kNaN})});
  EXPECT_EQ(Elements(nan[3]), (Ints{1, 2}));
}

TEST(Order, ShapesThatDependOnDataAreUnknownBeforeARun) {
  test::GraphBuilder builder;
  const graph::Graph graph = builder.Input("x", DType::kFloat, {Dim::Symbol("N"), 4})
                                 .Input("c", DType::kBool, {Dim::Symbol("N")})
                                 .Input("k", DType::kInt64, {1})
                                 .Node("NonZero", {"x"}, {"places"})
                                 .Node("Compress", {"x", "c"}, {"kept"}, {{"axis", int64_t{0}}})
                                 .Node("Unique", {"x"}, {"y", "", "inverse"})
                                 .Node("TopK", {"x", "k"}, {"values", "indices"})
                                 .Output("places")
                                 .Output("kept")
                                 .Output("y")
                                 .Output("inverse")
                                 .Output("values")
                                 .Output("indices")
                                 .Build();
  const auto type = [&graph](const char* name) {
    return ToString(graph.value(graph.FindValue(name)).type);
  };
  EXPECT_EQ(type("places"), "int64[2,?]");
  EXPECT_EQ(type("kept"), "float[?,4]");
  EXPECT_EQ(type("y"), "float[?]");
  EXPECT_EQ(type("inverse"), "int64[4*N]");
  EXPECT_EQ(type("values"), "float[N,?]");
  EXPECT_EQ(type("indices"), "int64[N,?]");
}

}  // namespace
}  // namespace tandem
