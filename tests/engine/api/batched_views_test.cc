// Chains of views, rolls, windows and normalizations over batches: an item never sees another one,
// and a batch that mixes is not cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/engine/api/comparison.h"
#include "tests/engine/api/rolls.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::ExpectItemsAlone;
using test::ExpectMeans;
using test::InputsOf;
using test::LoadModel;
using test::ModelBuilder;
using test::RandomFloats;
using test::Roll;
using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");

Tensor IntVector(const Ints& values) {
  return Tensor::Of<int64_t>({static_cast<int64_t>(values.size())}, values);
}

// Normalization of an image over its channels, written out, behind a pointwise convolution.
std::string ChannelNorm() {
  const graph::Attributes channels = {{"axes", Ints{1}}};
  return ModelBuilder(13)
      .Input("x", DType::kFloat, {kN, 7, 6, 5})
      .Initializer("w", RandomFloats({9, 7, 1, 1}, 1))
      .Initializer("two", Tensor::Scalar(2.0F))
      .Initializer("epsilon", Tensor::Scalar(1e-6F))
      .Initializer("scale", RandomFloats({9, 1, 1}, 2))
      .Node("Conv", {"x", "w"}, {"c"})
      .Node("ReduceMean", {"c"}, {"m"}, channels)
      .Node("Sub", {"c", "m"}, {"d"})
      .Node("Pow", {"d", "two"}, {"p"})
      .Node("ReduceMean", {"p"}, {"v"}, channels)
      .Node("Add", {"v", "epsilon"}, {"e"})
      .Node("Sqrt", {"e"}, {"r"})
      .Node("Div", {"d", "r"}, {"n"})
      .Node("Mul", {"n", "scale"}, {"y"})
      .Output("y", DType::kFloat, {kN, 9, 6, 5})
      .Serialize();
}

TEST(BatchedViews, ANormalizationOverTheChannelsKeepsItemsApart) {
  const std::string bytes = ChannelNorm();
  for (const int64_t items : {2, 3, 7}) ExpectItemsAlone(bytes, items);
  ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses()});
  ExpectMeans(
      bytes,
      {.oracle = bytes, .options = test::WithoutPacks(), .tolerance = test::Reduction(16 * 9)});
}

Tensor Filled(float value) { return Tensor::Of<float>({32}, std::vector<float>(32, value)); }

// x of mean 1e4 and deviation 1, normalized along `axis` as exporters write it.
TEST(BatchedViews, AMeanFarFromZeroCostsAVarianceNothing) {
  for (const int64_t axis : {1, 2}) {
    const graph::Attributes axes = {{"axes", Ints{axis}}};
    const Shape shape = {2, 32, 32};
    const std::string bytes = ModelBuilder(13)
                                  .Input("x", DType::kFloat, {kN, 32, 32})
                                  .Initializer("two", Tensor::Scalar(2.0F))
                                  .Initializer("epsilon", Tensor::Scalar(1e-5F))
                                  .Node("ReduceMean", {"x"}, {"m"}, axes)
                                  .Node("Sub", {"x", "m"}, {"d"})
                                  .Node("Pow", {"d", "two"}, {"p"})
                                  .Node("ReduceMean", {"p"}, {"v"}, axes)
                                  .Node("Add", {"v", "epsilon"}, {"e"})
                                  .Node("Sqrt", {"e"}, {"r"})
                                  .Node("Div", {"d", "r"}, {"n"})
                                  .Node("Mul", {"n", "ones"}, {"s"})
                                  .Node("Add", {"s", "zeros"}, {"y"})
                                  .Initializer("ones", Filled(1))
                                  .Initializer("zeros", Filled(0))
                                  .Output("y", DType::kFloat, {kN, 32, 32})
                                  .Serialize();
    const Tensor x = RandomFloats(shape, 1, 9998, 10002);
    Tensor expected = *Tensor::Allocate(DType::kFloat, shape);
    const int64_t stride = axis == 1 ? 32 : 1;
    for (int64_t set = 0; set < 64; ++set) {
      const int64_t start = axis == 1 ? set / 32 * 1024 + set % 32 : set * 32;
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < 32; ++i) mean += x.data<float>()[start + i * stride] / 32.0;
      for (int64_t i = 0; i < 32; ++i) {
        variance += std::pow(x.data<float>()[start + i * stride] - mean, 2) / 32;
      }
      for (int64_t i = 0; i < 32; ++i) {
        expected.mutable_data<float>()[start + i * stride] = static_cast<float>(
            (x.data<float>()[start + i * stride] - mean) / std::sqrt(variance + 1e-5));
      }
    }
    const Engine engine(EngineOptions{.threads = 1});
    const auto model = LoadModel(engine, bytes);
    ASSERT_NE(model, nullptr);
    // The mean is a float: one unit in the last place of 1e4, whatever the sum was.
    EXPECT_TRUE(test::Close(test::Answers(*model, {{"x", x}}).at("y"), expected,
                            {.absolute = std::ldexp(1.0, -10)}))
        << "axis " << axis;
  }
}

