// If through the whole engine: branches are plans of their own, compiled at load.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/api/control_flow_testing.h"
#include "tests/support/compare.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using graph::Dim;
using test::Close;
using test::Exact;
using test::ModelBuilder;
using test::RandomFloats;
using test::control_flow::Branch;
using test::control_flow::Choice;
using test::control_flow::ChoiceInputs;
using test::control_flow::Floats;
using test::control_flow::Integers;
using test::control_flow::Load;
using test::control_flow::LoadError;
using test::control_flow::OneThread;
using test::control_flow::RunError;
using test::control_flow::RunModel;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(If, TakesTheBranchThatTheConditionSays) {
  ModelBuilder model = Choice(Branch("Relu", {"x"}), Branch("Neg", {"x"}));
  model.Output("y", DType::kFloat, {Dim::Symbol("N")});
  EXPECT_TRUE(
      Close(RunModel(model, ChoiceInputs(true, Floats({-1, 2})))[0], Floats({0, 2}), Exact()));
  EXPECT_TRUE(
      Close(RunModel(model, ChoiceInputs(false, Floats({-1, 2})))[0], Floats({1, -2}), Exact()));
}

TEST(If, TheConditionMayBeAVectorOfOneElement) {
  ModelBuilder model(17);
  model.Input("c", DType::kBool, {Dim()}).Input("x", DType::kFloat, {2});
  model.Node("If", {"c"}, {"y"})
      .Body("then_branch", Branch("Relu", {"x"}))
      .Body("else_branch", Branch("Neg", {"x"}))
      .Output("y", DType::kFloat, {2});
  const NamedTensor x{"x", Floats({-1, 2})};
  EXPECT_TRUE(Close(RunModel(model, {{"c", Tensor::Of<bool>({1}, {true})}, x})[0], Floats({0, 2}),
                    Exact()));
  EXPECT_THAT(RunError(model, {{"c", Tensor::Of<bool>({2}, {true, true})}, x}),
              HasSubstr("cond has shape [2] where one element is expected"));
}

TEST(If, BranchesOfDifferentExtentsAndRanksAreReadOnwards) {
  const ModelBuilder wide = Branch("Concat", {"x", "x"}, {{"axis", int64_t{0}}});
  ModelBuilder model = Choice(wide, Branch("Relu", {"x"}));
  model.Node("Neg", {"y"}, {"z"}).Output("y").Output("z");
  for (const bool condition : {true, false}) {
    const auto results = RunModel(model, ChoiceInputs(condition, Floats({1, 2})));
    const Tensor y = condition ? Floats({1, 2, 1, 2}) : Floats({1, 2});
    EXPECT_TRUE(Close(results[0], y, Exact()));
    EXPECT_EQ(results[1].shape(), y.shape());
    EXPECT_EQ(results[1].data<float>()[1], -2);
  }
  ModelBuilder ranks = Choice(Branch("Unsqueeze", {"x", "axes"}), Branch("Relu", {"x"}));
  ranks.Initializer("axes", Integers({0})).Output("y");
  EXPECT_EQ(RunModel(ranks, ChoiceInputs(true, Floats({1, 2})))[0].shape(), (Shape{1, 2}));
  EXPECT_EQ(RunModel(ranks, ChoiceInputs(false, Floats({1, 2})))[0].shape(), (Shape{2}));
}

TEST(If, AConditionOnShapesAloneSettlesTheExtents) {
  ModelBuilder model(17);
  model.Input("x", DType::kFloat, {Dim::Symbol("N")});
  model.Initializer("two", Integers({2}))
      .Node("Shape", {"x"}, {"shape"})
      .Node("Equal", {"shape", "two"}, {"c"})
      .Node("If", {"c"}, {"y"})
      .Body("then_branch", Branch("Concat", {"x", "x"}, {{"axis", int64_t{0}}}))
      .Body("else_branch", Branch("Neg", {"x"}))
      .Output("y");
  EXPECT_EQ(RunModel(model, {{"x", Floats({1, 2})}})[0].shape(), (Shape{4}));
  EXPECT_EQ(RunModel(model, {{"x", Floats({1, 2, 3})}})[0].shape(), (Shape{3}));
}

TEST(If, MayReturnACaptureAConstantOrOneValueTwice) {
  ModelBuilder then;
  then.Initializer("k", Floats({7, 8})).Node("Relu", {"x"}, {"r"});
  then.Output("x").Output("k").Output("r").Output("r");
  ModelBuilder other;
  other.Node("Neg", {"x"}, {"n"}).Output("n").Output("n").Output("x").Output("x");
  ModelBuilder model(17);
  model.Input("c", DType::kBool, {}).Input("x", DType::kFloat, {2});
  model.Node("If", {"c"}, {"a", "b", "d", "e"})
      .Body("then_branch", then)
      .Body("else_branch", other);
  for (const char* name : {"a", "b", "d", "e"}) model.Output(name, DType::kFloat, {2});
  const auto yes = RunModel(model, ChoiceInputs(true, Floats({-1, 2})));
  EXPECT_TRUE(Close(yes[0], Floats({-1, 2}), Exact()));
  EXPECT_TRUE(Close(yes[1], Floats({7, 8}), Exact()));
  EXPECT_TRUE(Close(yes[2], Floats({0, 2}), Exact()));
  EXPECT_TRUE(Close(yes[3], Floats({0, 2}), Exact()));
  const auto no = RunModel(model, ChoiceInputs(false, Floats({-1, 2})));
  EXPECT_TRUE(Close(no[1], Floats({1, -2}), Exact()));
  EXPECT_TRUE(Close(no[3], Floats({-1, 2}), Exact()));
}

