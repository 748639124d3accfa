// What a process holds already is not held again: a model with the weights of another one, in other
// places and under other names, takes next to nothing.
#include <gtest/gtest.h>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::LoadModel;
using test::ModelBuilder;
using test::RandomFloats;
using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");
constexpr int64_t kWide = 512;
constexpr int64_t kNarrow = 384;

Tensor TransposedCopy(const Tensor& w) {
  const int64_t rows = w.shape()[0];
  const int64_t columns = w.shape()[1];
  Tensor result = *Tensor::Allocate(DType::kFloat, {columns, rows});
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      result.mutable_data<float>()[j * rows + i] = w.data<float>()[i * columns + j];
    }
  }
  return result;
}

Tensor Up() { return RandomFloats({kWide, kNarrow}, 1, -0.1F, 0.1F); }
Tensor Down() { return RandomFloats({kNarrow, kWide}, 2, -0.1F, 0.1F); }
Tensor Table() { return RandomFloats({300, kWide}, 3); }
Tensor Filters() { return RandomFloats({96, 64, 3, 3}, 4, -0.1F, 0.1F); }

size_t WeightBytes() {
  return static_cast<size_t>(2 * kWide * kNarrow + 300 * kWide + 96 * 64 * 9) * sizeof(float);
}

// x [N,512] -> y [N,512] by two products and an activation; rows of a table; filters of an image.
std::string First() {
  return ModelBuilder(17)
      .Input("x", DType::kFloat, {kN, kWide})
      .Input("ids", DType::kInt64, {kN})
      .Input("image", DType::kFloat, {kN, 64, 5, 5})
      .Initializer("up", Up())
      .Initializer("down", Down())
      .Initializer("table", Table())
      .Initializer("filters", Filters())
      .Node("MatMul", {"x", "up"}, {"h"})
      .Node("Relu", {"h"}, {"a"})
      .Node("MatMul", {"a", "down"}, {"y"})
      .Node("Gather", {"table", "ids"}, {"rows"})
      .Node("Conv", {"image", "filters"}, {"features"})
      .Output("y", DType::kFloat, {kN, kWide})
      .Output("rows", DType::kFloat, {kN, kWide})
      .Output("features", DType::kFloat, {kN, 96, 3, 3})
      .Serialize();
}

// The same weights: one stored transposed, one through an Identity, under other names and in
// another order.
std::string Second() {
  return ModelBuilder(17)
      .Initializer("kernel", Filters())
      .Initializer("embedding", Table())
      .Initializer("second", Down())
      .Initializer("first", TransposedCopy(Up()))
      .Input("image", DType::kFloat, {kN, 64, 5, 5})
      .Input("ids", DType::kInt64, {kN})
      .Input("x", DType::kFloat, {kN, kWide})
      .Node("Identity", {"kernel"}, {"same"})
      .Node("Conv", {"image", "same"}, {"features"})
      .Node("Gather", {"embedding", "ids"}, {"rows"})
      .Node("Transpose", {"first"}, {"turned"}, {{"perm", Ints{1, 0}}})
      .Node("MatMul", {"x", "turned"}, {"h"})
      .Node("Relu", {"h"}, {"a"})
      .Node("MatMul", {"a", "second"}, {"y"})
      .Output("features", DType::kFloat, {kN, 96, 3, 3})
      .Output("rows", DType::kFloat, {kN, kWide})
      .Output("y", DType::kFloat, {kN, kWide})
      .Serialize();
}

size_t Held(const Engine& engine) {
  return engine.stats().constant_bytes + engine.stats().pack_bytes;
}

TEST(SecondLoad, EqualWeightsAreHeldOnceInEitherOrder) {
  for (const bool swapped : {false, true}) {
    const Engine engine(EngineOptions{.threads = 1});
    const auto one = LoadModel(engine, swapped ? Second() : First());
    ASSERT_NE(one, nullptr);
    const size_t first = Held(engine);
    const uint64_t packs = engine.stats().packs_built;
    EXPECT_GE(first, WeightBytes());
    const auto two = LoadModel(engine, swapped ? First() : Second());
    ASSERT_NE(two, nullptr);
    EXPECT_LT(Held(engine) - first, WeightBytes() / 20);
    EXPECT_EQ(engine.stats().packs_built, packs);
    const auto inputs = test::InputsOf(*one, 3);
    test::ExpectClose(test::Answers(*two, inputs), test::Answers(*one, inputs), test::Exact());
  }
}

