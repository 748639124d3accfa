// Batches of no items and extents of 1, through whole models.
#include <gtest/gtest.h>

#include <limits>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::ExpectMeans;
using test::LoadModel;
using test::ModelBuilder;
using test::RandomFloats;
using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");
const graph::Dim kH = graph::Dim::Symbol("H");
const graph::Dim kW = graph::Dim::Symbol("W");

// Conv, activation, depthwise Conv, pooling, Gemm, Concat and reductions of x [N,3,H,W].
std::string Everything() {
  return ModelBuilder(17)
      .Input("x", DType::kFloat, {kN, 3, kH, kW})
      .Input("side", DType::kFloat, {kN, 2})
      .Initializer("w", RandomFloats({5, 3, 3, 3}, 1))
      .Initializer("dw", RandomFloats({5, 1, 3, 3}, 2))
      .Initializer("fc", RandomFloats({5, 7}, 3))
      .Initializer("bias", RandomFloats({7}, 4))
      .Initializer("last", Tensor::Of<int64_t>({1}, {-1}))
      .Initializer("first", Tensor::Of<int64_t>({1}, {0}))
      .Node("Conv", {"x", "w"}, {"c"}, {{"pads", Ints{1, 1, 1, 1}}})
      .Node("Relu", {"c"}, {"r"})
      .Node("Conv", {"r", "dw"}, {"d"}, {{"pads", Ints{1, 1, 1, 1}}, {"group", int64_t{5}}})
      .Node("Add", {"d", "r"}, {"a"})
      .Node("GlobalAveragePool", {"a"}, {"g"})
      .Node("Flatten", {"g"}, {"f"})
      .Node("Gemm", {"f", "fc", "bias"}, {"y"})
      .Node("Softmax", {"y"}, {"s"})
      .Node("Concat", {"s", "side", "f"}, {"all"}, {{"axis", int64_t{1}}})
      .Node("ReduceSum", {"all", "last"}, {"rows"}, {{"keepdims", int64_t{0}}})
      .Node("ReduceSum", {"all", "first"}, {"columns"}, {{"keepdims", int64_t{0}}})
      .Node("ReduceProd", {"side"}, {"product"}, {{"axes", Ints{0}}})
      .Node("Transpose", {"a"}, {"t"}, {{"perm", Ints{0, 2, 3, 1}}})
      .Output("a", DType::kFloat, {kN, 5, kH, kW})
      .Output("t", DType::kFloat, {kN, kH, kW, 5})
      .Output("all", DType::kFloat, {kN, 14})
      .Output("rows", DType::kFloat, {kN})
      .Output("columns", DType::kFloat, {14})
      .Output("product", DType::kFloat, {1, 2})
      .Serialize();
}

void ExpectSumsOfNothing(const Model& model) {
  const auto outputs = test::Answers(
      model, {{"x", RandomFloats({0, 3, 4, 6}, 1)}, {"side", RandomFloats({0, 2}, 1)}});
  ASSERT_EQ(outputs.size(), 6u);
  EXPECT_EQ(outputs.at("a").shape(), Shape({0, 5, 4, 6}));
  EXPECT_EQ(outputs.at("t").shape(), Shape({0, 4, 6, 5}));
  EXPECT_EQ(outputs.at("all").shape(), Shape({0, 14}));
  EXPECT_EQ(outputs.at("rows").shape(), Shape({0}));
  const Tensor zeros = Tensor::Of<float>({14}, std::vector<float>(14, 0));
  EXPECT_TRUE(test::Close(outputs.at("columns"), zeros, test::Exact()));
  EXPECT_TRUE(test::Close(outputs.at("product"), Tensor::Of<float>({1, 2}, {1, 1}), test::Exact()));
}

TEST(EmptyExtents, ABatchOfNoItemsHasEmptyRowsAndSumsOfNothing) {
  for (const int threads : {1, 2, 4}) {
    const Engine engine(EngineOptions{.threads = threads});
    for (const std::string& bytes : test::OrdersOf(Everything())) {
      const auto model = LoadModel(engine, bytes);
      ASSERT_NE(model, nullptr);
      ExpectSumsOfNothing(*model);
    }
  }
}

