#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "engine/graph/dump.h"
#include "engine/graph/verify.h"
#include "tests/engine/optimizer/toy_ops.h"
#include "tests/support/compare.h"
#include "tests/support/interpreter.h"

namespace tandem::optimizer::test {
namespace {

using testing::HasSubstr;

TEST(Driver, AnUnknownPassIsRefusedWithTheKnownOnes) {
  ToyGraph toy;
  toy.Output(toy.Node("Double", {toy.Input("x")}, "y", Double()));
  OptimizeOptions options;
  options.disabled_passes = {"fold_constnats"};
  const auto report = Optimize(toy.graph, toy.constants, options);
  EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(report.status())),
              testing::AllOf(HasSubstr("fold_constnats"), HasSubstr("fuse_epilogue")));
}

TEST(Driver, APassThatIsSwitchedOffLeavesTheGraphAlone) {
  ToyGraph toy;
  toy.Output(
      toy.Node("Relu", {toy.Node("Gemm", {toy.Input("x")}, "h", Producer())}, "y", Rectify()));
  const std::string before = graph::Dump(toy.graph);
  OptimizeOptions options;
  options.disabled_passes = {"fuse_epilogue"};
  ASSERT_TRUE(Optimize(toy.graph, toy.constants, options).ok());
  EXPECT_EQ(graph::Dump(toy.graph), before);
  const auto report = Optimize(toy.graph, toy.constants, {});
  ASSERT_TRUE(report.ok());
  EXPECT_NE(graph::Dump(toy.graph), before);
  const auto changed = std::ranges::find(report->passes, "fuse_epilogue", &PassReport::pass);
  ASSERT_NE(changed, report->passes.end());
  EXPECT_EQ(changed->changes, 1);
}

TEST(Driver, AsksBeforeEveryNodeWhetherItIsToStop) {
  constexpr int kNodes = 50;
  int asked = 0;
  const auto optimize = [&](int stop_at) {
    ToyGraph toy;
    graph::ValueId last = toy.Input("x");
    for (int i = 0; i < kNodes; ++i) last = toy.Node("Double", {last}, "h", Double());
    toy.Output(last);
    asked = 0;
    OptimizeOptions options;
    options.stopped = [&] { return ++asked >= stop_at; };
    return Optimize(toy.graph, toy.constants, options).status();
  };
  EXPECT_TRUE(optimize(std::numeric_limits<int>::max()).ok());
  EXPECT_GE(asked, kNodes * static_cast<int>(PassNames().size()));
  for (const int stop_at : {1, 2, kNodes, kNodes + 1, kNodes + 2, 5 * kNodes}) {
    EXPECT_EQ(optimize(stop_at).code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(asked, stop_at) << "it goes on";
  }
}

// Replaces every node by a copy of itself, for ever.
std::optional<graph::Patch> Restless(const graph::Graph& graph, graph::NodeId anchor,
                                     PassContext&) {
  graph::Patch patch(graph);
  patch.AddNode(graph.node(anchor));
  patch.RemoveNode(anchor);
  return patch;
}

// Defines a node that reads its own output.
std::optional<graph::Patch> Cyclic(const graph::Graph& graph, graph::NodeId anchor, PassContext&) {
  graph::Node node = graph.node(anchor);
  node.inputs[0] = node.outputs[0];
  graph::Patch patch(graph);
  patch.AddNode(node);
  patch.RemoveNode(anchor);
  return patch;
}

TEST(Driver, APipelineWithoutFixedPointEndsAtTheCapAndNamesThePass) {
  ToyGraph toy;
  toy.Output(toy.Node("Double", {toy.Input("x")}, "y", Double()));
  const Pass passes[] = {{.name = "restless", .run = Restless}};
  OptimizeOptions options;
  options.max_rounds = 5;
  const auto report = RunPasses(passes, toy.graph, toy.constants, options);
  EXPECT_EQ(report.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(Message(report.status())), HasSubstr("restless (5)"));
}

TEST(Driver, ABrokenPatchIsAnErrorThatNamesThePass) {
  ToyGraph toy;
  toy.Output(toy.Node("Double", {toy.Input("x")}, "y", Double()));
  const Pass passes[] = {{.name = "cyclic", .run = Cyclic}};
  const auto report = RunPasses(passes, toy.graph, toy.constants, {});
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(std::string(Message(report.status())),
              testing::AllOf(HasSubstr("pass 'cyclic'"), HasSubstr("cycle")));
}

}  // namespace
}  // namespace tandem::optimizer::test
