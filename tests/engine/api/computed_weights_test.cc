// Weights that a model computes from its initializers: all of that happens at load, whatever form
// exporters give it. The oracle is the same model without folding.
#include <gtest/gtest.h>

#include "tests/engine/api/comparison.h"
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
using test::LoadModel;
using test::ModelBuilder;
using test::RandomFloats;
using test::SpectralNorm;
using test::Strict;

using Ints = std::vector<int64_t>;

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
                        Case{{24, 7, 3, 3}, {1, 7, 1, 1}, {0, 2, 3}, {1, 7, 9, 9}, 1},
                        Case{{6, 8, 4}, {6, 1, 1}, {1, 2}, {2, 6, 20}, -1},
                        Case{{6, 8, 3, 3}, {1, 8, 1, 1}, {0, 2, 3}, {2, 6, 7, 5}, -1},
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
      const Engine engine(Strict());
      const auto model = engine.LoadBytes(builder.Serialize());
      ASSERT_TRUE(model.ok()) << model.status();
      EXPECT_EQ(engine.stats().packs_built, 1u);
      EXPECT_EQ(engine.stats().constant_bytes, 0u) << "v, g and w have gone into the pack";
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
  ExpectFolded(SpectralNorm(), {{"x", RandomFloats({1, 4, 9, 9}, 4)}}, 1, Exact());
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
    const Engine unfolding(test::WithoutFolding());
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

// One side of the product is w, the other one x; either may be stored transposed.
ModelBuilder Addmm(bool w_is_first, int64_t trans_x, int64_t trans_w, const Shape& c) {
  constexpr int64_t kRows = 3, kInner = 40, kColumns = 30;
  const Shape plain = w_is_first ? Shape{kRows, kInner} : Shape{kInner, kColumns};
  const Shape other = w_is_first ? Shape{kInner, kColumns} : Shape{kRows, kInner};
  const auto stored = [](const Shape& shape, int64_t transposed) {
    return transposed == 1 ? Shape{shape[1], shape[0]} : shape;
  };
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, graph::ToDims(stored(other, trans_x)))
      .Initializer("w", RandomFloats(stored(plain, trans_w), 1))
      .Initializer("c", RandomFloats(c, 2))
      .Node("Gemm", {w_is_first ? "w" : "x", w_is_first ? "x" : "w", "c"}, {"y"},
            {{"alpha", 0.5f},
             {"beta", 3.0f},
             {"transA", w_is_first ? trans_w : trans_x},
             {"transB", w_is_first ? trans_x : trans_w}})
      .Output("y");
  return builder;
}

void ExpectScaledAtLoad(const ModelBuilder& builder, bool packed) {
  const Engine engine(Strict());
  const auto model = LoadModel(engine, builder.Serialize());
  EngineOptions options = Strict();
  options.disabled_passes = {"lower"};
  const Engine other(options);
  const auto plain = LoadModel(other, builder.Serialize());
  ASSERT_TRUE(model != nullptr && plain != nullptr);
  const auto inputs = test::InputsOf(*model, 1);
  const PlanReport report = test::ReportOf(*model, inputs);
  ASSERT_EQ(report.tasks.size(), 1u) << model->Explain();
  if (packed) {
    EXPECT_EQ(report.tasks[0].scratch_bytes, 0u) << "nothing is scaled with a request";
  }
  test::ExpectClose(test::Answers(*model, inputs), test::Answers(*plain, inputs), Exact());
}

TEST(ComputedWeights, AlphaAndBetaOfGemmAreInThePackAndTheBias) {
  for (const bool w_is_first : {false, true}) {
    for (const int64_t trans_x : {0, 1}) {
      for (const int64_t trans_w : {0, 1}) {
        for (const Shape& c : {Shape{30}, Shape{1}, Shape{3, 1}}) {
          SCOPED_TRACE(fmt::format("w is first {}, trans_x {}, trans_w {}, c {}", w_is_first,
                                   trans_x, trans_w, ToString(c)));
          const bool packed = !w_is_first && trans_x == 0 && c.rank() == 1;
          ExpectScaledAtLoad(Addmm(w_is_first, trans_x, trans_w, c), packed);
        }
      }
    }
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
  const Engine plain(test::WithoutFolding());
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
