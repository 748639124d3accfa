// Weights that a model transposes (x @ W.t()), through the engine: packed from the weight as it is.
#include <gtest/gtest.h>

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

constexpr int64_t kIn = 49;
constexpr int64_t kOut = 83;

Tensor Weight(uint32_t seed) { return RandomFloats({kOut, kIn}, seed); }

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

// Nothing may be folded: not one byte made, not one element touched.
EngineOptions NoFolds() {
  EngineOptions options;
  options.threads = 1;
  options.fold_growth_bytes = 0;
  options.model_growth_share = 0;
  options.model_growth_bytes = 0;
  options.fold_live_bytes = 0;
  options.fold_elements = 0;
  return options;
}

ModelBuilder Header() {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {graph::Dim::Symbol("N"), kIn});
  return builder;
}

// y = x W^T with W[83,49] in the file.
ModelBuilder Transposing() {
  ModelBuilder builder = Header();
  builder.Initializer("w", Weight(1))
      .Node("Transpose", {"w"}, {"t"})
      .Node("MatMul", {"x", "t"}, {"y"})
      .Output("y", DType::kFloat, {graph::Dim::Symbol("N"), kOut});
  return builder;
}

// The same with the transpose in the file.
std::string Stored() {
  ModelBuilder builder = Header();
  builder.Initializer("t", TransposedCopy(Weight(1)))
      .Node("MatMul", {"x", "t"}, {"y"})
      .Output("y", DType::kFloat, {graph::Dim::Symbol("N"), kOut});
  return builder.Serialize();
}

std::vector<std::string> KernelsOf(const Model& model) {
  const auto report = model.Report(std::vector<NamedShape>{{"x", {3, kIn}}});
  EXPECT_TRUE(report.ok()) << report.status();
  std::vector<std::string> kernels;
  if (!report.ok()) return kernels;
  for (const TaskReport& task : report->tasks) kernels.push_back(task.kernel);
  return kernels;
}

TEST(TransposedWeights, ArePackedFromTheWeightAndNothingRunsWithARequest) {
  const Engine engine(NoFolds());
  const auto transposing = engine.LoadBytes(Transposing().Serialize());
  ASSERT_TRUE(transposing.ok()) << transposing.status();
  EXPECT_EQ(KernelsOf(**transposing).size(), 1u) << (*transposing)->Explain();
  EXPECT_EQ(engine.stats().packs_built, 1u);
  EXPECT_EQ(engine.stats().constant_bytes, 0u) << "the weight has gone into its pack";
  EXPECT_TRUE((*transposing)->Report(std::vector<NamedShape>{{"x", {3, kIn}}})->declines.empty());
}

TEST(TransposedWeights, HaveThePackOfAWeightThatTheFileTransposes) {
  const Engine engine(NoFolds());
  const auto transposing = engine.LoadBytes(Transposing().Serialize());
  const auto stored = engine.LoadBytes(Stored());
  ASSERT_TRUE(transposing.ok() && stored.ok());
  EXPECT_EQ(engine.stats().packs_built, 1u);
  EXPECT_EQ(engine.stats().packs_shared, 1u);
  // Made apart, the packs have the same bits: the results do.
  const Engine other(NoFolds());
  const auto apart = other.LoadBytes(Stored());
  ASSERT_TRUE(apart.ok());
  const std::vector<NamedTensor> inputs = {{"x", RandomFloats({5, kIn}, 2)}};
  const auto actual = (*transposing)->Run(inputs);
  const auto expected = (*apart)->Run(inputs);
  ASSERT_TRUE(actual.ok() && expected.ok());
  EXPECT_TRUE(Close(actual->outputs[0].tensor, expected->outputs[0].tensor, Exact()));
}

TEST(TransposedWeights, AreHeldOnceNextToAReaderOfTheWeight) {
  ModelBuilder builder = Transposing();
  builder.Input("ids", DType::kInt64, {graph::Dim::Symbol("N")})
      .Node("Gather", {"w", "ids"}, {"rows"})
      .Output("rows", DType::kFloat, {graph::Dim::Symbol("N"), kIn});
  const Engine engine(NoFolds());
  const auto model = engine.LoadBytes(builder.Serialize());
  ASSERT_TRUE(model.ok()) << model.status();
  constexpr size_t kWeightBytes = size_t{kOut * kIn} * sizeof(float);
  EXPECT_EQ((*model)->info().constant_bytes, kWeightBytes);
  EXPECT_EQ(engine.stats().constant_bytes, kWeightBytes);
  EXPECT_EQ(engine.stats().packs_built, 1u);
  const auto result = (*model)->Run(std::vector<NamedTensor>{
      {"x", RandomFloats({2, kIn}, 2)}, {"ids", Tensor::Of<int64_t>({2}, {7, 0})}});
  ASSERT_TRUE(result.ok()) << result.status();
  const Tensor w = Weight(1);
  const Tensor& rows = result->outputs[1].tensor;
  EXPECT_TRUE(std::equal(rows.data<float>(), rows.data<float>() + kIn, w.data<float>() + 7 * kIn));
}

