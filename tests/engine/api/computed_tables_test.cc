// Shapes and tables that a model computes from constants and from extents that are known: nothing
// of it is left in the plan. The oracle is the same model without folding.
#include <gtest/gtest.h>

#include "tests/engine/api/folding.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Close;
using test::Exact;
using test::ExpectFolded;
using test::IntTensor;
using test::LoadAndRun;
using test::Loaded;
using test::ModelBuilder;
using test::RandomFloats;
using test::Strict;

using Ints = std::vector<int64_t>;

constexpr int64_t kLarge = int64_t{1} << 53;  // kLarge + 1 is no double

TEST(ComputedTables, ShapeArgumentsAreComputedInExactIntegers) {
  // (2^53 + 1) - (2^53 - 5) = 6 must stay exact.
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {2, 12})
      .Initializer("a", IntTensor({kLarge + 1}))
      .Initializer("b", IntTensor({kLarge - 5}))
      .Initializer("rest", IntTensor({-1}))
      .Node("Sub", {"a", "b"}, {"six"})
      .Node("Concat", {"six", "rest"}, {"shape"}, {{"axis", int64_t{0}}})
      .Node("Reshape", {"x", "shape"}, {"r"})
      .Node("Relu", {"r"}, {"y"})
      .Output("y");
  const Engine engine(Strict());
  const Loaded loaded = LoadAndRun(engine, builder, {{"x", RandomFloats({2, 12}, 1)}});
  ASSERT_EQ(loaded.outputs.size(), 1u);
  EXPECT_EQ(loaded.outputs[0].tensor.shape(), (Shape{6, 4}));
  EXPECT_EQ(loaded.kernels.size(), 1u) << loaded.model->Explain();
}

// Without folding, one step and the same bits; what is left has this shape.
void ExpectOneStep(const ModelBuilder& builder, const Tensor& x, const Shape& result) {
  ExpectFolded(builder, {{"x", x}}, 1, Exact());
  const Engine engine(Strict());
  const Loaded loaded = LoadAndRun(engine, builder, {{"x", x}});
  ASSERT_EQ(loaded.outputs.size(), 1u);
  EXPECT_EQ(loaded.outputs[0].tensor.shape(), result);
}

TEST(ComputedTables, BoundsOfASliceComeFromAShapeAndLargeNumbers) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {2, 12})
      .Initializer("one", IntTensor({1}))
      .Initializer("large", IntTensor({kLarge + 1}))
      .Initializer("larger", IntTensor({kLarge + 5}))
      .Initializer("six", IntTensor({6}))
      .Node("Shape", {"x"}, {"shape"})
      .Node("Gather", {"shape", "one"}, {"width"})
      .Node("Add", {"width", "large"}, {"sum"})
      .Node("Sub", {"sum", "larger"}, {"ends"})
      .Node("Sub", {"ends", "six"}, {"starts"})
      .Node("Slice", {"x", "starts", "ends", "one"}, {"y"})
      .Output("y");
  ExpectOneStep(builder, RandomFloats({2, 12}, 1), {2, 6});
}

TEST(ComputedTables, SizesOfAResizeComeFromAShapeAndLargeNumbers) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {1, 3, 6, 8})
      .Initializer("from", IntTensor({0}))
      .Initializer("to", IntTensor({2}))
      .Initializer("a", IntTensor({kLarge + 9, kLarge + 17}))
      .Initializer("b", IntTensor({kLarge - 3, kLarge + 1}))
      .Node("Shape", {"x"}, {"shape"})
      .Node("Slice", {"shape", "from", "to"}, {"kept"})
      .Node("Sub", {"a", "b"}, {"image"})
      .Node("Concat", {"kept", "image"}, {"sizes"}, {{"axis", int64_t{0}}})
      .Node("Resize", {"x", "", "", "sizes"}, {"y"}, {{"mode", std::string("linear")}})
      .Output("y");
  ExpectOneStep(builder, RandomFloats({1, 3, 6, 8}, 1), {1, 3, 12, 16});
}

