// What a report says of the patterns of computed weights: how many nodes were folded, and how many
// bytes of constants that made, sources and intermediate results included.
#include <gtest/gtest.h>

#include "tests/engine/api/comparison.h"
#include "tests/engine/api/folding.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::IntTensor;
using test::LoadModel;
using test::ModelBuilder;
using test::RandomFloats;
using test::SpectralNorm;
using Ints = std::vector<int64_t>;

struct Pattern {
  std::string name;
  ModelBuilder model;
  size_t folded_nodes = 0;
  size_t folded_floats = 0;
  size_t kernels = 1;
  uint64_t packs = 1;
};

ModelBuilder WeightNorm() {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {2, 48, 20})
      .Initializer("v", RandomFloats({64, 3, 5}, 1))
      .Initializer("g", RandomFloats({64, 1, 1}, 2, 0.5F, 2))
      .Node("ReduceL2", {"v"}, {"norm"}, {{"axes", Ints{1, 2}}})
      .Node("Div", {"g", "norm"}, {"scale"})
      .Node("Mul", {"v", "scale"}, {"w"})
      .Node("Conv", {"x", "w"}, {"y"}, {{"group", int64_t{16}}})
      .Output("y");
  return builder;
}

ModelBuilder Transposed() {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {3, 40})
      .Initializer("w", RandomFloats({50, 40}, 1))
      .Node("Transpose", {"w"}, {"t"}, {{"perm", Ints{1, 0}}})
      .Node("MatMul", {"x", "t"}, {"y"})
      .Output("y");
  return builder;
}

ModelBuilder InProjection() {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {5, 40})
      .Initializer("in_proj", RandomFloats({120, 40}, 1))
      .Initializer("in_bias", RandomFloats({120}, 2))
      .Initializer("parts", IntTensor({40, 40, 40}))
      .Node("Split", {"in_proj", "parts"}, {"wq", "wk", "wv"})
      .Node("Split", {"in_bias", "parts"}, {"bq", "bk", "bv"});
  for (const std::string part : {"q", "k", "v"}) {
    builder.Node("Transpose", {"w" + part}, {"t" + part}, {{"perm", Ints{1, 0}}})
        .Node("MatMul", {"x", "t" + part}, {"m" + part})
        .Node("Add", {"m" + part, "b" + part}, {part})
        .Output(part);
  }
  return builder;
}

ModelBuilder LowRankUpdate() {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {3, 60})
      .Initializer("down", RandomFloats({60, 4}, 1))
      .Initializer("up", RandomFloats({4, 50}, 2))
      .Initializer("weight", RandomFloats({60, 50}, 3))
      .Initializer("alpha", Tensor::Scalar(2.0F))
      .Node("MatMul", {"down", "up"}, {"delta"})
      .Node("Mul", {"delta", "alpha"}, {"update"})
      .Node("Add", {"weight", "update"}, {"w"})
      .Node("MatMul", {"x", "w"}, {"y"})
      .Output("y");
  return builder;
}

std::vector<Pattern> Patterns() {
  std::vector<Pattern> patterns;
  patterns.push_back({"weight norm", WeightNorm(), 3, 64 + 64 + 960});
  patterns.push_back({"spectral norm", SpectralNorm(), 4, 720 + 20 + 1 + 720});
  patterns.push_back({"x @ w.t()", Transposed(), 1, 0});
  patterns.push_back({"packed projection", InProjection(), 5, 4800 + 120, 3, 3});
  patterns.push_back({"low-rank update", LowRankUpdate(), 3, 3 * 3000});
  return patterns;
}

TEST(FoldedPatterns, TheReportCountsTheNodesAndBytesOfEach) {
  for (const Pattern& pattern : Patterns()) {
    SCOPED_TRACE(pattern.name);
    const Engine engine(EngineOptions{.threads = 1});
    const auto model = LoadModel(engine, pattern.model.Serialize());
    ASSERT_NE(model, nullptr);
    const PlanReport report = test::ReportOf(*model, test::InputsOf(*model, 1));
    EXPECT_EQ(report.folded_nodes.size(), pattern.folded_nodes);
    EXPECT_EQ(report.folded_bytes, pattern.folded_floats * sizeof(float));
    EXPECT_EQ(test::KernelsOf(report).size(), pattern.kernels) << model->Explain();
    EXPECT_EQ(engine.stats().packs_built, pattern.packs);
    for (const Decline& decline : report.declines) EXPECT_EQ(decline.pass, "schedule");
  }
}

// Nothing is counted where nothing may be folded.
TEST(FoldedPatterns, WithoutFoldingNothingIsCounted) {
  for (const Pattern& pattern : Patterns()) {
    SCOPED_TRACE(pattern.name);
    const Engine engine(EngineOptions{.threads = 1, .disabled_passes = {"fold_constants"}});
    const auto model = LoadModel(engine, pattern.model.Serialize());
    ASSERT_NE(model, nullptr);
    const PlanReport report = test::ReportOf(*model, test::InputsOf(*model, 1));
    EXPECT_TRUE(report.folded_nodes.empty());
    EXPECT_EQ(report.folded_bytes, 0u);
    EXPECT_GT(test::KernelsOf(report).size(), pattern.kernels);
  }
}

}  // namespace
}  // namespace tandem
