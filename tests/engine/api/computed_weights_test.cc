// Weights that a model computes from its initializers: all of that happens at load, whatever form
// exporters give it. The oracle is the same model without folding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "engine/engine.h"
#include "tests/support/compare.h"
#include "tests/support/model_builder.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Close;
using test::Exact;
using test::ModelBuilder;
using test::RandomFloats;
using test::Tolerance;

using Ints = std::vector<int64_t>;

Tensor IntTensor(const Ints& values) {
  return Tensor::Of<int64_t>({std::ssize(values)}, std::span<const int64_t>(values));
}

// Loads with every constant of more than a few bytes held to what a fold frees: what is folded here
// is folded at any size.
EngineOptions Strict() {
  EngineOptions options;
  options.threads = 1;
  options.fold_growth_bytes = 256;
  options.model_growth_share = 0;
  options.model_growth_bytes = 256;
  return options;
}

struct Loaded {
  std::shared_ptr<const Model> model;
  std::vector<NamedTensor> outputs;
  std::vector<std::string> kernels;  // of the steps that compute
  std::vector<Decline> declines;     // of passes
};

Loaded LoadAndRun(const Engine& engine, const ModelBuilder& builder,
                  const std::vector<NamedTensor>& inputs) {
  Loaded loaded;
  const auto model = engine.LoadBytes(builder.Serialize());
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return loaded;
  loaded.model = *model;
  std::vector<NamedShape> shapes;
  for (const NamedTensor& input : inputs) shapes.push_back({input.name, input.tensor.shape()});
  const auto report = loaded.model->Report(shapes);
  EXPECT_TRUE(report.ok()) << report.status();
  for (const TaskReport& task : report->tasks) {
    const bool moves = task.kernel == "view" || task.kernel.starts_with("convert_layout");
    if (!moves) loaded.kernels.push_back(task.kernel);
  }
  std::ranges::copy_if(report->declines, std::back_inserter(loaded.declines),
                       [](const Decline& decline) { return decline.pass != "schedule"; });
  auto result = loaded.model->Run(inputs);
  EXPECT_TRUE(result.ok()) << result.status();
  if (result.ok()) loaded.outputs = std::move(result->outputs);
  return loaded;
}

// Folded within a strict budget, as many steps are left and the numbers are those of the model
// without folding.
void ExpectFolded(const ModelBuilder& builder, const std::vector<NamedTensor>& inputs, size_t steps,
                  Tolerance tolerance) {
  const Engine engine(Strict());
  const Loaded folded = LoadAndRun(engine, builder, inputs);
  EXPECT_EQ(folded.kernels.size(), steps) << folded.model->Explain();
  EXPECT_TRUE(folded.declines.empty()) << folded.model->Explain();
  EngineOptions options;
  options.threads = 1;
  options.disabled_passes = {"fold_constants"};
  const Engine unfolding(options);
  const Loaded plain = LoadAndRun(unfolding, builder, inputs);
  EXPECT_GT(plain.kernels.size(), steps);
  ASSERT_EQ(folded.outputs.size(), plain.outputs.size());
  for (size_t i = 0; i < plain.outputs.size(); ++i) {
    EXPECT_TRUE(Close(folded.outputs[i].tensor, plain.outputs[i].tensor, tolerance));
  }
}

// "norm" = the L2 norm of v over `axes`, in one of the forms in which exporters write it.
void AddNorm(ModelBuilder& builder, int form, const Ints& axes) {
  if (form == 0) {
    builder.Node("ReduceL2", {"v"}, {"norm"}, {{"axes", axes}});
    return;
  }
  builder.Node("Mul", {"v", "v"}, {"square"})
      .Initializer("axes", IntTensor(axes))
      .Node("ReduceSum", {"square", "axes"}, {"sum"});
  if (form == 1) {
    builder.Node("Sqrt", {"sum"}, {"norm"});
  } else {
    builder.Initializer("half", Tensor::Scalar(0.5f)).Node("Pow", {"sum", "half"}, {"norm"});
  }
}

