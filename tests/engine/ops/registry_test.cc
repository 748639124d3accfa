#include "engine/ops/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/op_runner.h"

namespace tandem::ops {
namespace {

using graph::ValueKind;

graph::Graph PassThrough() {
  return test::GraphBuilder(17)
      .Input("x", DType::kFloat, {2})
      .Input("unused", DType::kFloat, {2})
      .Node("Identity", {"x"}, {"y"})
      .Output("y")
      .BuildRaw();
}

TEST(ResolveAll, NamesEveryPortThatIsNoTensor) {
  graph::Graph graph = PassThrough();
  auto element = std::make_shared<graph::ValueType>();
  element->dtype = DType::kInt64;
  for (const auto& [name, kind] :
       {std::pair("unused", ValueKind::kOptional), std::pair("y", ValueKind::kSequence)}) {
    graph::ValueType& type = graph.mutable_value(graph.FindValue(name)).type;
    type.kind = kind;
    type.element = element;
  }
  const Status status = ResolveAll(graph);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Message(status),
            "graph input 'unused' is of type optional(int64[...]); only tensors are supported; "
            "graph output 'y' is of type sequence(int64[...]); only tensors are supported");
}

TEST(ResolveAll, ListsPortsBesideOperators) {
  graph::Graph graph = PassThrough();
  graph.mutable_value(graph.FindValue("unused")).type.kind = ValueKind::kMap;
  graph.mutable_node(graph.order()[0]).op_type = "Nonsense";
  const Status status = ResolveAll(graph);
  EXPECT_THAT(Message(status), testing::HasSubstr("graph input 'unused' is of type map("));
  EXPECT_THAT(Message(status),
              testing::HasSubstr("operator Nonsense of opset 17 is not supported"));
}

}  // namespace
}  // namespace tandem::ops