TEST(ComputedTables, AShapeMayBeARange) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {48})
      .Initializer("start", Tensor::Scalar(kLarge + 1))
      .Initializer("limit", Tensor::Scalar(kLarge + 7))
      .Initializer("delta", Tensor::Scalar(int64_t{2}))
      .Initializer("less", Tensor::Scalar(kLarge - 1))
      .Node("Range", {"start", "limit", "delta"}, {"range"})
      .Node("Sub", {"range", "less"}, {"shape"})
      .Node("Reshape", {"x", "shape"}, {"r"})
      .Node("Relu", {"r"}, {"y"})
      .Output("y");
  ExpectOneStep(builder, RandomFloats({48}, 1), {2, 4, 6});
}

TEST(ComputedTables, RelativePositionBiasPositionsAndCausalMasksAreTables) {
  constexpr int64_t kLength = 8;
  std::vector<int64_t> distances;
  for (int64_t i = 0; i < kLength; ++i) {
    for (int64_t j = 0; j < kLength; ++j) distances.push_back(i - j + kLength - 1);
  }
  ModelBuilder builder(17);
  builder.Input("scores", DType::kFloat, {4, kLength, kLength})
      .Initializer("table", RandomFloats({2 * kLength - 1, 4}, 1))
      .Initializer("distances", Tensor::Of<int64_t>({kLength, kLength}, distances))
      .Node("Gather", {"table", "distances"}, {"gathered"})
      .Node("Transpose", {"gathered"}, {"bias"}, {{"perm", Ints{2, 0, 1}}})
      .Initializer("zero", Tensor::Scalar<float>(0))
      .Initializer("length", Tensor::Scalar<float>(kLength))
      .Initializer("one", Tensor::Scalar<float>(1))
      .Node("Range", {"zero", "length", "one"}, {"positions"})
      .Node("Sin", {"positions"}, {"sines"})
      .Initializer("minus", Tensor::Of<float>({kLength, kLength},
                                              std::vector<float>(kLength * kLength, -1e9f)))
      .Initializer("first", Tensor::Scalar<int64_t>(1))
      .Node("Trilu", {"minus", "first"}, {"causal"})
      .Node("Add", {"bias", "sines"}, {"moved"})
      .Node("Add", {"moved", "causal"}, {"mask"})
      .Node("Add", {"scores", "mask"}, {"y"})
      .Output("y");
  EngineOptions options;
  const Engine engine(options);
  const std::vector<NamedTensor> inputs = {{"scores", RandomFloats({4, kLength, kLength}, 2)}};
  const Loaded loaded = LoadAndRun(engine, builder, inputs);
  EXPECT_EQ(loaded.kernels.size(), 1u) << loaded.model->Explain();
  options.disabled_passes = {"fold_constants"};
  const Engine plain(options);
  EXPECT_TRUE(Close(loaded.outputs[0].tensor, LoadAndRun(plain, builder, inputs).outputs[0].tensor,
                    Exact()));
}

TEST(ComputedTables, TablesThatOnlyRepeatStayViews) {
  for (const std::string op : {"Expand", "Tile"}) {
    ModelBuilder builder(17);
    builder.Input("x", DType::kFloat, {3, 48})
        .Initializer("row", RandomFloats({1, 80}, 1))
        .Initializer("repeats", IntTensor({48, op == "Tile" ? int64_t{1} : int64_t{80}}))
        .Node(op, {"row", "repeats"}, {"w"})
        .Node("MatMul", {"x", "w"}, {"y"})
        .Output("y");
    ExpectFolded(builder, {{"x", RandomFloats({3, 48}, 2)}}, 1, Exact());
  }
}

// positions = the middles of so many cells, as float.
void AddPositions(int64_t cells, ModelBuilder& builder) {
  builder.Initializer("zero", Tensor::Scalar(0.0F))
      .Initializer("cells", Tensor::Scalar(static_cast<float>(cells)))
      .Initializer("step", Tensor::Scalar(1.0F))
      .Initializer("middle", Tensor::Scalar(0.5F))
      .Node("Range", {"zero", "cells", "step"}, {"range"})
      .Node("Add", {"range", "middle"}, {"positions"});
}