TEST(ComputedWeights, WeightNormOfConvolutionsAndLinearLayersIsPackedAtLoad) {
  struct Case {
    Shape v;
    Shape g;
    Ints axes;
    Shape x;
    int64_t group;  // 0: a product; -1: a transposed convolution
  };
  for (const Case& c : {Case{{32, 3, 5}, {32, 1, 1}, {1, 2}, {2, 6, 20}, 2},
                        Case{{32, 3, 5}, {1, 1, 5}, {0, 1}, {2, 6, 20}, 2},
                        Case{{24, 7, 3, 3}, {24, 1, 1, 1}, {1, 2, 3}, {1, 7, 9, 9}, 1},
                        Case{{6, 8, 4}, {6, 1, 1}, {1, 2}, {2, 6, 20}, -1},
                        Case{{40, 30}, {1, 30}, {0}, {3, 40}, 0}}) {
    for (int form = 0; form < 3; ++form) {
      ModelBuilder builder(17);
      builder.Input("x", DType::kFloat, graph::ToDims(c.x))
          .Initializer("v", RandomFloats(c.v, 1))
          .Initializer("g", RandomFloats(c.g, 2, 0.5f, 2));
      AddNorm(builder, form, c.axes);
      builder.Node("Div", {"g", "norm"}, {"scale"}).Node("Mul", {"v", "scale"}, {"w"});
      if (c.group > 0) {
        builder.Node("Conv", {"x", "w"}, {"y"}, {{"group", c.group}});
      } else if (c.group < 0) {
        builder.Node("ConvTranspose", {"x", "w"}, {"y"});
      } else {
        builder.Node("MatMul", {"x", "w"}, {"y"});
      }
      builder.Output("y");
      ExpectFolded(builder, {{"x", RandomFloats(c.x, 3)}}, 1, Exact());
    }
  }
}

TEST(ComputedWeights, SourcesThatNobodyReadsAnyMoreAreFreed) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {3, 40}).Initializer("v", RandomFloats({40, 30}, 1));
  AddNorm(builder, 1, {0});
  builder.Node("Div", {"v", "norm"}, {"w"}).Node("MatMul", {"x", "w"}, {"y"}).Output("y");
  const Engine engine(Strict());
  const auto model = engine.LoadBytes(builder.Serialize());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(engine.stats().constant_bytes, 0u);
  EXPECT_EQ(engine.stats().packs_built, 1u);
}

TEST(ComputedWeights, SpectralNormIsPackedAtLoad) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {1, 4, 9, 9})
      .Initializer("weight", RandomFloats({20, 4, 3, 3}, 1))
      .Initializer("matrix_shape", IntTensor({20, 36}))
      .Initializer("u", RandomFloats({20}, 2))
      .Initializer("v", RandomFloats({36}, 3))
      .Node("Reshape", {"weight", "matrix_shape"}, {"matrix"})
      .Node("MatMul", {"matrix", "v"}, {"wv"})
      .Node("MatMul", {"u", "wv"}, {"sigma"})
      .Node("Div", {"weight", "sigma"}, {"w"})
      .Node("Conv", {"x", "w"}, {"y"})
      .Output("y");
  ExpectFolded(builder, {{"x", RandomFloats({1, 4, 9, 9}, 4)}}, 1, Exact());
}

TEST(ComputedWeights, PackedProjectionsOfAttentionAreSplitAtLoad) {
  constexpr int64_t kWidth = 40;
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {5, kWidth})
      .Initializer("in_proj", RandomFloats({3 * kWidth, kWidth}, 1))
      .Initializer("in_bias", RandomFloats({3 * kWidth}, 2))
      .Initializer("parts", IntTensor({kWidth, kWidth, kWidth}))
      .Node("Split", {"in_proj", "parts"}, {"wq", "wk", "wv"})
      .Node("Split", {"in_bias", "parts"}, {"bq", "bk", "bv"});
  for (const std::string part : {"q", "k", "v"}) {
    builder.Node("Transpose", {"w" + part}, {"t" + part}, {{"perm", Ints{1, 0}}})
        .Node("MatMul", {"x", "t" + part}, {"m" + part})
        .Node("Add", {"m" + part, "b" + part}, {part})
        .Output(part);
  }
  ExpectFolded(builder, {{"x", RandomFloats({5, kWidth}, 3)}}, 3, Exact());
  const Engine engine(Strict());
  const auto model = engine.LoadBytes(builder.Serialize());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(engine.stats().packs_built, 3u);
  EXPECT_EQ(engine.stats().constant_bytes, 3 * kWidth * sizeof(float)) << "the biases alone";
}

