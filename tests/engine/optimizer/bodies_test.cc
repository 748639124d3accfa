// Passes on control flow: what is known of a condition or of a captured value reaches the bodies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/dump.h"
#include "engine/onnx/import.h"
#include "engine/ops/registry.h"
#include "engine/optimizer/optimizer.h"
#include "tests/support/compare.h"
#include "tests/support/interpreter.h"
#include "tests/support/model_builder.h"
#include "tests/support/random_tensor.h"

namespace tandem::optimizer {
namespace {

using graph::Dim;
using tandem::test::Close;
using tandem::test::Exact;
using tandem::test::Interpret;
using tandem::test::ModelBuilder;
using tandem::test::RandomFloats;
using testing::HasSubstr;
using testing::Pair;

enum class Defaults { kFixed, kReplaceable };

struct Loaded {
  explicit Loaded(const ModelBuilder& builder, Defaults defaults = Defaults::kFixed) {
    auto imported = onnx_import::ImportBytes(builder.Serialize(), {}, constants);
    EXPECT_TRUE(imported.ok()) << imported.status();
    graph = std::move(imported->graph);
    if (defaults == Defaults::kReplaceable) graph::TakeDefaults(graph);
    const Status resolved = ops::ResolveAll(graph);
    EXPECT_TRUE(resolved.ok()) << resolved;
    const Status inferred = ops::InferAll(graph);
    EXPECT_TRUE(inferred.ok()) << inferred;
  }
  OptimizeReport Run(const OptimizeOptions& options = {}) {
    auto report = Optimize(graph, constants, options);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *std::move(report) : OptimizeReport();
  }
  const graph::Node& Only() const { return graph.node(graph.order().at(0)); }
  const graph::Graph& Body(size_t i) const { return *graph::BodiesOf(Only())[i].graph; }

