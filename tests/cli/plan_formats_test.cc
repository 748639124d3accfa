// The plan in all its forms, what two plans do differently, and where a plan goes astray.
#include "cli/plan_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>

#include "cli/commands.h"
#include "tests/support/model_builder.h"
#include "tests/support/random_tensor.h"
#include "tests/support/temp_directory.h"

namespace tandem::cli {
namespace {

using test::ModelBuilder;
using testing::HasSubstr;
using testing::Not;

// Two towers over one input, each a Conv and its activation; one name needs quoting.
ModelBuilder TwoTowers() {
  ModelBuilder model(17);
  model.Input("x", DType::kFloat, {1, 16, 20, 20})
      .Initializer("w", test::RandomFloats({16, 16, 3, 3}, 1))
      .Initializer("v", test::RandomFloats({16, 16, 3, 3}, 2))
      .Node("Conv", {"x", "w"}, {"a"}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}}, "left <\"1\">")
      .Node("Sigmoid", {"a"}, {"b"}, {}, "bend")
      .Node("Conv", {"x", "v"}, {"c"}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}}, "right")
      .Node("Tanh", {"c"}, {"d"}, {}, "bound")
      .Node("Concat", {"b", "d"}, {"y"}, {{"axis", int64_t{1}}}, "join")
      .Output("y", DType::kFloat, {1, 32, 20, 20});
  return model;
}

class PlanFormatsTest : public testing::Test {
 protected:
  PlanFormatsTest() { TwoTowers().WriteFile(path_); }

  ModelConfig Model() const {
    ModelConfig config{.path = path_};
    config.engine.threads = 1;
    return config;
  }
  std::string Shown(PlanFormat format) const {
    const auto text = Execute(ExplainConfig{Model(), {}, format});
    EXPECT_TRUE(text.ok()) << text.status();
    return text.value_or("");
  }
  std::string Differences(const DiffConfig& config) const {
    const auto text = Execute(config);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.value_or("");
  }

  test::TempDirectory directory_;
  const std::string path_ = directory_ / "m.onnx";
};

TEST_F(PlanFormatsTest, TheGraphHasTasksTowersAndValues) {
  const std::string dot = Shown(PlanFormat::kDot);
  EXPECT_THAT(dot, testing::StartsWith("digraph plan {\n"));
  EXPECT_THAT(dot, testing::EndsWith("}\n"));
  EXPECT_THAT(dot, HasSubstr("left <\\\"1\\\">"));
  EXPECT_THAT(dot, HasSubstr("label=\"tower 1\""));
  EXPECT_THAT(dot, testing::ContainsRegex("v[0-9]+ \\[shape=ellipse, label=\"x\"\\]"));
  EXPECT_THAT(dot, testing::ContainsRegex("t[0-9]+ -> t[0-9]+ \\[label=\"float\\[1,16,20,20\\]"));
  EXPECT_THAT(dot, testing::ContainsRegex("t[0-9]+ -> o[0-9]+"));
  EXPECT_EQ(std::ranges::count(dot, '{'), std::ranges::count(dot, '}'));
}