TEST(ComputedWeights, WhatSeveralProductsReadIsComputedAndPackedOnce) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {3, 40})
      .Input("z", DType::kFloat, {2, 40})
      .Initializer("weight", RandomFloats({40, 30}, 1))
      .Node("Tanh", {"weight"}, {"w"})
      .Node("MatMul", {"x", "w"}, {"a"})
      .Node("MatMul", {"z", "w"}, {"b"})
      .Output("a")
      .Output("b")
      .Output("w");
  const std::vector<NamedTensor> inputs = {{"x", RandomFloats({3, 40}, 2)},
                                           {"z", RandomFloats({2, 40}, 3)}};
  ExpectFolded(builder, inputs, 2, Exact());
  const Engine engine(Strict());
  const Loaded loaded = LoadAndRun(engine, builder, inputs);
  EXPECT_EQ(engine.stats().packs_built, 1u);
  EXPECT_EQ(engine.stats().packs_shared, 1u);
  EXPECT_EQ(engine.stats().constant_bytes, size_t{40 * 30} * sizeof(float)) << "the output";
}

ModelBuilder LowRank(int64_t rank) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {3, 60})
      .Initializer("down", RandomFloats({60, rank}, 1))
      .Initializer("up", RandomFloats({rank, 50}, 2))
      .Node("MatMul", {"down", "up"}, {"delta"});
  return builder;
}

TEST(ComputedWeights, LowRankUpdatesAreMergedIntoTheirWeight) {
  for (const bool scaled : {false, true}) {
    ModelBuilder builder = LowRank(4);
    builder.Initializer("weight", RandomFloats({60, 50}, 3))
        .Initializer("alpha", Tensor::Scalar(2.0f));
    if (scaled) builder.Node("Mul", {"delta", "alpha"}, {"update"});
    builder.Node("Add", {"weight", scaled ? "update" : "delta"}, {"w"})
        .Node("MatMul", {"x", "w"}, {"y"})
        .Output("y");
    const Engine engine(Strict());
    const std::vector<NamedTensor> inputs = {{"x", RandomFloats({3, 60}, 4)}};
    const Loaded loaded = LoadAndRun(engine, builder, inputs);
    EXPECT_EQ(loaded.kernels.size(), 1u) << loaded.model->Explain();
    EXPECT_EQ(engine.stats().constant_bytes, 0u);
    EngineOptions options;
    options.disabled_passes = {"fold_constants"};
    const Engine unfolding(options);
    const Loaded plain = LoadAndRun(unfolding, builder, inputs);
    EXPECT_TRUE(Close(loaded.outputs[0].tensor, plain.outputs[0].tensor, Exact()));
  }
}

TEST(ComputedWeights, ALowRankProductAloneStaysWhereItWouldGrow) {
  ModelBuilder builder = LowRank(4);
  builder.Node("MatMul", {"x", "delta"}, {"y"}).Output("y");
  const Engine engine(Strict());
  const Loaded kept = LoadAndRun(engine, builder, {{"x", RandomFloats({3, 60}, 4)}});
  EXPECT_EQ(kept.kernels.size(), 2u);
  ASSERT_EQ(kept.declines.size(), 1u);
  EXPECT_EQ(kept.declines[0].role, "outputs");
  EXPECT_EQ(kept.declines[0].rule, "makes more than it frees and more than one fold may");
  EXPECT_EQ(kept.declines[0].numbers, "12000 > 1760 bytes, grows 6.8x");
  ModelBuilder square = LowRank(50);
  square.Node("MatMul", {"x", "delta"}, {"y"}).Output("y");
  ExpectFolded(square, {{"x", RandomFloats({3, 60}, 4)}}, 1, Exact());
}

