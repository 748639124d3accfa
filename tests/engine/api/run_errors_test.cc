// What a run says that fails: which node, of which operator, what shapes met or which index came,
// what is needed and what is allowed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::LoadModel;
using test::ModelBuilder;
using test::RandomFloats;

const graph::Dim kN = graph::Dim::Symbol("N");
const graph::Dim kM = graph::Dim::Symbol("M");

// The code and message of the run, which must fail; the run after it, with `good`, must not.
std::string ErrorOf(const ModelBuilder& builder, const std::vector<NamedTensor>& bad,
                    const std::vector<NamedTensor>& good, EngineOptions options = {}) {
  options.threads = 1;
  const Engine engine(options);
  const auto model = LoadModel(engine, builder.Serialize());
  if (model == nullptr) return "";
  const auto result = model->Run(bad);
  EXPECT_FALSE(result.ok());
  const auto next = model->Run(good);
  EXPECT_TRUE(next.ok()) << next.status();
  return absl::StatusCodeToString(result.status().code()) + ": " +
         std::string(Message(result.status()));
}

TEST(RunErrors, ShapesThatDoNotBroadcastAreBothTold) {
  ModelBuilder builder(17);
  builder.Input("a", DType::kFloat, {2, kN})
      .Input("b", DType::kFloat, {kM})
      .Node("Add", {"a", "b"}, {"y"}, {}, "sum")
      .Output("y");
  EXPECT_EQ(
      ErrorOf(builder, {{"a", RandomFloats({2, 3}, 1)}, {"b", RandomFloats({4}, 2)}},
              {{"a", RandomFloats({2, 3}, 1)}, {"b", RandomFloats({3}, 2)}}),
      "INVALID_ARGUMENT: node 'sum' (Add): shapes [2,3] and [4] do not broadcast to each other");
}

TEST(RunErrors, AProductOfShapesThatDoNotFitTellsBoth) {
  ModelBuilder builder(17);
  builder.Input("a", DType::kFloat, {2, kN})
      .Input("b", DType::kFloat, {kM, 5})
      .Node("MatMul", {"a", "b"}, {"y"}, {}, "product")
      .Output("y");
  EXPECT_EQ(
      ErrorOf(builder, {{"a", RandomFloats({2, 3}, 1)}, {"b", RandomFloats({4, 5}, 2)}},
              {{"a", RandomFloats({2, 3}, 1)}, {"b", RandomFloats({3, 5}, 2)}}),
      "INVALID_ARGUMENT: node 'product' (MatMul): A of shape [2,3] has inner extent 3 where B of "
      "shape [4,5] expects 4");
}

TEST(RunErrors, AShapeThatComesWithARequestIsHeldAgainstTheElements) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {2, 3})
      .Input("shape", DType::kInt64, {2})
      .Node("Reshape", {"x", "shape"}, {"y"}, {}, "turn")
      .Output("y");
  const Tensor x = RandomFloats({2, 3}, 1);
  EXPECT_EQ(ErrorOf(builder, {{"x", x}, {"shape", Tensor::Of<int64_t>({2}, {4, 2})}},
                    {{"x", x}, {"shape", Tensor::Of<int64_t>({2}, {3, 2})}}),
            "INVALID_ARGUMENT: node 'turn' (Reshape): an input of shape [2,3] does not have the "
            "elements of shape [4,2]");
}

// x [N,M] under the shape, or without the axes, that `a` names.
std::string ErrorOfScalar(const std::string& op, const Shape& x, const std::vector<int64_t>& a) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, kM})
      .Input("a", DType::kInt64, {graph::Dim::Symbol("K")})
      .Node(op, {"x", "a"}, {"v"}, {}, "turn")
      .Node("Exp", {"v"}, {"y"})
      .Output("v")
      .Output("y");
  const auto vector = [](const std::vector<int64_t>& elements) {
    return Tensor::Of<int64_t>({static_cast<int64_t>(elements.size())}, elements);
  };
  const bool squeezes = op == "Squeeze";
  return ErrorOf(builder, {{"x", RandomFloats(x, 1)}, {"a", vector(a)}},
                 {{"x", RandomFloats({1, 1}, 2)},
                  {"a", vector(squeezes ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{})}});
}

TEST(RunErrors, AScalarIsNotMadeOfMoreOrFewerElements) {
  for (const Shape& x : {Shape{0, 4}, Shape{3, 4}}) {
    EXPECT_EQ(ErrorOfScalar("Reshape", x, {}),
              "INVALID_ARGUMENT: node 'turn' (Reshape): an input of shape " + ToString(x) +
                  " does not have the elements of shape []");
    EXPECT_EQ(ErrorOfScalar("Squeeze", x, {0, 1}),
              "INVALID_ARGUMENT: node 'turn' (Squeeze): axis 0 of " + ToString(x) + " has extent " +
                  std::to_string(x[0]) + " where 1 is expected");
  }
  EXPECT_EQ(ErrorOfScalar("Squeeze", {1, 4}, {0, 0}),
            "INVALID_ARGUMENT: node 'turn' (Squeeze): axes names axis 0 twice");
}

