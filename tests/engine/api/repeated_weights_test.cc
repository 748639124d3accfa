// Weights that repeat one element (ConstantOfShape), through the engine.
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

constexpr int64_t kIn = 48;
constexpr int64_t kOut = 80;

enum class Weight { kComputed, kStored };

// y = x w, w[48,80] all 0.02; z = w + x2, which reads the weight as it is.
std::string Model(Weight weight, bool read_natively) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {graph::Dim::Symbol("N"), kIn});
  if (weight == Weight::kComputed) {
    builder.Initializer("shape", Tensor::Of<int64_t>({2}, {kIn, kOut}))
        .Node("ConstantOfShape", {"shape"}, {"w"},
              {{"value", test::TensorAttribute(Tensor::Of<float>({1}, {0.02f}))}});
  } else {
    builder.Initializer("w", Tensor::Of<float>({kIn, kOut}, std::vector<float>(kIn * kOut, 0.02f)));
  }
  builder.Node("MatMul", {"x", "w"}, {"y"})
      .Output("y", DType::kFloat, {graph::Dim::Symbol("N"), kOut});
  if (read_natively) {
    builder.Input("x2", DType::kFloat, {kIn, kOut})
        .Node("Add", {"w", "x2"}, {"z"})
        .Output("z", DType::kFloat, {kIn, kOut});
  }
  return builder.Serialize();
}

EngineOptions NoFolds() {
  EngineOptions options;
  options.threads = 1;
  options.fold_growth_bytes = 0;
  options.model_growth_bytes = 0;
  return options;
}

TEST(RepeatedWeights, ArePackedAndHoldNothingElse) {
  const Engine engine(NoFolds());
  const auto computed = engine.LoadBytes(Model(Weight::kComputed, false));
  ASSERT_TRUE(computed.ok()) << computed.status();
  EXPECT_EQ(engine.stats().constant_bytes, 0u);
  EXPECT_EQ(engine.stats().packs_built, 1u);
  EXPECT_GE(engine.stats().pack_bytes, size_t{kIn * kOut} * sizeof(float));
  // The same content from a file is the same pack.
  const auto stored = engine.LoadBytes(Model(Weight::kStored, false));
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_EQ(engine.stats().packs_built, 1u);
  EXPECT_EQ(engine.stats().packs_shared, 1u);
  const Tensor x = RandomFloats({3, kIn}, 1);
  const auto actual = (*computed)->Run(std::vector<NamedTensor>{{"x", x}});
  const auto expected = (*stored)->Run(std::vector<NamedTensor>{{"x", x}});
  ASSERT_TRUE(actual.ok() && expected.ok());
  EXPECT_TRUE(Close(actual->outputs[0].tensor, expected->outputs[0].tensor, Exact()));
}

TEST(RepeatedWeights, WhoReadsThemAsTheyAreFindsThem) {
  for (const bool prepack : {true, false}) {
    EngineOptions options = NoFolds();
    options.prepack = prepack;
    const Engine engine(options);
    const auto computed = engine.LoadBytes(Model(Weight::kComputed, true));
    ASSERT_TRUE(computed.ok()) << computed.status();
    EXPECT_EQ((*computed)->info().constant_bytes, size_t{kIn * kOut} * sizeof(float));
    const Engine other(options);
    const auto stored = other.LoadBytes(Model(Weight::kStored, true));
    ASSERT_TRUE(stored.ok()) << stored.status();
    const std::vector<NamedTensor> inputs = {{"x", RandomFloats({3, kIn}, 1)},
                                             {"x2", RandomFloats({kIn, kOut}, 2)}};
    const auto actual = (*computed)->Run(inputs);
    const auto expected = (*stored)->Run(inputs);
    ASSERT_TRUE(actual.ok() && expected.ok());
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(Close(actual->outputs[i].tensor, expected->outputs[i].tensor, Exact()));
    }
  }
}

TEST(RepeatedWeights, BeyondTheirBudgetAreComputedInEveryRun) {
  EngineOptions options = NoFolds();
  options.view_bytes = kIn * kOut * sizeof(float) - 1;
  const Engine engine(options);
  const auto model = engine.LoadBytes(Model(Weight::kComputed, false));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(engine.stats().packs_built, 0u);
  EXPECT_EQ(engine.stats().pack_bytes, 0u);
  const auto result = (*model)->Run(std::vector<NamedTensor>{{"x", RandomFloats({3, kIn}, 1)}});
  EXPECT_TRUE(result.ok()) << result.status();
}

}  // namespace
}  // namespace tandem