// Over what the attention of windows is normalized: over the places of a window, over all windows
// of all items, or over the latter moved behind.
enum class Mix { kPlaces, kWindows, kMovedWindows };

// weights = Softmax(biased), with "mix" as the name of the node.
void AddSoftmax(Mix mix, ModelBuilder& builder) {
  if (mix != Mix::kMovedWindows) {
    const graph::Attributes axis = {{"axis", int64_t{mix == Mix::kPlaces ? -1 : 0}}};
    builder.Node("Softmax", {"biased"}, {"weights"}, axis, "mix");
    return;
  }
  builder.Node("Transpose", {"biased"}, {"moved"}, {{"perm", Ints{1, 2, 0}}})
      .Node("Softmax", {"moved"}, {"mixed_weights"}, {{"axis", int64_t{-1}}}, "mix")
      .Node("Transpose", {"mixed_weights"}, {"weights"}, {{"perm", Ints{2, 0, 1}}});
}

// Attention in shifted windows of 4 by 4 places of x [N,8,8,6], with a bias from a table. Where
// items are mixed, the products see the places of all items as rows.
std::string ShiftedWindows(Roll roll, Mix mix = Mix::kPlaces) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 8, 8, 6})
      .Initializer("to_windows", IntVector({-1, 2, 4, 2, 4, 6}))
      .Initializer("tokens", IntVector({-1, 16, 6}))
      .Initializer("rows_of_all", IntVector({-1, 6}))
      .Initializer("image", IntVector({-1, 8, 8, 6}))
      .Initializer("table", RandomFloats({49}, 1));
  std::vector<int64_t> places;
  for (int64_t i = 0; i < 16; ++i) {
    for (int64_t j = 0; j < 16; ++j) {
      places.push_back((i / 4 - j / 4 + 3) * 7 + (i % 4 - j % 4 + 3));
    }
  }
  builder.Initializer("places", Tensor::Of<int64_t>({16, 16}, places));
  AddRoll(roll, "x", "down", {.shift = 2, .axis = 1}, builder);
  AddRoll(roll, "down", "right", {.shift = 2, .axis = 2}, builder);
  builder.Node("Reshape", {"right", "to_windows"}, {"cut"})
      .Node("Transpose", {"cut"}, {"windows"}, {{"perm", Ints{0, 1, 3, 2, 4, 5}}})
      .Node("Reshape", {"windows", "tokens"}, {"t"});
  for (const std::string n : {"q", "k", "v"}) {
    builder.Initializer("w" + n, RandomFloats({6, 6}, static_cast<uint32_t>(n[0])));
    if (mix == Mix::kPlaces) {
      builder.Node("MatMul", {"t", "w" + n}, {n});
    } else {
      builder.Node("Reshape", {"t", "rows_of_all"}, {n + "_in"})
          .Node("MatMul", {n + "_in", "w" + n}, {n + "_out"})
          .Node("Reshape", {n + "_out", "tokens"}, {n});
    }
  }
  builder.Node("Transpose", {"k"}, {"kt"}, {{"perm", Ints{0, 2, 1}}})
      .Node("MatMul", {"q", "kt"}, {"scores"})
      .Node("Gather", {"table", "places"}, {"bias"})
      .Node("Add", {"scores", "bias"}, {"biased"});
  AddSoftmax(mix, builder);
  builder.Node("MatMul", {"weights", "v"}, {"mixed"})
      .Initializer("back_windows", IntVector({-1, 2, 2, 4, 4, 6}))
      .Node("Reshape", {"mixed", "back_windows"}, {"apart"})
      .Node("Transpose", {"apart"}, {"rows"}, {{"perm", Ints{0, 1, 3, 2, 4, 5}}})
      .Node("Reshape", {"rows", "image"}, {"merged"});
  AddRoll(roll, "merged", "up", {.shift = 6, .axis = 1}, builder);
  AddRoll(roll, "up", "y", {.shift = 6, .axis = 2}, builder);
  return builder.Output("y", DType::kFloat, {kN, 8, 8, 6}).Serialize();
}

