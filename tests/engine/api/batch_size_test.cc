// Models that read the size of their batch: an answer never depends on threads or on how a request
// was cut.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "tests/support/compare.h"
#include "tests/support/model_builder.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::ModelBuilder;
using test::RandomFloats;

const graph::Dim kN = graph::Dim::Symbol("N");

// y = x W / extent `axis` of x, with enough work that a batch would be cut.
std::string DividedByExtent(int64_t axis) {
  return ModelBuilder(17)
      .Input("x", DType::kFloat, {kN, 512})
      .Initializer("w", RandomFloats({512, 512}, 1))
      .Initializer("axis", Tensor::Scalar<int64_t>(axis))
      .Node("MatMul", {"x", "w"}, {"p"})
      .Node("Shape", {"x"}, {"s"})
      .Node("Gather", {"s", "axis"}, {"n"})
      .Node("Cast", {"n"}, {"f"}, {{"to", int64_t{1}}})
      .Node("Div", {"p", "f"}, {"y"})
      .Output("y", DType::kFloat, {kN, 512})
      .Serialize();
}

TEST(BatchSizeTest, ADivisionByTheNumberOfItemsIsByThoseOfTheRequest) {
  const Tensor x = RandomFloats({32, 512}, 2);
  std::vector<Tensor> answers;
  for (const int threads : {1, 2, 4}) {
    const Engine engine(EngineOptions{.threads = threads});
    const auto model = engine.LoadBytes(DividedByExtent(0));
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_FALSE((*model)->info().joinable);
    const auto result = (*model)->Run(std::vector<NamedTensor>{{"x", x}});
    ASSERT_TRUE(result.ok()) << result.status();
    answers.push_back(result->outputs[0].tensor);
    EXPECT_TRUE(test::Close(answers.back(), answers.front(), test::Exact())) << threads;
  }
}

TEST(BatchSizeTest, AnExtentThatIsKnownIsNoObstacle) {
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = engine.LoadBytes(DividedByExtent(1));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE((*model)->info().joinable) << (*model)->info().not_joinable_reason;
}

void ExpectUnknownWork(const std::string& bytes) {
  const auto model = Engine({.threads = 1}).LoadBytes(bytes);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_FALSE((*model)->info().item_seconds.has_value());
}

TEST(BatchSizeTest, AnExtentThatDependsOnDataLeavesTheWorkOpen) {
  const std::string bytes = ModelBuilder(17)
                                .Input("x", DType::kFloat, {1})
                                .Input("s", DType::kInt64, {1})
                                .Node("Expand", {"x", "s"}, {"e"})
                                .Node("ReduceSum", {"e"}, {"y"})
                                .Output("y", DType::kFloat, {1})
                                .Serialize();
  ExpectUnknownWork(bytes);
}

TEST(BatchSizeTest, ABodyThatRunsAgainAndAgainLeavesTheWorkOpen) {
  ModelBuilder body(17);
  body.Input("i", DType::kInt64, {})
      .Input("go", DType::kBool, {})
      .Input("v", DType::kFloat, {1})
      .Node("Identity", {"go"}, {"on"})
      .Node("Neg", {"v"}, {"w"})
      .Output("on", DType::kBool, {})
      .Output("w", DType::kFloat, {1});
  const std::string bytes = ModelBuilder(17)
                                .Input("x", DType::kFloat, {1})
                                .Initializer("count", Tensor::Scalar<int64_t>(1'000'000))
                                .Node("Loop", {"count", "", "x"}, {"y"})
                                .Body("body", body)
                                .Output("y", DType::kFloat, {1})
                                .Serialize();
  ExpectUnknownWork(bytes);
}

}  // namespace
}  // namespace tandem
