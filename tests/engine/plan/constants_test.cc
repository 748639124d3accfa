// Constants of a plan: what is read as it is gets bytes of its own, and where there are none for it
// the error says for whom they were.
#include <gtest/gtest.h>

#include "engine/plan/plan.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem::plan {
namespace {

// The constant 'big' repeats its only element more often than memory can hold.
Status BuildWithoutMemory(test::GraphBuilder& builder) {
  graph::Graph graph = builder.Build();
  graph::Value& big = graph.mutable_value(graph.FindValue("big"));
  const int64_t elements = int64_t{1} << 60;
  big.constant = std::make_shared<const graph::Constant>(
      StridedTensor::Of(big.constant->held()).BroadcastTo({elements}), Hash128{1, 2});
  PackStore packs;
  return BuildPlan(graph, {}, builder.constants(), packs).status();
}

constexpr std::string_view kReason =
    "a tensor of shape [1152921504606846976] passes the size that can be counted";

TEST(PlanConstants, WithoutMemoryForOneItsFirstReaderIsNamed) {
  test::GraphBuilder builder;
  builder.Constant("big", Tensor::Of<float>({1}, {1}))
      .Input("i", DType::kInt64, {2})
      .Node("Gather", {"big", "i"}, {"y"}, {}, "pick")
      .Output("y");
  const Status status = BuildWithoutMemory(builder);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(Message(status)),
            fmt::format("node 'pick' (Gather): constant 'big': {}", kReason));
}

TEST(PlanConstants, WithoutMemoryForAnOutputItIsNamed) {
  test::GraphBuilder builder;
  builder.Constant("big", Tensor::Of<float>({1}, {1}))
      .Input("x", DType::kFloat, {2})
      .Node("Relu", {"x"}, {"y"})
      .Output("y")
      .Output("big");
  EXPECT_EQ(std::string(Message(BuildWithoutMemory(builder))),
            fmt::format("a graph output: constant 'big': {}", kReason));
}

// Bytes of constants that are alive before each task is bound, and after the last.
std::vector<size_t> BytesWhileBuilding(test::GraphBuilder& builder) {
  graph::Graph graph = builder.Build();
  // The builder goes on holding its own.
  graph::ConstantStore constants;
  for (graph::ValueId id = 0; id < graph.value_limit(); ++id) {
    graph::ConstantRef& constant = graph.mutable_value(id).constant;
    if (constant != nullptr) constant = constants.Intern(*constant->SpellOut());
  }
  std::vector<size_t> bytes;
  PlanOptions options;
  options.isa = DetectIsa();
  options.stopped = [&] {
    bytes.push_back(constants.stats().bytes);
    return false;
  };
  PackStore packs;
  const auto plan = BuildPlan(std::move(graph), options, constants, packs);
  EXPECT_TRUE(plan.ok()) << Message(plan.status());
  bytes.push_back(constants.stats().bytes);
  return bytes;
}

TEST(PlanConstants, AWeightGoesWithTheLastOfItsReadersWhereAllPackIt) {
  constexpr int64_t kSize = 64;
  constexpr size_t kBytes = kSize * kSize * sizeof(float);
  test::GraphBuilder builder;
  builder.Input("x", DType::kFloat, {1, kSize})
      .Constant("v", test::RandomFloats({kSize, kSize}, 1))
      .Constant("w", test::RandomFloats({kSize, kSize}, 2))
      .Node("MatMul", {"x", "v"}, {"a"})
      .Node("MatMul", {"a", "w"}, {"b"})
      .Node("MatMul", {"b", "v"}, {"y"})
      .Output("y");
  EXPECT_EQ(BytesWhileBuilding(builder), (std::vector<size_t>{2 * kBytes, 2 * kBytes, kBytes, 0}));
}

TEST(PlanConstants, TheLargestWeightIsPackedFirst) {
  constexpr int64_t kSize = 64;
  constexpr size_t kBytes = kSize * kSize * sizeof(float);
  test::GraphBuilder builder;
  builder.Input("x", DType::kFloat, {1, kSize})
      .Constant("small", test::RandomFloats({kSize, kSize}, 1))
      .Constant("large", test::RandomFloats({kSize, 4 * kSize}, 2))
      .Node("MatMul", {"x", "small"}, {"a"})
      .Node("MatMul", {"a", "large"}, {"y"})
      .Output("y");
  EXPECT_EQ(BytesWhileBuilding(builder), (std::vector<size_t>{5 * kBytes, kBytes, 0}));
}

TEST(PlanConstants, AWeightStaysThatIsReadAsItIsOrAnOutput) {
  constexpr int64_t kSize = 64;
  constexpr size_t kBytes = kSize * kSize * sizeof(float);
  test::GraphBuilder builder;
  builder.Input("x", DType::kFloat, {1, kSize})
      .Constant("v", test::RandomFloats({kSize, kSize}, 1))
      .Constant("w", test::RandomFloats({kSize, kSize}, 2))
      .Node("MatMul", {"x", "v"}, {"a"})
      .Node("Add", {"a", "v"}, {"b"})
      .Node("MatMul", {"b", "w"}, {"y"})
      .Output("y")
      .Output("w");
  EXPECT_EQ(BytesWhileBuilding(builder), (std::vector<size_t>(4, 2 * kBytes)));
}

}  // namespace
}  // namespace tandem::plan
