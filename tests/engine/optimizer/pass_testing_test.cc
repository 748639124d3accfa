// The oracle of the passes' tests finds what a broken pass does.
#include "tests/engine/optimizer/pass_testing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/optimizer/pass.h"
#include "tests/engine/optimizer/rewrite_testing.h"
#include "tests/support/failures.h"

namespace tandem::optimizer::test {
namespace {

using tandem::test::FailuresOf;
using tandem::test::GraphBuilder;
using testing::HasSubstr;

// y = Relu(x + b), z = b + x
GraphBuilder& AddSums(GraphBuilder& builder) {
  return builder.Input("x", DType::kFloat, {3, 7})
      .Constant("b", Tensor::Of<float>({7}, {-3, -2, -1, 0, 1, 2, 4}))
      .Node("Add", {"x", "b"}, {"s"})
      .Node("Relu", {"s"}, {"y"})
      .Node("Add", {"b", "x"}, {"z"})
      .Output("y")
      .Output("z");
}

// Runs one pass that is none of the pipeline's.
PassOutcome RunBroken(PassFunction run, tandem::test::Tolerance tolerance) {
  GraphBuilder builder;
  return RunRewrite(
      [run](graph::Graph& graph, graph::ConstantStore& constants) {
        const Pass passes[] = {{.name = "broken", .run = run}};
        return RunPasses(passes, graph, constants, {});
      },
      AddSums(builder), tolerance);
}

std::optional<graph::Patch> Nothing(const graph::Graph&, graph::NodeId, PassContext&) {
  return std::nullopt;
}

// Takes what a Relu reads for what it computes.
std::optional<graph::Patch> DropRelu(const graph::Graph& graph, graph::NodeId anchor,
                                     PassContext&) {
  const graph::Node& node = graph.node(anchor);
  if (node.op_type != "Relu") return std::nullopt;
  graph::Patch patch(graph);
  patch.ReplaceUses(node.outputs[0], node.inputs[0]);
  patch.RemoveNode(anchor);
  return patch;
}

// Moves one element of a constant by about the last place of a sum with it.
std::optional<graph::Patch> ShiftConstant(const graph::Graph& graph, graph::NodeId anchor,
                                          PassContext& context) {
  const graph::Node& node = graph.node(anchor);
  const graph::ConstantRef constant = graph.value(node.inputs.back()).constant;
  if (constant == nullptr) return std::nullopt;
  Tensor shifted = *Tensor::Allocate(DType::kFloat, constant->view().shape());
  std::ranges::copy(constant->view().span<float>(), shifted.mutable_data<float>());
  shifted.mutable_data<float>()[6] += 1e-6F;
  graph::Node moved = node;
  graph::Patch patch(graph);
  const graph::ValueId b = patch.NewConstant("shifted", context.constants().Intern(shifted));
  moved.inputs = {b, node.inputs[0]};  // the constant comes last no more
  patch.AddNode(moved);
  patch.RemoveNode(anchor);
  return patch;
}

TEST(RunRewrite, TakesAPassThatDoesNothing) {
  EXPECT_EQ(FailuresOf([] { EXPECT_TRUE(RunBroken(Nothing, tandem::test::Exact()).unchanged); }),
            "");
}

TEST(RunRewrite, FailsForANodeThatWasNeeded) {
  EXPECT_THAT(FailuresOf([] { RunBroken(DropRelu, tandem::test::Exact()); }),
              testing::AllOf(HasSubstr("element"), HasSubstr("output 'y'")));
}

TEST(RunRewrite, FailsForTheLastPlaceOfOneElementWhereBitsAreWanted) {
  EXPECT_THAT(FailuresOf([] { RunBroken(ShiftConstant, tandem::test::Exact()); }),
              HasSubstr("has other bits"));
  EXPECT_EQ(FailuresOf([] { RunBroken(ShiftConstant, tandem::test::Reduction(1)); }), "");
}

TEST(RunRewrite, FailsForAnOutputThatIsGone) {
  GraphBuilder builder, other;
  other.Input("x", DType::kFloat, {3, 7}).Node("Relu", {"x"}, {"y"}).Output("y");
  const auto forget = [&other](graph::Graph& graph, graph::ConstantStore&) {
    graph = other.Build();
    return StatusOr<OptimizeReport>(OptimizeReport());
  };
  EXPECT_THAT(FailuresOf([&] { RunRewrite(forget, AddSums(builder), tandem::test::Exact()); }),
              HasSubstr("output 'z' is missing"));
}

TEST(ExpectDeclined, FailsForAGraphThatChangedAndForAnotherReason) {
  PassOutcome outcome = RunBroken(Nothing, tandem::test::Exact());
  outcome.report.declines.push_back({.rule = "another reader"});
  EXPECT_EQ(FailuresOf([&] { ExpectDeclined(outcome, "reader"); }), "");
  EXPECT_NE(FailuresOf([&] { ExpectDeclined(outcome, "budget"); }), "");
  outcome.unchanged = false;
  EXPECT_NE(FailuresOf([&] { ExpectDeclined(outcome, "reader"); }), "");
  outcome.unchanged = true;
  outcome.report.declines.clear();
  EXPECT_NE(FailuresOf([&] { ExpectDeclined(outcome, "reader"); }), "");
}

}  // namespace
}  // namespace tandem::optimizer::test
