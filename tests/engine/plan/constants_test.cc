// Constants of a plan: what is read as it is gets bytes of its own, and where there are none for it
// the error says for whom they were.
#include <gtest/gtest.h>

#include "engine/plan/plan.h"
#include "tests/support/op_runner.h"

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

}  // namespace
}  // namespace tandem::plan