TEST(If, NestsAndSeesValuesOfAllGraphsAround) {
  ModelBuilder inner_then = Branch("Add", {"h", "x"});
  ModelBuilder then;
  then.Node("Relu", {"x"}, {"h"})
      .Node("If", {"d"}, {"q"})
      .Body("then_branch", inner_then)
      .Body("else_branch", Branch("Sub", {"h", "x"}))
      .Output("q");
  ModelBuilder model = Choice(then, Branch("Neg", {"x"}));
  model.Input("d", DType::kBool, {}).Output("y", DType::kFloat, {Dim::Symbol("N")});
  auto inputs = ChoiceInputs(true, Floats({-1, 2}));
  inputs.push_back({"d", Tensor::Scalar(true)});
  EXPECT_TRUE(Close(RunModel(model, inputs)[0], Floats({-1, 4}), Exact()));
  inputs.back().tensor = Tensor::Scalar(false);
  EXPECT_TRUE(Close(RunModel(model, inputs)[0], Floats({1, 0}), Exact()));
}

TEST(If, NamesAreNoMoreThanNames) {
  ModelBuilder model(17);
  model.Input("c:0", DType::kBool, {}).Input("a:0", DType::kFloat, {2});
  model.Node("If", {"c:0"}, {"y/then_branch"})
      .Body("then_branch", Branch("Relu", {"a:0"}))
      .Body("else_branch", Branch("Neg", {"a:0"}))
      .Output("y/then_branch");
  EXPECT_TRUE(Close(RunModel(model, {{"c:0", Tensor::Scalar(true)}, {"a:0", Floats({-1, 2})}})[0],
                    Floats({0, 2}), Exact()));
}

// The branch that is not taken could not run on these extents.
TEST(If, ABranchThatDoesNotFitIsWrongOnlyWhenItIsTaken) {
  ModelBuilder model(17);
  model.Input("c", DType::kBool, {}).Input("x", DType::kFloat, {Dim::Symbol("N")});
  model.Initializer("two", Floats({1, 2})).Initializer("three", Floats({1, 2, 3}));
  model.Node("If", {"c"}, {"y"}, {}, "choice")
      .Body("then_branch", Branch("Add", {"x", "two"}))
      .Body("else_branch", Branch("Add", {"x", "three"}))
      .Output("y");
  EXPECT_TRUE(
      Close(RunModel(model, ChoiceInputs(true, Floats({1, 1})))[0], Floats({2, 3}), Exact()));
  EXPECT_TRUE(Close(RunModel(model, ChoiceInputs(false, Floats({1, 1, 1})))[0], Floats({2, 3, 4}),
                    Exact()));
  EXPECT_THAT(RunError(model, ChoiceInputs(false, Floats({1, 1}))),
              HasSubstr("node 'choice' (If): "));
}

TEST(If, AKnownConditionCostsNothing) {
  ModelBuilder model(17);
  model.Input("x", DType::kFloat, {Dim::Symbol("N"), 2});
  model.Initializer("c", Tensor::Scalar(true))
      .Initializer("w", RandomFloats({2, 2}, 1))
      .Node("If", {"c"}, {"y"}, {}, "choice")
      .Body("then_branch", Branch("MatMul", {"x", "w"}))
      .Body("else_branch", Branch("Neg", {"x"}))
      .Output("y", DType::kFloat, {Dim::Symbol("N"), 2});
  const auto loaded = Load(model, OneThread());
  ASSERT_NE(loaded, nullptr);
  EXPECT_THAT(loaded->Explain(), AllOf(HasSubstr("(MatMul)"), HasSubstr("1 tasks"),
                                       Not(HasSubstr("(If)")), Not(HasSubstr("(Neg)"))));
  // Nothing is left that would keep requests apart.
  EXPECT_TRUE(loaded->info().joinable);
}

