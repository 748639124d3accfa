#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <time.h>

#include <algorithm>

#include "engine/graph/dump.h"
#include "engine/graph/verify.h"
#include "tests/engine/optimizer/toy_ops.h"
#include "tests/support/compare.h"
#include "tests/support/interpreter.h"

namespace tandem::optimizer::test {
namespace {

using testing::HasSubstr;

Tensor Four() { return Tensor::Of<float>({4}, {-2, -1, 1, 2}); }

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

constexpr double kLinear = 2.5;

using Build = void (*)(ToyGraph&, int nodes);

// Processor time of this thread, from the scheduler's clock: the times that getrusage tells are
// estimated from ticks, which other programs bend.
double SecondsOfThread() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Of `copies` graphs, so that short times add up to many ticks of the clock.
double SecondsToOptimize(Build build, int nodes, int copies) {
  double seconds = 0;
  for (int i = 0; i < copies; ++i) {
    ToyGraph toy;
    build(toy, nodes);
    const double start = SecondsOfThread();
    EXPECT_TRUE(Optimize(toy.graph, toy.constants, {}).ok());
    seconds += SecondsOfThread() - start;
  }
  return seconds;
}

// Time for twice the nodes against time for the nodes, in seven alternating pairs: the lower
// quartile, so that a limit is passed only when the whole range between the quartiles is beyond it.
double RatioOfTwice(Build build, int nodes, int copies) {
  // Memory that is freed stays with the process: whether the kernel has to find fresh pages for the
  // next graph is not a matter of the driver.
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  SecondsToOptimize(build, 2 * nodes, 1);
  std::vector<double> ratios;
  for (int i = 0; i < 7; ++i) {
    const double once = SecondsToOptimize(build, nodes, copies);
    ratios.push_back(SecondsToOptimize(build, 2 * nodes, copies) / once);
  }
  std::ranges::sort(ratios);
  return ratios[1];
}

// The constant is read by every node, which is the worst case for lists of uses.
void BuildWide(ToyGraph& toy, int nodes) {
  const graph::ValueId x = toy.Input("x");
  const graph::ValueId c = toy.Constant("c", Four());
  graph::ValueId last = x;
  for (int i = 0; i < nodes; i += 2) {
    const graph::ValueId h = toy.Node("Gemm", {last}, "h", Producer());
    last = toy.Node("Add", {h, c}, "y", Residual());
  }
  toy.Output(last);
}

void BuildConstantChain(ToyGraph& toy, int nodes) {
  graph::ValueId last = toy.Constant("c", Four());
  for (int i = 0; i < nodes; ++i) last = toy.Node("Double", {last}, "h", Double());
  toy.Output(toy.Node("Add", {toy.Input("x"), last}, "y", Residual()));
}

// Under sanitizers, time is not that of the code that is shipped.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

TEST(Driver, TimeIsLinearInTheNodes) {
  if (kSanitized) GTEST_SKIP();
  EXPECT_LT(RatioOfTwice(BuildWide, 5'000, 8), kLinear);
}

TEST(Driver, TimeIsLinearInAConstantChain) {
  if (kSanitized) GTEST_SKIP();
  EXPECT_LT(RatioOfTwice(BuildConstantChain, 600, 200), kLinear);
}

}  // namespace
}  // namespace tandem::optimizer::test
