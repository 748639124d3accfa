// Inputs that the file gives a default: a request leaves them out and gets what a constant would
// give, a request that names one is refused, and nothing of that reaches the next request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/api/comparison.h"
#include "tests/engine/api/default_models.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::DefaultModel;
using test::DefaultModels;
using test::ExpectMeans;
using test::LoadModel;
using test::ModelBuilder;
using test::RandomFloats;
using test::Weight;

TEST(InputDefaults, AreTheNumbersOfAConstant) {
  for (const DefaultModel& c : DefaultModels()) {
    SCOPED_TRACE(c.name);
    ExpectMeans(Build(c, Weight::kDefault).Serialize(),
                {.oracle = Build(c, Weight::kConstant).Serialize()});
  }
}

TEST(InputDefaults, ARequestThatNamesOneIsRefusedAndTheNextOneIsRight) {
  for (const DefaultModel& c : DefaultModels()) {
    SCOPED_TRACE(c.name);
    const Engine engine(EngineOptions{.threads = 2});
    const auto model = LoadModel(engine, Build(c, Weight::kDefault).Serialize());
    ASSERT_NE(model, nullptr);
    const std::vector<NamedTensor> inputs = test::InputsOf(*model, 2);
    ASSERT_EQ(inputs.size(), 1u) << "an input with a default need not be given";
    const auto before = test::Answers(*model, inputs);
    std::vector<NamedTensor> more = inputs;
    more.push_back({"w", RandomFloats(c.w, 7)});
    const Status refused = model->Validate(more);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(Message(refused)),
              "input 'w' has a default, which this model does not let requests replace");
    EXPECT_EQ(model->Run(more).status(), refused);
    EXPECT_EQ(model->Report(std::vector<NamedShape>{{"x", inputs[0].tensor.shape()}, {"w", c.w}})
                  .status()
                  .code(),
              absl::StatusCode::kInvalidArgument);
    test::ExpectClose(test::Answers(*model, inputs), before, test::Exact());
  }
}

TEST(InputDefaults, AreToldWithTheInputs) {
  const Engine engine(EngineOptions{.threads = 1});
  const DefaultModel product = DefaultModels()[0];
  const auto model = LoadModel(engine, Build(product, Weight::kDefault).Serialize());
  ASSERT_NE(model, nullptr);
  ASSERT_EQ(model->info().inputs.size(), 2u);
  EXPECT_FALSE(model->info().inputs[0].optional);
  EXPECT_EQ(model->info().inputs[1].name, "w");
  EXPECT_TRUE(model->info().inputs[1].optional);
}

// Before IR version 4 every initializer was listed as an input, and meant as a constant.
TEST(InputDefaults, BeforeIr4AreNoInputsAtAll) {
  for (const DefaultModel& c : DefaultModels()) {
    SCOPED_TRACE(c.name);
    ModelBuilder old = Build(c, Weight::kDefault);
    old.IrVersion(3);
    ExpectMeans(old.Serialize(), {.oracle = Build(c, Weight::kConstant).Serialize()});
    const Engine engine(EngineOptions{.threads = 1});
    const auto model = LoadModel(engine, old.Serialize());
    ASSERT_NE(model, nullptr);
    std::vector<NamedTensor> more = test::InputsOf(*model, 2);
    more.push_back({"w", RandomFloats(c.w, 7)});
    const Status refused = model->Validate(more);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(Message(refused)), "the model has no input 'w'; its inputs are 'x'");
  }
}

// A default that is a graph output, too, comes back as the file has it.
TEST(InputDefaults, MayBeOutputs) {
  const DefaultModel product = DefaultModels()[0];
  ModelBuilder builder = Build(product, Weight::kDefault);
  builder.Output("w", DType::kFloat, graph::ToDims(product.w));
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = LoadModel(engine, builder.Serialize());
  ASSERT_NE(model, nullptr);
  const auto outputs = test::Answers(*model, test::InputsOf(*model, 2));
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_TRUE(test::Close(outputs.at("w"), RandomFloats(product.w, 1, -0.5F, 0.5F), test::Exact()));
}

}  // namespace
}  // namespace tandem