// The places of a grid, in pixels, as detectors compute them.
TEST(ComputedTables, AnchorsOfAGridAreATable) {
  constexpr int64_t kCells = 40;
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {3, kCells * kCells, 2});
  AddPositions(kCells, builder);
  builder.Initializer("grid", IntTensor({kCells, kCells}))
      .Initializer("last", IntTensor({-1}))
      .Initializer("row", IntTensor({0}))
      .Initializer("list", IntTensor({-1, 2}))
      .Initializer("stride", Tensor::Scalar(8.0F))
      .Node("Unsqueeze", {"positions", "row"}, {"across"})
      .Node("Unsqueeze", {"positions", "last"}, {"down"})
      .Node("Expand", {"across", "grid"}, {"xs"})
      .Node("Expand", {"down", "grid"}, {"ys"})
      .Node("Unsqueeze", {"xs", "last"}, {"xs1"})
      .Node("Unsqueeze", {"ys", "last"}, {"ys1"})
      .Node("Concat", {"xs1", "ys1"}, {"pairs"}, {{"axis", int64_t{-1}}})
      .Node("Reshape", {"pairs", "list"}, {"places"})
      .Node("Mul", {"places", "stride"}, {"anchors"})
      .Node("Add", {"x", "anchors"}, {"y"})
      .Output("y");
  const std::vector<NamedTensor> inputs = {{"x", RandomFloats({3, kCells * kCells, 2}, 1)}};
  const Engine engine(EngineOptions{.threads = 1});
  const Loaded loaded = LoadAndRun(engine, builder, inputs);
  EXPECT_EQ(loaded.kernels.size(), 1u) << loaded.model->Explain();
  EXPECT_TRUE(loaded.declines.empty());
  const Engine plain(EngineOptions{.threads = 1, .disabled_passes = {"fold_constants"}});
  EXPECT_TRUE(Close(loaded.outputs.at(0).tensor,
                    LoadAndRun(plain, builder, inputs).outputs.at(0).tensor, Exact()));
}

TEST(ComputedTables, APositionThatEveryRowRepeatsStaysAView) {
  constexpr int64_t kCells = 40;
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kCells, kCells});
  AddPositions(kCells, builder);
  builder.Initializer("grid", IntTensor({kCells, kCells}))
      .Initializer("row", IntTensor({0}))
      .Node("Cos", {"positions"}, {"cosines"})
      .Node("Unsqueeze", {"cosines", "row"}, {"across"})
      .Node("Expand", {"across", "grid"}, {"table"})
      .Node("Mul", {"x", "table"}, {"y"})
      .Output("y");
  ExpectFolded(builder, {{"x", RandomFloats({kCells, kCells}, 1)}}, 1, Exact());
}

// Cosines and sines of positions times frequencies, beside each other.
TEST(ComputedTables, RotationsByPositionAreATable) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {2, 16, 12});
  AddPositions(16, builder);
  builder.Initializer("frequencies", RandomFloats({1, 6}, 2, 0.01F, 1))
      .Initializer("last", IntTensor({-1}))
      .Node("Unsqueeze", {"positions", "last"}, {"column"})
      .Node("Mul", {"column", "frequencies"}, {"angles"})
      .Node("Cos", {"angles"}, {"cosines"})
      .Node("Sin", {"angles"}, {"sines"})
      .Node("Concat", {"cosines", "sines"}, {"table"}, {{"axis", int64_t{-1}}})
      .Node("Mul", {"x", "table"}, {"y"})
      .Output("y");
  const std::vector<NamedTensor> inputs = {{"x", RandomFloats({2, 16, 12}, 1)}};
  const Engine engine(EngineOptions{.threads = 1});
  const Loaded loaded = LoadAndRun(engine, builder, inputs);
  EXPECT_EQ(loaded.kernels.size(), 1u) << loaded.model->Explain();
  const Engine plain(EngineOptions{.threads = 1, .disabled_passes = {"fold_constants"}});
  EXPECT_TRUE(Close(loaded.outputs.at(0).tensor,
                    LoadAndRun(plain, builder, inputs).outputs.at(0).tensor, Exact()));
}

}  // namespace
}  // namespace tandem