TEST(ComputedWeights, AlphaAndBetaOfGemmAreInThePackAndTheBias) {
  for (const int64_t trans : {0, 1}) {
    ModelBuilder builder(17);
    builder.Input("x", DType::kFloat, {3, 40})
        .Initializer("w", RandomFloats(trans == 1 ? Shape{30, 40} : Shape{40, 30}, 1))
        .Initializer("c", RandomFloats({30}, 2))
        .Node("Gemm", {"x", "w", "c"}, {"y"}, {{"alpha", 0.5f}, {"beta", 3.0f}, {"transB", trans}})
        .Output("y");
    const Engine engine(Strict());
    const std::vector<NamedTensor> inputs = {{"x", RandomFloats({3, 40}, 3)}};
    const Loaded loaded = LoadAndRun(engine, builder, inputs);
    EXPECT_EQ(loaded.kernels.size(), 1u) << loaded.model->Explain();
    EXPECT_EQ(loaded.model->Report(std::vector<NamedShape>{{"x", {3, 40}}})->tasks[0].scratch_bytes,
              0u)
        << "nothing is scaled with a request";
    EngineOptions options;
    options.disabled_passes = {"lower"};
    const Engine plain(options);
    EXPECT_TRUE(Close(loaded.outputs[0].tensor,
                      LoadAndRun(plain, builder, inputs).outputs[0].tensor, Exact()));
  }
}

TEST(ComputedWeights, StandardizedWeightsArePackedAtLoad) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {1, 7, 9, 9})
      .Initializer("weight", RandomFloats({24, 7, 3, 3}, 1))
      .Initializer("epsilon", Tensor::Scalar(1e-5f))
      .Initializer("gain", RandomFloats({24, 1, 1, 1}, 2))
      .Node("ReduceMean", {"weight"}, {"mean"}, {{"axes", Ints{1, 2, 3}}})
      .Node("Sub", {"weight", "mean"}, {"centered"})
      .Node("Mul", {"centered", "centered"}, {"square"})
      .Node("ReduceMean", {"square"}, {"variance"}, {{"axes", Ints{1, 2, 3}}})
      .Node("Add", {"variance", "epsilon"}, {"shifted"})
      .Node("Sqrt", {"shifted"}, {"deviation"})
      .Node("Div", {"centered", "deviation"}, {"normalized"})
      .Node("Mul", {"normalized", "gain"}, {"w"})
      .Node("Conv", {"x", "w"}, {"y"})
      .Output("y");
  ExpectFolded(builder, {{"x", RandomFloats({1, 7, 9, 9}, 3)}}, 1, Exact());
}

TEST(ComputedWeights, MaskedWeightsAndBranchesOfRepVggArePackedAtLoad) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {1, 16, 9, 9})
      .Initializer("k3", RandomFloats({24, 16, 3, 3}, 1))
      .Initializer("k1", RandomFloats({24, 16, 1, 1}, 2))
      .Initializer("mask", RandomFloats({24, 16, 3, 3}, 3))
      .Initializer("pads", IntTensor({0, 0, 1, 1, 0, 0, 1, 1}))
      .Node("Mul", {"k3", "mask"}, {"masked"})
      .Node("Pad", {"k1", "pads"}, {"padded"})
      .Node("Add", {"padded", "masked"}, {"w"})
      .Node("Conv", {"x", "w"}, {"y"})
      .Output("y");
  const Engine engine(Strict());
  const std::vector<NamedTensor> inputs = {{"x", RandomFloats({1, 16, 9, 9}, 4)}};
  const Loaded loaded = LoadAndRun(engine, builder, inputs);
  EXPECT_EQ(loaded.kernels.size(), 1u) << loaded.model->Explain();
  EngineOptions options;
  options.disabled_passes = {"fold_constants"};
  const Engine plain(options);
  EXPECT_TRUE(Close(loaded.outputs[0].tensor, LoadAndRun(plain, builder, inputs).outputs[0].tensor,
                    Exact()));
}