TEST(SecondLoad, WhatBothHoldStaysUntilTheLastOfThemGoes) {
  const Engine engine(EngineOptions{.threads = 1});
  auto one = LoadModel(engine, First());
  auto two = LoadModel(engine, Second());
  ASSERT_TRUE(one != nullptr && two != nullptr);
  const auto inputs = test::InputsOf(*two, 2);
  const auto expected = test::Answers(*one, inputs);
  const size_t both = Held(engine);
  one.reset();
  EXPECT_EQ(Held(engine), both);
  test::ExpectClose(test::Answers(*two, inputs), expected, test::Exact());
  two.reset();
  EXPECT_EQ(Held(engine), 0u);
}

// The table looked up by rows.
std::string LookingUp() {
  return ModelBuilder(17)
      .Input("ids", DType::kInt64, {kN})
      .Initializer("w", Table())
      .Node("Gather", {"w", "ids"}, {"rows"})
      .Output("rows", DType::kFloat, {kN, kWide})
      .Serialize();
}

// x times the table, transposed.
std::string Multiplying() {
  return ModelBuilder(17)
      .Input("x", DType::kFloat, {kN, kWide})
      .Initializer("table", Table())
      .Node("Transpose", {"table"}, {"t"}, {{"perm", Ints{1, 0}}})
      .Node("MatMul", {"x", "t"}, {"y"})
      .Output("y", DType::kFloat, {kN, 300})
      .Serialize();
}

test::NamedTensors AnswersAlone(const std::string& bytes, const std::vector<NamedTensor>& inputs) {
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = LoadModel(engine, bytes);
  return model == nullptr ? test::NamedTensors() : test::Answers(*model, inputs);
}

TEST(SecondLoad, ATableOfOneModelIsTheTransposedWeightOfAnother) {
  constexpr size_t kTableBytes = size_t{300 * kWide} * sizeof(float);
  for (const bool looking_first : {true, false}) {
    SCOPED_TRACE(looking_first);
    const Engine engine(EngineOptions{.threads = 1});
    std::shared_ptr<const Model> looking, multiplying;
    if (looking_first) looking = LoadModel(engine, LookingUp());
    multiplying = LoadModel(engine, Multiplying());
    if (!looking_first) looking = LoadModel(engine, LookingUp());
    ASSERT_TRUE(looking != nullptr && multiplying != nullptr);
    EXPECT_EQ(engine.stats().constant_bytes, kTableBytes) << "once as it is";
    EXPECT_EQ(engine.stats().packs_built, 1u) << "and once packed";
    const auto x = test::InputsOf(*multiplying, 3);
    const auto ids = test::InputsOf(*looking, 3);
    const PlanReport report = test::ReportOf(*multiplying, x);
    ASSERT_EQ(report.packs.size(), 1u);
    EXPECT_EQ(report.packs[0].bytes, engine.stats().pack_bytes);
    EXPECT_GE(report.packs[0].bytes, kTableBytes);
    EXPECT_EQ(report.constant_bytes, 0u);
    EXPECT_EQ(test::ReportOf(*looking, ids).constant_bytes, kTableBytes);
    test::ExpectClose(test::Answers(*multiplying, x), AnswersAlone(Multiplying(), x),
                      test::Exact());
    test::ExpectClose(test::Answers(*looking, ids), AnswersAlone(LookingUp(), ids), test::Exact());
    looking.reset();
    EXPECT_EQ(engine.stats().constant_bytes, 0u);
    test::ExpectClose(test::Answers(*multiplying, x), AnswersAlone(Multiplying(), x),
                      test::Exact());
  }
}

}  // namespace
}  // namespace tandem