TEST(If, WeightsOfBodiesArePackedAtLoadAndShared) {
  const Engine engine(EngineOptions{.threads = 1, .isa = DetectIsa()});
  ModelBuilder model(17);
  model.Input("c", DType::kBool, {}).Input("x", DType::kFloat, {3, 40});
  model.Initializer("w", RandomFloats({40, 40}, 1))
      .Node("MatMul", {"x", "w"}, {"h"})
      .Node("If", {"c"}, {"y"})
      .Body("then_branch", Branch("MatMul", {"h", "w"}))
      .Body("else_branch", Branch("MatMul", {"x", "w"}))
      .Output("y", DType::kFloat, {3, 40});
  const auto loaded = Load(model, engine);
  ASSERT_NE(loaded, nullptr);
  const EngineStats before = engine.stats();
  EXPECT_EQ(before.packs_built, 1u);
  EXPECT_EQ(before.packs_shared, 2u);
  EXPECT_EQ(loaded->info().pack_bytes, before.pack_bytes);
  EXPECT_EQ(loaded->info().constant_bytes, 0u);
  ASSERT_TRUE(loaded
                  ->Run(std::vector<NamedTensor>{{"c", Tensor::Scalar(true)},
                                                 {"x", RandomFloats({3, 40}, 2)}})
                  .ok());
  EXPECT_EQ(engine.stats().packs_built, 1u);
}

TEST(If, WeightsOfABodysOwnAreHeldAsPacksAlone) {
  const Engine engine(EngineOptions{.threads = 1, .isa = DetectIsa()});
  ModelBuilder then = Branch("MatMul", {"x", "w"});
  then.Initializer("w", RandomFloats({40, 40}, 1));
  ModelBuilder model(17);
  model.Input("c", DType::kBool, {}).Input("x", DType::kFloat, {3, 40});
  model.Node("If", {"c"}, {"y"})
      .Body("then_branch", then)
      .Body("else_branch", Branch("Relu", {"x"}))
      .Output("y", DType::kFloat, {3, 40});
  const auto loaded = Load(model, engine);
  ASSERT_NE(loaded, nullptr);
  EXPECT_GE(loaded->info().pack_bytes, size_t{40 * 40 * 4});
  EXPECT_EQ(engine.stats().constant_bytes, 0u);
  for (const bool condition : {true, false}) {
    const auto result = loaded->Run(std::vector<NamedTensor>{{"c", Tensor::Scalar(condition)},
                                                             {"x", RandomFloats({3, 40}, 2)}});
    ASSERT_TRUE(result.ok()) << result.status();
  }
}

TEST(If, WhatIsWrongWithBranchesIsSaidAtLoad) {
  const auto error = [](const ModelBuilder& then, const ModelBuilder& other) {
    ModelBuilder model = Choice(then, other);
    model.Output("y");
    return LoadError(model);
  };
  const ModelBuilder good = Branch("Relu", {"x"});
  ModelBuilder two = Branch("Relu", {"x"});
  two.Output("x");
  EXPECT_EQ(error(two, good), "node 'choice' (If): then_branch has 2 outputs where the node has 1");
  ModelBuilder formal = Branch("Relu", {"x"});
  formal.Input("i", DType::kInt64, {});
  EXPECT_EQ(error(good, formal),
            "node 'choice' (If): else_branch has 1 inputs where none are expected");
  EXPECT_EQ(error(good, Branch("Cast", {"x"}, {{"to", int64_t{7}}})),
            "node 'choice' (If): output 0 is float in then_branch where it is int64 in "
            "else_branch");
  ModelBuilder missing(17);
  missing.Input("c", DType::kBool, {}).Input("x", DType::kFloat, {2});
  missing.Node("If", {"c"}, {"y"}, {}, "choice").Body("then_branch", good).Output("y");
  EXPECT_EQ(LoadError(missing), "node 'choice' (If): attribute 'else_branch' is missing");
  ModelBuilder condition(17);
  condition.Input("c", DType::kFloat, {}).Input("x", DType::kFloat, {2});
  condition.Node("If", {"c"}, {"y"}, {}, "choice")
      .Body("then_branch", good)
      .Body("else_branch", good)
      .Output("y");
  EXPECT_EQ(LoadError(condition),
            "node 'choice' (If): cond is of type float where bool is expected");
}

TEST(If, EverythingUnsupportedInBodiesIsListedWithItsPath) {
  ModelBuilder inner;
  inner.Node("Frobnicate", {"x"}, {"f"}, {}, "deep").Output("f");
  ModelBuilder then;
  then.Node("If", {"c"}, {"q"}, {}, "nested")
      .Body("then_branch", inner)
      .Body("else_branch", Branch("Relu", {"x"}))
      .Output("q");
  ModelBuilder other;
  other.Node("Relu", {"x"}, {"r"}, {{"alpha", 1.0f}}, "odd").Output("r");
  ModelBuilder model = Choice(then, other);
  model.Output("y");
  EXPECT_EQ(LoadError(model),
            "node 'choice' (If): else_branch: node 'odd' (Relu): opset 17 of Relu has no attribute "
            "'alpha' (1); node 'choice' (If): then_branch: node 'nested' (If): then_branch: node "
            "'deep' (Frobnicate): operator Frobnicate of opset 17 is not supported");
}

}  // namespace
}  // namespace tandem