  graph::ConstantStore constants;
  graph::Graph graph;
};

ModelBuilder Branch(const std::string& op, const std::vector<std::string>& inputs) {
  ModelBuilder body;
  body.Node(op, inputs, {"r"}).Output("r");
  return body;
}

// y = If(condition) { x + k : -x }, where `k` is what Neg makes of a constant.
ModelBuilder Choice(bool known) {
  ModelBuilder model(17);
  model.Input("x", DType::kFloat, {Dim::Symbol("N")});
  if (known) {
    model.Initializer("c", Tensor::Scalar(true));
  } else {
    model.Input("c", DType::kBool, {});
  }
  model.Initializer("one", Tensor::Of<float>({1}, {1}))
      .Node("Neg", {"one"}, {"k"})
      .Node("If", {"c"}, {"y"}, {}, "choice")
      .Body("then_branch", Branch("Add", {"x", "k"}))
      .Body("else_branch", Branch("Neg", {"x"}))
      .Output("y");
  return model;
}

void ExpectSameResults(const ModelBuilder& model, const test::NamedTensors& inputs,
                       const OptimizeOptions& options = {}) {
  Loaded before(model), after(model);
  after.Run(options);
  const auto expected = Interpret(before.graph, inputs);
  const auto results = Interpret(after.graph, inputs);
  ASSERT_TRUE(expected.ok() && results.ok()) << expected.status() << results.status();
  for (const auto& [name, tensor] : *expected) {
    EXPECT_TRUE(Close(results->at(name), tensor, Exact())) << name;
  }
}

TEST(InlineIf, TheBranchOfAKnownConditionTakesItsPlace) {
  Loaded model(Choice(true));
  model.Run();
  EXPECT_EQ(model.Only().op_type, "Add") << graph::Dump(model.graph);
  EXPECT_EQ(model.graph.order().size(), 1u);
  ExpectSameResults(Choice(true), {{"x", RandomFloats({3}, 1)}});
  const std::string once = graph::Dump(model.graph);
  model.Run();
  EXPECT_EQ(graph::Dump(model.graph), once);
}

TEST(InlineIf, StaysWhereTheConditionIsNotKnownOrThePassIsOff) {
  Loaded open(Choice(false));
  open.Run();
  EXPECT_EQ(open.Only().op_type, "If");
  Loaded off(Choice(true));
  OptimizeOptions options;
  options.disabled_passes = {"inline_if"};
  off.Run(options);
  EXPECT_EQ(off.Only().op_type, "If");
  ExpectSameResults(Choice(true), {{"x", RandomFloats({3}, 1)}}, options);
}

TEST(InlineIf, AConditionThatARequestMayReplaceIsNotKnown) {
  ModelBuilder builder = Choice(true);
  builder.Input("c", DType::kBool, {});
  Loaded model(builder, Defaults::kReplaceable);
  model.Run();
  EXPECT_EQ(model.Only().op_type, "If");
}

TEST(OptimizeBodies, CapturedConstantsAndUnreadCapturesAreInputsNoMore) {
  Loaded model(Choice(false));
  EXPECT_EQ(model.graph.order().size(), 2u);
  model.Run();
  // Of else_branch and then_branch only x is left; k was folded and lies in the body.
  EXPECT_EQ(model.Only().captures, 2);
  EXPECT_EQ(model.Body(0).captures(), 1);
  EXPECT_EQ(model.Body(1).captures(), 1);
  EXPECT_NE(model.Body(1).FindValue("k"), graph::kNoValue);
  for (const bool condition : {true, false}) {
    ExpectSameResults(Choice(false),
                      {{"x", RandomFloats({3}, 1)}, {"c", Tensor::Scalar(condition)}});
  }
  const std::string once = graph::Dump(model.graph);
  model.Run();
  EXPECT_EQ(graph::Dump(model.graph), once);
}

// A Loop whose body multiplies by what two constants make, in a loop of its own.
ModelBuilder Nested() {
  ModelBuilder inner;
  inner.Input("i", DType::kInt64, {}).Input("go", DType::kBool, {});
  inner.Input("b", DType::kFloat, {Dim()});
  inner.Initializer("two", Tensor::Of<float>({1}, {2}))
      .Node("Add", {"two", "k"}, {"three"})
      .Node("Mul", {"b", "three"}, {"s"})
      .Output("go")
      .Output("s");
  ModelBuilder outer;
  outer.Input("j", DType::kInt64, {}).Input("on", DType::kBool, {});
  outer.Input("a", DType::kFloat, {Dim()});
  outer.Node("Neg", {"one"}, {"minus"})
      .Node("Neg", {"minus"}, {"k"})
      .Node("Loop", {"M", "", "a"}, {"t"}, {}, "inner")
      .Body("body", inner)
      .Output("on")
      .Output("t");
  ModelBuilder model(17);
  model.Input("x", DType::kFloat, {2}).Input("M", DType::kInt64, {});
  model.Initializer("one", Tensor::Of<float>({1}, {1}))
      .Node("Loop", {"M", "", "x"}, {"y"}, {}, "outer")
      .Body("body", outer)
      .Output("y");
  return model;
}

TEST(OptimizeBodies, BodiesInBodiesAreFoldedToo) {
  Loaded model(Nested());
  const OptimizeReport report = model.Run();
  const graph::Graph& outer = model.Body(0);
  ASSERT_EQ(outer.order().size(), 1u) << graph::Dump(outer);
  const graph::Node& loop = outer.node(outer.order()[0]);
  const graph::Graph& inner = *graph::BodiesOf(loop)[0].graph;
  ASSERT_EQ(inner.order().size(), 1u) << graph::Dump(inner);
  EXPECT_EQ(inner.node(inner.order()[0]).op_type, "Mul");
  EXPECT_EQ(loop.captures, 0);
  EXPECT_GT(report.folded.made_bytes, 0u);
  ExpectSameResults(Nested(), {{"x", RandomFloats({2}, 1)}, {"M", Tensor::Scalar<int64_t>(3)}});
}

TEST(OptimizeBodies, CanBeSwitchedOff) {
  Loaded model(Nested());
  OptimizeOptions options;
  options.disabled_passes = {"optimize_bodies"};
  model.Run(options);
  EXPECT_EQ(model.Body(0).order().size(), 3u);
  ExpectSameResults(Nested(), {{"x", RandomFloats({2}, 1)}, {"M", Tensor::Scalar<int64_t>(3)}},
                    options);
}

// Whether the pass alone leaves the graph with all its bodies as it is.
bool IsUnchanged(std::string_view pass, const ModelBuilder& builder,
                 Defaults defaults = Defaults::kFixed) {
  Loaded model(builder, defaults);
  OptimizeOptions options;
  for (const std::string& name : PassNames()) {
    if (name != pass) options.disabled_passes.insert(name);
  }
  const std::string before = graph::Dump(model.graph);
  model.Run(options);
  return graph::Dump(model.graph) == before;
}

TEST(InlineIf, LeavesAnOpenConditionAsItIs) {
  EXPECT_FALSE(IsUnchanged("inline_if", Choice(true)));
  EXPECT_TRUE(IsUnchanged("inline_if", Choice(false)));
  ModelBuilder by_default = Choice(true);
  by_default.Input("c", DType::kBool, {});
  EXPECT_TRUE(IsUnchanged("inline_if", by_default, Defaults::kReplaceable));
  EXPECT_FALSE(IsUnchanged("inline_if", by_default));
}

// A Loop whose body multiplies by what it captures, which is an initializer and an input.
ModelBuilder Capturing() {
  ModelBuilder body;
  body.Input("i", DType::kInt64, {}).Input("go", DType::kBool, {});
  body.Input("a", DType::kFloat, {Dim()});
  body.Node("Mul", {"a", "k"}, {"t"}).Output("go").Output("t");
  ModelBuilder model(17);
  model.Input("x", DType::kFloat, {2})
      .Input("M", DType::kInt64, {})
      .Input("k", DType::kFloat, {1})
      .Initializer("k", Tensor::Of<float>({1}, {3}))
      .Node("Loop", {"M", "", "x"}, {"y"}, {}, "loop")
      .Body("body", body)
      .Output("y");
  return model;
}

TEST(OptimizeBodies, LeavesACapturedDefaultThatARequestMayReplace) {
  EXPECT_TRUE(IsUnchanged("optimize_bodies", Capturing(), Defaults::kReplaceable));
  EXPECT_FALSE(IsUnchanged("optimize_bodies", Capturing()));
  const test::NamedTensors inputs = {{"x", RandomFloats({2}, 1)},
                                     {"M", Tensor::Scalar<int64_t>(3)},
                                     {"k", Tensor::Of<float>({1}, {-2})}};
  Loaded before(Capturing(), Defaults::kReplaceable), after(Capturing(), Defaults::kReplaceable);
  after.Run();
  const auto expected = Interpret(before.graph, inputs);
  const auto results = Interpret(after.graph, inputs);
  ASSERT_TRUE(expected.ok() && results.ok()) << expected.status() << results.status();
  EXPECT_TRUE(Close(results->at("y"), expected->at("y"), Exact()));
}

// The body's own fold, of k, is declined because a request may replace what k is made of.
TEST(OptimizeBodies, AFoldOfACapturedDefaultIsDeclinedByName) {
  ModelBuilder body;
  body.Node("Neg", {"w"}, {"k"}, {}, "source").Node("Add", {"x", "k"}, {"r"}).Output("r");
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {3})
      .Input("c", DType::kBool, {})
      .Input("w", DType::kFloat, {3})
      .Initializer("w", RandomFloats({3}, 1))
      .Node("If", {"c"}, {"y"}, {}, "choice")
      .Body("then_branch", body)
      .Body("else_branch", Branch("Neg", {"x"}))
      .Output("y");
  Loaded model(builder);
  OptimizeOptions options;
  options.disabled_passes = {"fuse_epilogue"};
  options.defaults = graph::TakeDefaults(model.graph);
  const OptimizeReport report = model.Run(options);
  const auto declined =
      std::ranges::find(report.declines, "a request may replace this default", &Decline::rule);
  ASSERT_NE(declined, report.declines.end());
  EXPECT_EQ(declined->node, "node 'choice' (If): then_branch: node 'source' (Neg)");
  EXPECT_EQ(declined->numbers, "'w'");
}

// Nodes of the outer body that are left, and the nodes whose folding was declined for its work,
// when folding may work on so many elements.
std::pair<size_t, std::string> FoldWithin(int64_t elements) {
  Loaded model(Nested());
  OptimizeOptions options;
  options.fold.elements = elements;
  options.disabled_passes = {"fuse_epilogue"};  // which would make one node of what is not folded
  const OptimizeReport report = model.Run(options);
  std::string nodes;
  for (const Decline& decline : report.declines) {
    if (decline.rule == "is too much work for the load") nodes += decline.node + "\n";
  }
  return {model.Body(0).order().size(), nodes};
}

// Each Neg reads an element and the Add of the inner body two.
TEST(OptimizeBodies, FoldsOfBodiesComeOutOfTheBudgetAndDeclinesSayWhere) {
  EXPECT_THAT(FoldWithin(0), Pair(3u, HasSubstr("node 'outer' (Loop): body: node #0")));
  EXPECT_THAT(FoldWithin(3),
              Pair(1u, HasSubstr("node 'outer' (Loop): body: node 'inner' (Loop): body: node #0")));
  EXPECT_THAT(FoldWithin(4), Pair(1u, ""));
}

}  // namespace
}  // namespace tandem::optimizer
