// What `tandem explain --diff` says of two models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/commands.h"
#include "tests/support/model_builder.h"
#include "tests/support/random_tensor.h"
#include "tests/support/temp_directory.h"

namespace tandem::cli {
namespace {

using test::ModelBuilder;
using test::RandomFloats;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

constexpr char kAlike[] = "the plans are alike\n";

std::string Diff(const ModelBuilder& before, const ModelBuilder& after) {
  const test::TempDirectory directory;
  DiffConfig config{{.path = directory / "a.onnx"}, {.path = directory / "b.onnx"}, {}};
  config.before.engine.threads = config.after.engine.threads = 1;
  before.WriteFile(config.before.path);
  after.WriteFile(config.after.path);
  const auto text = Execute(config);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

ModelBuilder Difference(const std::string& left, const std::string& right) {
  ModelBuilder model;
  model.Input("x", DType::kFloat, {2, 3})
      .Input("z", DType::kFloat, {2, 3})
      .Node("Sub", {left, right}, {"y"}, {}, "minus")
      .Output("y", DType::kFloat, {2, 3});
  return model;
}

TEST(PlanDiff, ShowsWhichInputsATaskReads) {
  EXPECT_EQ(Diff(Difference("x", "z"), Difference("x", "z")), kAlike);
  EXPECT_THAT(Diff(Difference("x", "z"), Difference("z", "x")),
              AllOf(ContainsRegex("^- node 'minus' .* from x, z\n"), HasSubstr(" from z, x\n")));
}

ModelBuilder Normalized(int64_t axis) {
  ModelBuilder model;
  model.Input("x", DType::kFloat, {3, 3})
      .Node("Softmax", {"x"}, {"y"}, {{"axis", axis}}, "share")
      .Output("y", DType::kFloat, {3, 3});
  return model;
}

TEST(PlanDiff, ShowsAttributes) {
  EXPECT_EQ(Diff(Normalized(0), Normalized(0)), kAlike);
  EXPECT_THAT(Diff(Normalized(0), Normalized(1)),
              AllOf(ContainsRegex("- node 'share' .* axis=0"), HasSubstr(" axis=1")));
}

// The activation becomes a stage of the convolution's epilogue.
ModelBuilder Activated(float alpha, const std::string& first, const std::string& second) {
  ModelBuilder model;
  model.Input("x", DType::kFloat, {1, 16, 8, 8})
      .Input("z", DType::kFloat, {1, 16, 8, 8})
      .Initializer("w", RandomFloats({16, 16, 1, 1}, 1))
      .Node("Conv", {"x", "w"}, {"a"}, {}, "conv")
      .Node("Sub", {first, second}, {"b"}, {}, "minus")
      .Node("LeakyRelu", {"b"}, {"y"}, {{"alpha", alpha}}, "leak")
      .Output("y", DType::kFloat, {1, 16, 8, 8});
  return model;
}

TEST(PlanDiff, ShowsAttributesAndOperandsOfTheEpilogue) {
  EXPECT_EQ(Diff(Activated(0.5f, "a", "z"), Activated(0.5f, "a", "z")), kAlike);
  EXPECT_THAT(Diff(Activated(0.5f, "a", "z"), Activated(0.25f, "a", "z")),
              AllOf(HasSubstr(" LeakyRelu.alpha=0.5"), HasSubstr(" LeakyRelu.alpha=0.25")));
  EXPECT_NE(Diff(Activated(0.5f, "a", "z"), Activated(0.5f, "z", "a")), kAlike);
}

ModelBuilder TwoGemms(int seed_of_first, int seed_of_second) {
  ModelBuilder model;
  model.Input("x", DType::kFloat, {8, 64})
      .Initializer("w", RandomFloats({64, 64}, seed_of_first))
      .Initializer("v", RandomFloats({64, 64}, seed_of_second))
      .Node("Gemm", {"x", "w"}, {"a"}, {}, "first")
      .Node("Gemm", {"x", "v"}, {"b"}, {}, "second")
      .Output("a", DType::kFloat, {8, 64})
      .Output("b", DType::kFloat, {8, 64});
  return model;
}

TEST(PlanDiff, ShowsTheContentOfPackedWeights) {
  EXPECT_EQ(Diff(TwoGemms(1, 2), TwoGemms(1, 2)), kAlike);
  const std::string other = Diff(TwoGemms(1, 2), TwoGemms(1, 3));
  EXPECT_THAT(other, AllOf(HasSubstr("- node 'second' (Gemm)"), HasSubstr("+ node 'second'")));
  EXPECT_THAT(other, testing::Not(HasSubstr("node 'first'")));
  // Both plans hold the same packs.
  const std::string swapped = Diff(TwoGemms(1, 2), TwoGemms(2, 1));
  EXPECT_THAT(swapped, AllOf(HasSubstr("- node 'first' (Gemm)"), HasSubstr("- node 'second'")));
}

ModelBuilder Shifted(float by) {
  ModelBuilder model;
  model.Input("x", DType::kFloat, {2})
      .Initializer("c", Tensor::Of<float>({2}, {by, 1}))
      .Node("Add", {"x", "c"}, {"y"}, {}, "shift")
      .Output("y", DType::kFloat, {2});
  return model;
}

TEST(PlanDiff, ShowsTheContentOfConstantsThatAreReadAsTheyAre) {
  EXPECT_EQ(Diff(Shifted(1), Shifted(1)), kAlike);
  EXPECT_THAT(Diff(Shifted(1), Shifted(2)),
              ContainsRegex("- node 'shift' .* from x, c #[0-9a-f]+"));
}

ModelBuilder OutputsOf(const std::string& first, const std::string& second) {
  ModelBuilder model;
  model.Input("x", DType::kFloat, {2})
      .Node("Relu", {"x"}, {"a"})
      .Node("Neg", {"x"}, {"b"})
      .Output(first, DType::kFloat, {2})
      .Output(second, DType::kFloat, {2});
  return model;
}

TEST(PlanDiff, ShowsTheOrderOfOutputs) {
  EXPECT_EQ(Diff(OutputsOf("a", "b"), OutputsOf("b", "a")), "- outputs: a, b\n+ outputs: b, a\n");
}

ModelBuilder Branch(const std::string& op, const std::vector<std::string>& inputs) {
  ModelBuilder body;
  body.Node(op, inputs, {"r"}, {}, "inner").Output("r");
  return body;
}

ModelBuilder Choice(const ModelBuilder& then_branch, const ModelBuilder& else_branch) {
  ModelBuilder model;
  model.Input("c", DType::kBool, {})
      .Input("x", DType::kFloat, {2})
      .Input("z", DType::kFloat, {2})
      .Node("If", {"c"}, {"y"}, {}, "choice")
      .Body("then_branch", then_branch)
      .Body("else_branch", else_branch)
      .Output("y", DType::kFloat, {2});
  return model;
}

TEST(PlanDiff, ShowsWhatBodiesDoDifferently) {
  const ModelBuilder plus = Choice(Branch("Add", {"x", "z"}), Branch("Neg", {"x"}));
  EXPECT_EQ(Diff(plus, plus), kAlike);
  EXPECT_THAT(Diff(plus, Choice(Branch("Mul", {"x", "z"}), Branch("Neg", {"x"}))),
              AllOf(HasSubstr("  body then_branch of node 'choice' (If)\n    - node 'inner' (Add)"),
                    HasSubstr("\n    + node 'inner' (Mul)")));
  EXPECT_THAT(Diff(plus, Choice(Branch("Add", {"z", "x"}), Branch("Neg", {"x"}))),
              HasSubstr(" from z, x\n"));
}

ModelBuilder Carried(const std::string& first, const std::string& second) {
  ModelBuilder body;
  body.Input("turn", DType::kInt64, {})
      .Input("go", DType::kBool, {})
      .Input("p", DType::kFloat, {2})
      .Input("q", DType::kFloat, {2})
      .Node("Identity", {"go"}, {"go_on"})
      .Node("Neg", {"p"}, {"a"})
      .Node("Relu", {"q"}, {"b"})
      .Output("go_on")
      .Output(first)
      .Output(second);
  ModelBuilder model;
  model.Input("turns", DType::kInt64, {})
      .Input("x", DType::kFloat, {2})
      .Node("Loop", {"turns", "", "x", "x"}, {"y", "z"}, {}, "again")
      .Body("body", body)
      .Output("y", DType::kFloat, {2})
      .Output("z", DType::kFloat, {2});
  return model;
}

TEST(PlanDiff, ShowsTheOrderOfWhatBodiesAnswer) {
  EXPECT_EQ(Diff(Carried("a", "b"), Carried("a", "b")), kAlike);
  EXPECT_THAT(Diff(Carried("a", "b"), Carried("b", "a")),
              HasSubstr("    - outputs: go_on, a, b\n    + outputs: go_on, b, a\n"));
}

TEST(PlanDiff, GoesIntoBodiesOfBodies) {
  const auto nested = [](const std::string& op) {
    ModelBuilder body;
    body.Node("If", {"c"}, {"r"}, {}, "deep")
        .Body("then_branch", Branch(op, {"x", "z"}))
        .Body("else_branch", Branch("Neg", {"x"}))
        .Output("r");
    return Choice(body, Branch("Neg", {"x"}));
  };
  EXPECT_EQ(Diff(nested("Add"), nested("Add")), kAlike);
  EXPECT_THAT(Diff(nested("Add"), nested("Mul")), HasSubstr("\n        - node 'inner' (Add)"));
}

}  // namespace
}  // namespace tandem::cli