TEST_F(PlanFormatsTest, ThePageEscapesNamesAndHasEveryTask) {
  const std::string html = Shown(PlanFormat::kHtml);
  EXPECT_THAT(html, testing::StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(html, testing::EndsWith("</html>\n"));
  EXPECT_THAT(html, HasSubstr("left &lt;\"1\"&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("left <")));
  for (const char* part : {"<h2>Totals</h2>", "<h2>Packs</h2>", "<h2>Passes</h2>", "join",
                           "<td class=\"number\">921600</td>"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
}

// x [N,4] -> [N,5] -> y [N,2], and the places of y that are not 0.
TEST_F(PlanFormatsTest, TheWorkOfAllTasksIsAddedUp) {
  const graph::Dim n = graph::Dim::Symbol("N");
  ModelBuilder model(17);
  model.Input("x", DType::kFloat, {n, 4})
      .Initializer("w", test::RandomFloats({4, 5}, 1))
      .Initializer("v", test::RandomFloats({5, 2}, 2))
      .Node("MatMul", {"x", "w"}, {"h"})
      .Node("MatMul", {"h", "v"}, {"y"})
      .Node("NonZero", {"y"}, {"places"})
      .Output("y", DType::kFloat, {n, 2})
      .Output("places", DType::kInt64, {2, graph::Dim()})
      .WriteFile(path_);
  const auto shown = [&](PlanFormat format) {
    return Execute(ExplainConfig{Model(), {.batch = 3}, format}).value_or("");
  };
  // 3 (4 5 + 5 2) products; 4 bytes for each element of x, w and h, and of h, v and y.
  EXPECT_THAT(shown(PlanFormat::kText),
              HasSubstr("\nwork 90 multiply-adds, 312 bytes moved, and 1 tasks of unknown cost\n"));
  EXPECT_THAT(shown(PlanFormat::kJson),
              HasSubstr(R"("multiply_adds":90,"moved_bytes":312,"tasks_of_unknown_cost":1,)"));
  for (const char* row : {"<td>multiply-adds</td><td class=\"number\">90</td>",
                          "<td>bytes moved</td><td class=\"number\">312</td>",
                          "<td>tasks of unknown cost</td><td class=\"number\">1</td>"}) {
    EXPECT_THAT(shown(PlanFormat::kHtml), HasSubstr(row));
  }
}

// One output of Split, read twice, and the other go to the same task; a Loop has a body.
ModelBuilder ManyEdges() {
  ModelBuilder body;
  body.Input("turn", DType::kInt64, {})
      .Input("go", DType::kBool, {})
      .Input("before", DType::kFloat, {2})
      .Node("Identity", {"go"}, {"go_on"})
      .Node("Add", {"before", "joined"}, {"after"}, {}, "inside")
      .Output("go_on")
      .Output("after");
  ModelBuilder model;
  model.Input("x", DType::kFloat, {4})
      .Input("turns", DType::kInt64, {})
      .Node("Split", {"x"}, {"s", "t"}, {}, "cut")
      .Node("Sum", {"s", "t", "s"}, {"joined"}, {}, "join")
      .Node("Loop", {"turns", "", "joined"}, {"y"}, {}, "again")
      .Body("body", body)
      .Output("y", DType::kFloat, {2});
  return model;
}

TEST_F(PlanFormatsTest, TheGraphHasOneEdgeBetweenTwoTasks) {
  ManyEdges().WriteFile(path_);
  const std::string dot = Shown(PlanFormat::kDot);
  std::set<std::string> edges;
  std::istringstream lines(dot);
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(line.find_first_not_of(' '));
    if (line.find(" -> ") == std::string::npos) continue;
    EXPECT_TRUE(edges.insert(line.substr(0, line.find(" ["))).second) << line;
  }
  EXPECT_GE(edges.size(), 5u);
  // Both values are on the edge.
  EXPECT_THAT(dot, HasSubstr("[label=\"float[2]\\nfloat[2]\"]"));
}

TEST_F(PlanFormatsTest, TheGraphAndThePageShowBodies) {
  ManyEdges().WriteFile(path_);
  const std::string dot = Shown(PlanFormat::kDot);
  EXPECT_THAT(dot, testing::ContainsRegex("subgraph cluster_t[0-9]+b0_ \\{"));
  EXPECT_THAT(dot, testing::ContainsRegex("t[0-9]+b0_t[0-9]+ \\[label=\"node 'inside' \\(Add\\)"));
  EXPECT_THAT(dot, testing::ContainsRegex("t[0-9]+ -> t[0-9]+b0_ \\[style=dotted\\]"));
  EXPECT_THAT(dot,
              testing::ContainsRegex("t[0-9]+b0_v[0-9]+ \\[shape=ellipse, label=\"before\"\\]"));
  EXPECT_EQ(std::ranges::count(dot, '{'), std::ranges::count(dot, '}'));
  const std::string html = Shown(PlanFormat::kHtml);
  EXPECT_THAT(html, HasSubstr("<h2>Tasks, body of node 'again' (Loop)</h2>"));
  EXPECT_THAT(html, HasSubstr("node 'inside' (Add)"));
}

TEST_F(PlanFormatsTest, APlanIsLikeItself) {
  EXPECT_EQ(Differences({Model(), Model(), {}}), "the plans are alike\n");
}

TEST_F(PlanFormatsTest, OptionsThatChangeThePlanShowInTheDifference) {
  DiffConfig config{Model(), Model(), {}};
  config.after.engine.disabled_passes = {"fuse_epilogue"};
  const std::string text = Differences(config);
  EXPECT_THAT(text, testing::ContainsRegex("tasks [0-9]+ -> [0-9]+\n"));
  EXPECT_THAT(text, testing::ContainsRegex("\n\\+ node 'bend' \\(Sigmoid\\)"));
  EXPECT_THAT(text, testing::ContainsRegex("\n- node 'right' \\(Conv\\) .*Tanh"));
}

TEST_F(PlanFormatsTest, KernelsOfAnotherInstructionSetShowInTheDifference) {
  DiffConfig config{Model(), Model(), {}};
  config.before.engine.isa = Isa::kBaseline;
  config.after.engine.isa = Isa::kReference;
  EXPECT_THAT(Differences(config), HasSubstr("\n- node 'right' (Conv)"));
  EXPECT_THAT(Differences(config), HasSubstr("\n+ node 'right' (Conv)"));
}

TEST_F(PlanFormatsTest, APlanThatComputesWhatThePlainOneDoesIsSaidToAgree) {
  const auto text = Execute(BisectConfig{Model(), {}, {}});
  ASSERT_TRUE(text.ok()) << text.status();
  // What the convolutions compute goes into their activations at once.
  EXPECT_THAT(*text, testing::MatchesRegex(
                         "[3-9] of [5-9] values were compared, and all agree: the largest "
                         "difference is [0-9.e-]+ of the scale; the other 2 are constants or "
                         "parts of other tasks in the optimized plan\n"));
}

// Where sums are rounded in another order there is a difference, and none is tolerated.
TEST_F(PlanFormatsTest, TheFirstValueThatDiffersIsNamedWithBothTasks) {
  BisectConfig config{Model(), {}, {}};
  config.model.engine.disabled_passes = {"fuse_epilogue"};
  config.model.engine.precision = Precision::kF32Plain;
  config.tolerance = 0;
  const auto text = Execute(config);
  ASSERT_EQ(text.status().code(), absl::StatusCode::kFailedPrecondition) << text.status();
  const std::string said(Message(text.status()));
  EXPECT_THAT(said, HasSubstr("'a' is the first value that differs: by "));
  EXPECT_THAT(said, HasSubstr("plain      node 'left <\"1\">' (Conv): conv.f32 reference"));
  EXPECT_THAT(said, HasSubstr("optimized  node 'left <\"1\">' (Conv): conv.igemm.f32"));
}

}  // namespace
}  // namespace tandem::cli