// The rows that the table has for the tokens, and what all of its rows make of x: the pack is a
// second form of the table, and no budget of views counts it, as nothing in it is there twice.
TEST(TransposedWeights, ATiedTableIsPackedWhateverViewsMayTake) {
  ModelBuilder builder = Transposing();
  builder.Input("ids", DType::kInt64, {graph::Dim::Symbol("N")})
      .Node("Gather", {"w", "ids"}, {"rows"})
      .Output("rows", DType::kFloat, {graph::Dim::Symbol("N"), kIn});
  const std::vector<NamedTensor> inputs = {{"x", RandomFloats({2, kIn}, 2)},
                                           {"ids", Tensor::Of<int64_t>({2}, {7, 0})}};
  std::vector<Tensor> answers;
  for (const size_t view_bytes : {size_t{0}, size_t{kOut * kIn} * sizeof(float)}) {
    EngineOptions options = NoFolds();
    options.view_bytes = view_bytes;
    const Engine engine(options);
    const auto model = engine.LoadBytes(builder.Serialize());
    ASSERT_TRUE(model.ok()) << model.status();
    const auto report = (*model)->Report(std::vector<NamedShape>{{"x", {2, kIn}}, {"ids", {2}}});
    ASSERT_TRUE(report.ok()) << report.status();
    for (const Decline& decline : report->declines) EXPECT_EQ(decline.pass, "schedule");
    EXPECT_EQ(engine.stats().packs_built, 1u);
    const auto result = (*model)->Run(inputs);
    ASSERT_TRUE(result.ok()) << result.status();
    answers.push_back(result->outputs[0].tensor);
  }
  EXPECT_TRUE(Close(answers[0], answers[1], Exact()));
}

TEST(TransposedWeights, OfThirteenLayersLoadWithoutABudget) {
  ModelBuilder builder = Header();
  std::string from = "x";
  for (int i = 0; i < 13; ++i) {
    const std::string n = std::to_string(i);
    const bool even = i % 2 == 0;
    builder.Initializer("w" + n, RandomFloats(even ? Shape{kOut, kIn} : Shape{kIn, kOut},
                                              static_cast<uint32_t>(i), -0.2f, 0.2f));
    builder.Node("Transpose", {"w" + n}, {"t" + n}, {{"perm", std::vector<int64_t>{1, 0}}})
        .Node("MatMul", {from, "t" + n}, {"h" + n});
    from = "h" + n;
  }
  builder.Output(from, DType::kFloat, {graph::Dim::Symbol("N"), kOut});
  const Engine engine(NoFolds());
  const auto model = engine.LoadBytes(builder.Serialize());
  ASSERT_TRUE(model.ok()) << model.status();
  const auto report = (*model)->Report(std::vector<NamedShape>{{"x", {3, kIn}}});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->declines.empty()) << report->declines[0].rule;
  EXPECT_EQ(report->tasks.size(), 13u);
  EXPECT_EQ(engine.stats().packs_built, 13u);
  EXPECT_EQ(engine.stats().constant_bytes, 0u);
}

// W^T, alpha 0.5, in each of four forms of Gemm and with a constant on either side.
TEST(TransposedWeights, OfGemmArePackedAsTheyAre) {
  const Tensor x = RandomFloats({5, kIn}, 2);
  const std::vector<NamedTensor> inputs = {{"x", x}};
  const Engine engine(NoFolds());
  std::vector<Tensor> results;
  for (const bool view : {false, true}) {
    for (const int64_t trans : {0, 1}) {
      ModelBuilder builder = Header();
      const bool stored_transposed = (trans == 0) != view;
      builder.Initializer("w", stored_transposed ? TransposedCopy(Weight(1)) : Weight(1));
      if (view) builder.Node("Transpose", {"w"}, {"t"});
      builder.Node("Gemm", {"x", view ? "t" : "w"}, {"y"}, {{"alpha", 0.5f}, {"transB", trans}})
          .Output("y", DType::kFloat, {graph::Dim::Symbol("N"), kOut});
      const auto model = engine.LoadBytes(builder.Serialize());
      ASSERT_TRUE(model.ok()) << model.status();
      EXPECT_EQ(KernelsOf(**model).size(), 1u);
      const auto result = (*model)->Run(inputs);
      ASSERT_TRUE(result.ok()) << result.status();
      results.push_back(result->outputs[0].tensor);
      EXPECT_EQ(engine.stats().constant_bytes, 0u);
    }
  }
  for (const Tensor& result : results) EXPECT_TRUE(Close(result, results[0], Exact()));
}