TEST(EmptyExtents, ExtentsOfOneAreNothingSpecial) {
  const std::string bytes = Everything();
  for (const Shape& shape : {Shape{1, 3, 1, 1}, Shape{3, 3, 1, 1}, Shape{1, 3, 1, 9},
                             Shape{2, 3, 9, 1}, Shape{1, 3, 2, 2}}) {
    SCOPED_TRACE(ToString(shape));
    const std::vector<NamedTensor> given = {{"x", RandomFloats(shape, 1)},
                                            {"side", RandomFloats({shape[0], 2}, 2)}};
    ExpectMeans(
        bytes, {.oracle = bytes, .options = test::WithoutPasses(), .batches = {1}, .given = given});
    ExpectMeans(bytes, {.oracle = bytes,
                        .options = test::WithoutPacks(),
                        .tolerance = test::Reduction(27 + 9 + 5),
                        .batches = {1},
                        .given = given});
  }
}

// A part without elements adds nothing, wherever it stands, and an item may have no elements.
TEST(EmptyExtents, PartsWithoutElements) {
  const std::string bytes = ModelBuilder(17)
                                .Input("x", DType::kFloat, {kN, 4})
                                .Input("e", DType::kFloat, {kN, kW})
                                .Initializer("w", RandomFloats({4, 3}, 1))
                                .Node("MatMul", {"x", "w"}, {"p"})
                                .Node("Concat", {"e", "p", "e"}, {"y"}, {{"axis", int64_t{1}}})
                                .Node("Exp", {"e"}, {"z"})
                                .Output("y", DType::kFloat, {kN, graph::Dim()})
                                .Output("z", DType::kFloat, {kN, kW})
                                .Serialize();
  for (const int threads : {1, 4}) {
    const Engine engine(EngineOptions{.threads = threads});
    const auto model = LoadModel(engine, bytes);
    ASSERT_NE(model, nullptr);
    for (const int64_t rows : {0, 1, 5}) {
      const auto outputs = test::Answers(
          *model, {{"x", RandomFloats({rows, 4}, 1)}, {"e", RandomFloats({rows, 0}, 1)}});
      ASSERT_EQ(outputs.size(), 2u);
      EXPECT_EQ(outputs.at("y").shape(), Shape({rows, 3}));
      EXPECT_EQ(outputs.at("z").shape(), Shape({rows, 0}));
    }
  }
}

TEST(EmptyExtents, AnExtremeOfNothingIsTheIdentityOfItsType) {
  const std::string bytes = ModelBuilder(20)
                                .Input("f", DType::kFloat, {kN, 2})
                                .Input("i", DType::kInt64, {kN, 2})
                                .Initializer("axes", Tensor::Of<int64_t>({1}, {0}))
                                .Node("ReduceMax", {"f", "axes"}, {"f_max"})
                                .Node("ReduceMin", {"f", "axes"}, {"f_min"})
                                .Node("ReduceMax", {"i", "axes"}, {"i_max"})
                                .Node("ReduceMin", {"i", "axes"}, {"i_min"})
                                .Output("f_max", DType::kFloat, {1, 2})
                                .Output("f_min", DType::kFloat, {1, 2})
                                .Output("i_max", DType::kInt64, {1, 2})
                                .Output("i_min", DType::kInt64, {1, 2})
                                .Serialize();
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = LoadModel(engine, bytes);
  ASSERT_NE(model, nullptr);
  const auto outputs = test::Answers(
      *model, {{"f", RandomFloats({0, 2}, 1)}, {"i", *Tensor::Allocate(DType::kInt64, {0, 2})}});
  ASSERT_EQ(outputs.size(), 4u);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();
  const auto expect = [&](const std::string& name, const Tensor& expected) {
    EXPECT_TRUE(test::Close(outputs.at(name), expected, test::Exact())) << name;
  };
  expect("f_max", Tensor::Of<float>({1, 2}, {-kInfinity, -kInfinity}));
  expect("f_min", Tensor::Of<float>({1, 2}, {kInfinity, kInfinity}));
  expect("i_max", Tensor::Of<int64_t>({1, 2}, {kLowest, kLowest}));
  expect("i_min", Tensor::Of<int64_t>({1, 2}, {kHighest, kHighest}));
}

}  // namespace
}  // namespace tandem