TEST(ComputedWeights, ComputedBiasesAreReadAsTheyAre) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {1, 4, 9, 9})
      .Initializer("w", RandomFloats({8, 4, 3, 3}, 1))
      .Initializer("biases", Tensor::Of<double>({16}, std::vector<double>(16, 0.1)))
      .Initializer("parts", IntTensor({8, 8}))
      .Initializer("more", RandomFloats({8}, 2))
      .Node("Split", {"biases", "parts"}, {"first", "second"})
      .Node("Cast", {"second"}, {"cast"}, {{"to", int64_t{1}}})
      .Node("Add", {"cast", "more"}, {"b"})
      .Node("Conv", {"x", "w", "b"}, {"y"})
      .Output("y");
  ExpectFolded(builder, {{"x", RandomFloats({1, 4, 9, 9}, 3)}}, 1, Exact());
}

TEST(ComputedWeights, ShapeArgumentsAreComputedInExactIntegers) {
  // 2^53 + 1 is no double: (2^53 + 1) - (2^53 - 5) = 6 must stay exact.
  constexpr int64_t kLarge = int64_t{1} << 53;
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

TEST(ComputedWeights, RelativePositionBiasPositionsAndCausalMasksAreTables) {
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

TEST(ComputedWeights, TablesThatOnlyRepeatStayViews) {
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

// x[3,40] with a weight [30,40] of a 16-bit type, transposed or not, as a product or a convolution.
TEST(ComputedWeights, SixteenBitWeightsAreConvertedWhileTheyArePacked) {
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16}) {
    for (const std::string form : {"MatMul", "Transpose", "Conv"}) {
      const Shape shape = form == "Conv" ? Shape{30, 40, 1} : Shape{40, 30};
      const Shape stored = form == "Transpose" ? Shape{30, 40} : shape;
      Tensor half = *Tensor::Allocate(dtype, stored);
      const Tensor values = RandomFloats(stored, 1);
      for (int64_t i = 0; i < values.elements(); ++i) {
        if (dtype == DType::kFloat16) {
          half.mutable_data<Float16>()[i] = ToFloat16(values.data<float>()[i]);
        } else {
          half.mutable_data<Bfloat16>()[i] = ToBfloat16(values.data<float>()[i]);
        }
      }
      ModelBuilder builder(17);
      const Shape x = form == "Conv" ? Shape{2, 40, 7} : Shape{3, 40};
      builder.Input("x", DType::kFloat, graph::ToDims(x))
          .Initializer("half", half)
          .Node("Cast", {"half"}, {"wide"}, {{"to", int64_t{1}}});
      if (form == "Transpose") builder.Node("Transpose", {"wide"}, {"t"});
      builder
          .Node(form == "Conv" ? "Conv" : "MatMul", {"x", form == "Transpose" ? "t" : "wide"},
                {"y"})
          .Output("y");
      ExpectFolded(builder, {{"x", RandomFloats(x, 2)}}, 1, Exact());
      const Engine engine(Strict());
      const auto model = engine.LoadBytes(builder.Serialize());
      ASSERT_TRUE(model.ok()) << model.status();
      EXPECT_EQ(engine.stats().constant_bytes, 0u) << "the 16-bit source is released";
    }
  }
}

TEST(ComputedWeights, AnInitializerThatIsAnInputIsItsDefault) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {3, 40})
      .Input("w", DType::kFloat, {40, 30})
      .Initializer("w", RandomFloats({40, 30}, 1))
      .Node("Tanh", {"w"}, {"t"})
      .Node("MatMul", {"x", "t"}, {"y"})
      .Output("y");
  const Engine engine{EngineOptions()};  // the default stays: what is made of it is growth
  const Loaded loaded = LoadAndRun(engine, builder, {{"x", RandomFloats({3, 40}, 2)}});
  ASSERT_NE(loaded.model, nullptr);
  EXPECT_EQ(loaded.kernels.size(), 1u) << loaded.model->Explain();
}

}  // namespace
}  // namespace tandem