TEST(BatchedViews, ShiftedWindowsAreTheSameHoweverTheyAreRolled) {
  const std::string bytes = ShiftedWindows(Roll::kSlices);
  ExpectMeans(bytes, {.oracle = ShiftedWindows(Roll::kGather), .batches = {1, 2, 3, 7}});
  ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses(), .batches = {2}});
  ExpectMeans(bytes, {.oracle = bytes,
                      .options = test::WithoutPacks(),
                      .tolerance = test::Reduction(6 + 6 + 16),
                      .batches = {2}});
}

TEST(BatchedViews, AnItemOfShiftedWindowsHasItsBitsInAnyBatch) {
  const Engine engine(EngineOptions{.threads = 2});
  const auto model = LoadModel(engine, ShiftedWindows(Roll::kSlices));
  ASSERT_NE(model, nullptr);
  const Tensor x = RandomFloats({7, 8, 8, 6}, 3);
  const Tensor together = test::Answers(*model, {{"x", x}}).at("y");
  for (int64_t item = 0; item < 7; ++item) {
    const Tensor alone = test::Answers(*model, {{"x", x.Rows(item, item + 1)}}).at("y");
    EXPECT_TRUE(test::Close(alone, together.Rows(item, item + 1), test::Exact())) << item;
  }
}

// Parts in which 64 items run on 4 threads.
int64_t PartsOf(const Model& model, Shape item) {
  item[0] = 64;
  const auto report = model.Report(std::vector<NamedShape>{{"x", item}});
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? report->parts : 0;
}

TEST(BatchedViews, WindowsThatAreMixedAcrossItemsAreNotJoinedNorCutThere) {
  for (const Mix mix : {Mix::kWindows, Mix::kMovedWindows}) {
    const std::string bytes = ShiftedWindows(Roll::kSlices, mix);
    ExpectMeans(bytes, {.oracle = ShiftedWindows(Roll::kGather, mix)});
    ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses()});
    const Engine engine(EngineOptions{.threads = 4});
    const auto model = LoadModel(engine, bytes);
    ASSERT_NE(model, nullptr);
    EXPECT_FALSE(model->info().joinable);
    EXPECT_THAT(model->info().not_joinable_reason, testing::HasSubstr("node 'mix' (Softmax)"));
    EXPECT_THAT(model->info().not_joinable_reason, testing::HasSubstr("batch axis"));
    const PlanReport report = test::ReportOf(*model, InputsOf(*model, 64));
    const auto mixing = std::ranges::find_if(
        report.tasks, [](const TaskReport& task) { return task.name.starts_with("node 'mix'"); });
    ASSERT_NE(mixing, report.tasks.end());
    EXPECT_FALSE(mixing->in_parts);
    EXPECT_FALSE(report.tasks.back().in_parts);
  }
  const Engine engine(EngineOptions{.threads = 4});
  const auto apart = LoadModel(engine, ShiftedWindows(Roll::kSlices));
  ASSERT_NE(apart, nullptr);
  EXPECT_TRUE(apart->info().joinable) << apart->info().not_joinable_reason;
  EXPECT_GT(PartsOf(*apart, {1, 8, 8, 6}), 1);
}