TEST(RunErrors, AnIndexOutOfRangeIsToldWithTheRange) {
  ModelBuilder builder(17);
  builder.Initializer("table", RandomFloats({5, 3}, 1))
      .Input("ids", DType::kInt64, {kN})
      .Node("Gather", {"table", "ids"}, {"rows"}, {}, "look_up")
      .Output("rows");
  EXPECT_EQ(
      ErrorOf(builder, {{"ids", Tensor::Of<int64_t>({3}, {4, -5, 7})}},
              {{"ids", Tensor::Of<int64_t>({3}, {4, -5, 0})}}),
      "INVALID_ARGUMENT: node 'look_up' (Gather): element 2: the index is 7 where -5 to 4 are "
      "expected for an axis of extent 5");
}

// A message counts elements from the part of the batch on that it names.
TEST(RunErrors, WhatIsWrongInAPartOfABatchIsToldWithThePart) {
  const std::string bytes = ModelBuilder(17)
                                .Initializer("table", RandomFloats({5, 3}, 1))
                                .Input("ids", DType::kInt64, {1, 2})
                                .Node("Gather", {"table", "ids"}, {"rows"}, {}, "look_up")
                                .Output("rows")
                                .Serialize();
  for (const int threads : {1, 2, 3}) {
    const Engine engine(EngineOptions{.threads = threads});
    const auto model = test::LoadModel(engine, bytes);
    const std::vector<BatchItem> items = {
        {{{"ids", Tensor::Of<int64_t>({3, 2}, {0, 1, 2, 3, 4, 5})}}, {}}};
    const auto results = model->RunBatch(items, [] { return false; });
    EXPECT_EQ(results.status().ToString(),
              "INVALID_ARGUMENT: items 2 to 2 of 3: node 'look_up' (Gather): element 1: the index "
              "is 5 where -5 to 4 are expected for an axis of extent 5");
  }
}

TEST(RunErrors, AWindowThatDoesNotFitIsToldWithTheImage) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {1, 2, kN, kM})
      .Initializer("w", RandomFloats({3, 2, 5, 3}, 1))
      .Node("Conv", {"x", "w"}, {"y"}, {{"dilations", std::vector<int64_t>{2, 1}}}, "filter")
      .Output("y");
  EXPECT_EQ(
      ErrorOf(builder, {{"x", RandomFloats({1, 2, 8, 9}, 1)}},
              {{"x", RandomFloats({1, 2, 9, 9}, 1)}}),
      "INVALID_ARGUMENT: node 'filter' (Conv): a window of extent 9 (kernel 5, dilation 2) does "
      "not fit into an input of extent 8 with pads 0 and 0");
}

TEST(RunErrors, ARunThatNeedsTooMuchMemoryNamesWhoTakesMost) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 3, 8, 8})
      .Initializer("w", RandomFloats({40, 3, 1, 1}, 1))
      .Node("Conv", {"x", "w"}, {"c"}, {}, "wide")
      .Node("ReduceMax", {"c"}, {"y"},
            {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}}, "narrow")
      .Output("y");
  const std::string error =
      ErrorOf(builder, {{"x", RandomFloats({2, 3, 8, 8}, 1)}},
              {{"x", RandomFloats({1, 3, 8, 8}, 1)}}, {.max_run_bytes = 32768});
  EXPECT_THAT(error,
              testing::MatchesRegex(
                  "RESOURCE_EXHAUSTED: node 'wide' \\(Conv\\): 'c' of shape \\[2,40,8,8\\] takes "
                  "20480 bytes: the run needs [0-9]+ bytes of memory where 32768 are allowed"));
}

TEST(RunErrors, AResultWhoseSizeDependsOnDataIsToldWhenItIsTooLarge) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN})
      .Node("NonZero", {"x"}, {"places"}, {}, "find")
      .Node("Neg", {"places"}, {"y"}, {}, "turn")
      .Output("y");
  const Tensor ones = RandomFloats({600}, 1, 1.0F, 2.0F);
  EXPECT_EQ(
      ErrorOf(builder, {{"x", ones}}, {{"x", Tensor::Of<float>({3}, {0, 1, 2})}},
              {.max_run_bytes = 4096}),
      "RESOURCE_EXHAUSTED: node 'find' (NonZero): 'places' of shape [1,600]: the run needs 4800 "
      "bytes of memory where 4096 are allowed");
  EXPECT_EQ(
      ErrorOf(builder, {{"x", ones}}, {{"x", Tensor::Of<float>({3}, {0, 1, 2})}},
              {.max_run_bytes = 8000}),
      "RESOURCE_EXHAUSTED: node 'turn' (Neg): 'y' of shape [1,600]: the run needs 9600 bytes of "
      "memory where 8000 are allowed");
}

}  // namespace
}  // namespace tandem
