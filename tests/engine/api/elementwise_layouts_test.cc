// Element-wise operators between kernels that work channels-last: every operand keeps its meaning.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "tests/support/compare.h"
#include "tests/support/model_builder.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::ModelBuilder;
using test::RandomFloats;

// x -> Conv -> MaxPool -> p, `op` with the operands -> o, MaxPool -> y; all three are outputs.
std::string Between(const std::string& op,
                    const std::vector<std::pair<std::string, Tensor>>& operands, bool constant) {
  const std::vector<int64_t> two = {2, 2};
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {1, 3, 12, 10}).Initializer("w", RandomFloats({5, 3, 3, 3}, 1));
  std::vector<std::string> inputs = {"p"};
  for (const auto& [name, tensor] : operands) {
    if (constant) {
      builder.Initializer(name, tensor);
    } else {
      builder.Input(name, DType::kFloat, graph::ToDims(tensor.shape()));
    }
    inputs.push_back(name);
  }
  return builder.Node("Conv", {"x", "w"}, {"c"})
      .Node("MaxPool", {"c"}, {"p"}, {{"kernel_shape", two}})
      .Node(op, inputs, {"o"})
      .Node("MaxPool", {"o"}, {"y"}, {{"kernel_shape", two}})
      .Output("p", DType::kFloat, {1, 5, 9, 7})
      .Output("o", DType::kFloat, {1, 5, 9, 7})
      .Output("y", DType::kFloat, {1, 5, 8, 6})
      .Serialize();
}

// One node in a model of its own, on what the larger model gave as its input.
std::string Alone(const std::string& op,
                  const std::vector<std::pair<std::string, Tensor>>& operands) {
  ModelBuilder builder(17);
  builder.Input("p", DType::kFloat, {1, 5, 9, 7});
  std::vector<std::string> inputs = {"p"};
  for (const auto& [name, tensor] : operands) {
    builder.Initializer(name, tensor);
    inputs.push_back(name);
  }
  return builder.Node(op, inputs, {"o"}).Output("o", DType::kFloat, {1, 5, 9, 7}).Serialize();
}

void ExpectMeaning(const std::string& op, const std::vector<Tensor>& tensors) {
  std::vector<std::pair<std::string, Tensor>> operands;
  for (size_t i = 0; i < tensors.size(); ++i)
    operands.emplace_back("v" + std::to_string(i), tensors[i]);
  const Engine engine(EngineOptions{.threads = 1});
  const auto alone = engine.LoadBytes(Alone(op, operands));
  ASSERT_TRUE(alone.ok()) << alone.status();
  for (const bool constant : {true, false}) {
    const auto model = engine.LoadBytes(Between(op, operands, constant));
    ASSERT_TRUE(model.ok()) << op << " " << model.status();
    std::vector<NamedTensor> inputs = {{"x", RandomFloats({1, 3, 12, 10}, 2)}};
    if (!constant) {
      for (const auto& [name, tensor] : operands) inputs.push_back({name, tensor});
    }
    const auto result = (*model)->Run(inputs);
    ASSERT_TRUE(result.ok()) << op << " " << result.status();
    const std::vector<NamedTensor> pooled = {{"p", result->outputs[0].tensor}};
    const auto expected = (*alone)->Run(pooled);
    ASSERT_TRUE(expected.ok()) << expected.status();
    EXPECT_TRUE(test::Close(result->outputs[1].tensor, expected->outputs[0].tensor, test::Exact()))
        << op << " " << ToString(tensors.back().shape()) << " constant " << constant;
  }
}

TEST(ElementwiseLayouts, OperandsOfEveryShapeKeepTheirMeaning) {
  for (const Shape& shape :
       {Shape{}, Shape{1}, Shape{7}, Shape{9, 1}, Shape{9, 7}, Shape{5, 1, 1}, Shape{5, 9, 7},
        Shape{1, 5, 1, 1}, Shape{1, 1, 9, 7}, Shape{1, 5, 9, 7}}) {
    ExpectMeaning("Mul", {RandomFloats(shape, 3)});
    ExpectMeaning("Max", {RandomFloats(shape, 3), RandomFloats({7}, 4)});
  }
}

TEST(ElementwiseLayouts, BatchNormalizationFindsItsChannels) {
  ExpectMeaning("BatchNormalization", {RandomFloats({5}, 3), RandomFloats({5}, 4),
                                       RandomFloats({5}, 5), RandomFloats({5}, 6, 0.1f, 2)});
}

TEST(ElementwiseLayouts, ClipKeepsItsBounds) {
  ExpectMeaning("Clip", {Tensor::Scalar(-0.25f), Tensor::Scalar(0.5f)});
}

}  // namespace
}  // namespace tandem