// Attention over 5 positions with 3 heads of 4, positions first: heads lie beside the items on one
// axis, and the last product sees all items once for each position.
std::string HeadsBesideItems() {
  const graph::Attributes swap = {{"perm", Ints{1, 0, 2}}};
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 5, 12})
      .Initializer("heads", IntVector({5, -1, 4}))
      .Initializer("rows", IntVector({-1, 12}))
      .Initializer("positions", IntVector({5, -1, 12}))
      .Initializer("w", RandomFloats({12, 12}, 4))
      .Initializer("b", RandomFloats({12}, 5))
      .Node("Transpose", {"x"}, {"t"}, swap);
  for (int64_t i = 0; const std::string name : {"q", "k", "v"}) {
    const Ints perm = name == "k" ? Ints{1, 2, 0} : Ints{1, 0, 2};
    builder.Initializer("w" + name, RandomFloats({12, 12}, ++i))
        .Node("MatMul", {"t", "w" + name}, {name + "0"})
        .Node("Reshape", {name + "0", "heads"}, {name + "1"})
        .Node("Transpose", {name + "1"}, {name}, {{"perm", perm}});
  }
  return builder.Node("MatMul", {"q", "k"}, {"scores"})
      .Node("Softmax", {"scores"}, {"p"}, {{"axis", int64_t{-1}}})
      .Node("MatMul", {"p", "v"}, {"o"})
      .Node("Transpose", {"o"}, {"o1"}, swap)
      .Node("Reshape", {"o1", "rows"}, {"o2"})
      .Node("Gemm", {"o2", "w", "b"}, {"o3"})
      .Node("Reshape", {"o3", "positions"}, {"o4"})
      .Node("Transpose", {"o4"}, {"y"}, swap)
      .Output("y", DType::kFloat, {kN, 5, 12})
      .Serialize();
}

TEST(BatchedViews, HeadsMayLieBesideTheItems) {
  for (const int64_t items : {1, 2, 3, 8}) ExpectItemsAlone(HeadsBesideItems(), items);
}

// x [N,4,6]; `mix` ends in y of the same shape.
std::string Mixing(const std::function<void(ModelBuilder&)>& mix) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 4, 6})
      .Initializer("w", RandomFloats({6, 6}, 1))
      .Initializer("flat", IntVector({-1, 6}))
      .Initializer("back", IntVector({-1, 4, 6}))
      .Node("MatMul", {"x", "w"}, {"h"});
  mix(builder);
  return builder.Output("y", DType::kFloat, {kN, 4, 6}).Serialize();
}

TEST(BatchedViews, WhatMixesItemsIsNeitherJoinedNorCut) {
  const graph::Attributes first = {{"axis", int64_t{0}}};
  const std::vector<std::pair<std::string, std::string>> models = {
      {"Softmax over axis 0",
       Mixing([&](ModelBuilder& b) { b.Node("Softmax", {"h"}, {"y"}, first); })},
      {"Softmax over the rows of all items", Mixing([&](ModelBuilder& b) {
         b.Node("Reshape", {"h", "flat"}, {"f"})
             .Node("Softmax", {"f"}, {"s"}, first)
             .Node("Reshape", {"s", "back"}, {"y"});
       })},
      {"Softmax over the items, moved behind", Mixing([&](ModelBuilder& b) {
         b.Node("Transpose", {"h"}, {"t"}, {{"perm", Ints{1, 2, 0}}})
             .Node("Softmax", {"t"}, {"s"}, {{"axis", int64_t{-1}}})
             .Node("Transpose", {"s"}, {"y"}, {{"perm", Ints{2, 0, 1}}});
       })},
      {"a mean of the items", Mixing([&](ModelBuilder& b) {
         b.Node("ReduceMean", {"h"}, {"m"}, {{"axes", Ints{0}}}).Node("Sub", {"h", "m"}, {"y"});
       })}};
  for (const auto& [name, bytes] : models) {
    SCOPED_TRACE(name);
    ExpectMeans(bytes,
                {.oracle = bytes, .options = test::WithoutPasses(), .batches = {1, 2, 7, 64}});
    const Engine engine(EngineOptions{.threads = 4});
    const auto model = LoadModel(engine, bytes);
    ASSERT_NE(model, nullptr);
    EXPECT_FALSE(model->info().joinable);
    EXPECT_NE(model->info().not_joinable_reason, "");
    EXPECT_EQ(PartsOf(*model, {1, 4, 6}), 1);
  }
}

TEST(BatchedViews, ItemsThatAreMovedAndComeBackStayApart) {
  const std::string bytes = Mixing([](ModelBuilder& b) {
    b.Node("Transpose", {"h"}, {"t"}, {{"perm", Ints{1, 2, 0}}})
        .Node("Softmax", {"t"}, {"s"}, {{"axis", int64_t{0}}})
        .Node("Transpose", {"s"}, {"y"}, {{"perm", Ints{2, 0, 1}}});
  });
  for (const int64_t items : {2, 3, 7}) ExpectItemsAlone(bytes, items);
}

}  // namespace
}  // namespace tandem