TEST(TransposedWeights, OnTheLeftOfGemmAreTransposedAtLoad) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kOut, 3})
      .Initializer("w", Weight(1))
      .Node("Gemm", {"w", "x"}, {"y"}, {{"transA", int64_t{1}}})
      .Output("y", DType::kFloat, {kIn, 3});
  ModelBuilder stored(17);
  stored.Input("x", DType::kFloat, {kOut, 3})
      .Initializer("w", TransposedCopy(Weight(1)))
      .Node("Gemm", {"w", "x"}, {"y"})
      .Output("y", DType::kFloat, {kIn, 3});
  const Engine engine{EngineOptions()};
  const auto model = engine.LoadBytes(builder.Serialize());
  const auto oracle = engine.LoadBytes(stored.Serialize());
  ASSERT_TRUE(model.ok() && oracle.ok());
  const auto report = (*model)->Report(std::vector<NamedShape>{{"x", {kOut, 3}}});
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->tasks.size(), 1u);
  EXPECT_EQ(report->tasks[0].scratch_bytes,
            (*oracle)->Report(std::vector<NamedShape>{{"x", {kOut, 3}}})->tasks[0].scratch_bytes);
  EXPECT_EQ(engine.stats().constant_bytes, size_t{kOut * kIn} * sizeof(float)) << "both are one";
  const std::vector<NamedTensor> inputs = {{"x", RandomFloats({kOut, 3}, 2)}};
  const auto actual = (*model)->Run(inputs);
  const auto expected = (*oracle)->Run(inputs);
  ASSERT_TRUE(actual.ok() && expected.ok());
  EXPECT_TRUE(Close(actual->outputs[0].tensor, expected->outputs[0].tensor, Exact()));
}

TEST(TransposedWeights, OfBatchesArePackedFromTheirStrides) {
  const Tensor w = RandomFloats({2, 40, 3, 30}, 1);
  const auto model_of = [&](bool view) {
    ModelBuilder builder(17);
    builder.Input("x", DType::kFloat, {7, 40});
    if (view) {
      builder.Initializer("w", w).Node("Transpose", {"w"}, {"t"},
                                       {{"perm", std::vector<int64_t>{2, 0, 1, 3}}});
    } else {
      Tensor t = *Tensor::Allocate(DType::kFloat, {3, 2, 40, 30});
      for (int64_t i = 0; i < t.elements(); ++i) {
        const int64_t d = i % 30, c = i / 30 % 40, b = i / 1200 % 2, a = i / 2400;
        t.mutable_data<float>()[i] = w.data<float>()[((b * 40 + c) * 3 + a) * 30 + d];
      }
      builder.Initializer("t", t);
    }
    builder.Node("MatMul", {"x", "t"}, {"y"}).Output("y", DType::kFloat, {3, 2, 7, 30});
    return builder.Serialize();
  };
  const std::vector<NamedTensor> inputs = {{"x", RandomFloats({7, 40}, 2)}};
  const Engine engine(NoFolds());
  const Engine other(NoFolds());
  const auto actual = (*engine.LoadBytes(model_of(true)))->Run(inputs);
  const auto expected = (*other.LoadBytes(model_of(false)))->Run(inputs);
  ASSERT_TRUE(actual.ok() && expected.ok());
  EXPECT_TRUE(Close(actual->outputs[0].tensor, expected->outputs[0].tensor, Exact()));
}

TEST(TransposedWeights, AreWrittenOutOnceForKernelsThatReadThemAsTheyAre) {
  EngineOptions options = NoFolds();
  options.prepack = false;
  const Engine engine(options);
  const auto model = engine.LoadBytes(Transposing().Serialize());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(engine.stats().constant_bytes, size_t{kOut * kIn} * sizeof(float));
  const auto stored = engine.LoadBytes(Stored());
  const std::vector<NamedTensor> inputs = {{"x", RandomFloats({5, kIn}, 2)}};
  const auto actual = (*model)->Run(inputs);
  const auto expected = (*stored)->Run(inputs);
  ASSERT_TRUE(actual.ok() && expected.ok());
  EXPECT_TRUE(Close(actual->outputs[0].tensor, expected->outputs[0].tensor, Exact()));
  EXPECT_EQ(engine.stats().constant_bytes, size_t{kOut * kIn} * sizeof(float)) << "shared";
}

TEST(TransposedWeights, ThatAnythingElseReadsAreFoldedWithinTheBudget) {
  ModelBuilder builder = Transposing();
  builder.Node("Relu", {"t"}, {"z"}).Output("z", DType::kFloat, {kIn, kOut});
  EngineOptions options;
  options.disabled_passes = {"fuse_epilogue"};
  const Engine engine(options);
  const auto model = engine.LoadBytes(builder.Serialize());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(KernelsOf(**model).size(), 1u) << (*model)->Explain();
  const auto result = (*model)->Run(std::vector<NamedTensor>{{"x", RandomFloats({3, kIn}, 1)}});
  EXPECT_TRUE(result.ok()) << result.status();
}

}  // namespace
}  // namespace tandem
