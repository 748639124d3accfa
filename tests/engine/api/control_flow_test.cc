// If, Loop and Scan through the whole engine: bodies are plans of their own, compiled at load.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>

#include "engine/engine.h"
#include "tests/support/compare.h"
#include "tests/support/model_builder.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using graph::Dim;
using test::Close;
using test::Exact;
using test::ModelBuilder;
using test::RandomFloats;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Ints = std::vector<int64_t>;

Tensor Floats(std::initializer_list<float> values) {
  return Tensor::Of<float>({static_cast<int64_t>(values.size())}, values);
}
Tensor Integers(std::initializer_list<int64_t> values) {
  return Tensor::Of<int64_t>({static_cast<int64_t>(values.size())}, values);
}

std::shared_ptr<const Model> Load(const ModelBuilder& builder, const Engine& engine) {
  const auto model = engine.LoadBytes(builder.Serialize());
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *model : nullptr;
}

const Engine& OneThread() {
  static const Engine engine(EngineOptions{.threads = 1});
  return engine;
}

std::string LoadError(const ModelBuilder& builder) {
  const auto model = OneThread().LoadBytes(builder.Serialize());
  return model.ok() ? "no error" : std::string(Message(model.status()));
}

// The outputs of one run, in the model's order; the test fails when there are none.
std::vector<Tensor> RunModel(const ModelBuilder& builder, const std::vector<NamedTensor>& inputs) {
  const auto model = Load(builder, OneThread());
  if (model == nullptr) return std::vector<Tensor>(8, Floats({}));
  const auto result = model->Run(inputs);
  EXPECT_TRUE(result.ok()) << result.status();
  std::vector<Tensor> outputs;
  if (result.ok()) {
    for (const NamedTensor& output : result->outputs) outputs.push_back(output.tensor);
  }
  outputs.resize(8, Floats({}));
  return outputs;
}

std::string RunError(const ModelBuilder& builder, const std::vector<NamedTensor>& inputs) {
  const auto model = Load(builder, OneThread());
  if (model == nullptr) return "";
  const auto result = model->Run(inputs);
  return result.ok() ? "no error" : std::string(Message(result.status()));
}

// r = op(inputs), for a body without inputs.
ModelBuilder Branch(const std::string& op, const std::vector<std::string>& inputs,
                    const graph::Attributes& attributes = {}) {
  ModelBuilder body;
  body.Node(op, inputs, {"r"}, attributes).Output("r");
  return body;
}

// Inputs c and x, y = If(c) of these branches.
ModelBuilder Choice(const ModelBuilder& then, const ModelBuilder& other) {
  ModelBuilder model(17);
  model.Input("c", DType::kBool, {}).Input("x", DType::kFloat, {Dim::Symbol("N")});
  model.Node("If", {"c"}, {"y"}, {}, "choice").Body("then_branch", then).Body("else_branch", other);
  return model;
}

std::vector<NamedTensor> ChoiceInputs(bool condition, const Tensor& x) {
  return {{"c", Tensor::Scalar(condition)}, {"x", x}};
}

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

// Inputs M, c and carried values; the body's inputs are i, go and names of its own.
ModelBuilder LoopModel(const ModelBuilder& body, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs) {
  ModelBuilder model(17);
  model.Input("M", DType::kInt64, {}).Input("c", DType::kBool, {});
  model.Input("x", DType::kFloat, {Dim::Symbol("N")});
  model.Node("Loop", inputs, outputs, {}, "loop").Body("body", body);
  for (const std::string& output : outputs) model.Output(output);
  return model;
}

std::vector<NamedTensor> LoopInputs(int64_t trips, const Tensor& x, bool condition = true) {
  return {{"M", Tensor::Scalar(trips)}, {"c", Tensor::Scalar(condition)}, {"x", x}};
}

ModelBuilder LoopBody(const std::vector<std::string>& carried) {
  ModelBuilder body;
  body.Input("i", DType::kInt64, {}).Input("go", DType::kBool, {});
  for (const std::string& name : carried) body.Input(name, DType::kFloat, {Dim()});
  return body;
}

// a -> a + x, which the scan output shows, too.
ModelBuilder Summing() {
  ModelBuilder body = LoopBody({"a"});
  body.Node("Add", {"a", "x"}, {"s"}).Node("Identity", {"s"}, {"show"});
  body.Node("Identity", {"go"}, {"on"}).Output("on").Output("s").Output("show");
  return body;
}

TEST(Loop, RunsAsOftenAsItIsToldAndStacksResults) {
  const ModelBuilder model = LoopModel(Summing(), {"M", "c", "x"}, {"last", "all"});
  for (const int64_t trips : {1, 2, 4, 5, 9, 100}) {
    const auto y = RunModel(model, LoopInputs(trips, Floats({1, 2})));
    EXPECT_TRUE(Close(y[0], Floats({float(trips + 1), float(2 * trips + 2)}), Exact()));
    ASSERT_EQ(y[1].shape(), (Shape{trips, 2}));
    for (int64_t i = 0; i < trips; ++i) EXPECT_EQ(y[1].data<float>()[2 * i], float(i + 2));
  }
}

TEST(Loop, WithoutAnIterationThereAreInitialValuesAndNoRows) {
  const ModelBuilder model = LoopModel(Summing(), {"M", "c", "x"}, {"last", "all"});
  for (const auto& inputs : {LoopInputs(0, Floats({1, 2})), LoopInputs(-3, Floats({1, 2})),
                             LoopInputs(9, Floats({1, 2}), false)}) {
    const auto y = RunModel(model, inputs);
    EXPECT_TRUE(Close(y[0], Floats({1, 2}), Exact()));
    EXPECT_EQ(y[1].shape()[0], 0);
    EXPECT_EQ(y[1].shape().rank(), 2);
  }
}

// Stops when i reaches 3; with every trip count as large as can be.
TEST(Loop, AConditionEndsItAndNothingIsAllocatedForTheTripsThatDoNotCome) {
  ModelBuilder body = LoopBody({"a"});
  body.Initializer("three", Tensor::Scalar<int64_t>(3))
      .Node("Add", {"a", "x"}, {"s"})
      .Node("Less", {"i", "three"}, {"on"});
  body.Output("on").Output("s").Output("s");
  const ModelBuilder model = LoopModel(body, {"M", "c", "x"}, {"last", "all"});
  const auto y =
      RunModel(model, LoopInputs(std::numeric_limits<int64_t>::max(), Floats({1, 1, 1})));
  EXPECT_TRUE(Close(y[0], Floats({5, 5, 5}), Exact()));
  EXPECT_EQ(y[1].shape(), (Shape{4, 3}));
  const ModelBuilder endless = LoopModel(body, {"", "c", "x"}, {"last", "all"});
  EXPECT_TRUE(Close(RunModel(endless, LoopInputs(0, Floats({1})))[0], Floats({5}), Exact()));
  // Without cond, what the body says of going on does not count.
  const ModelBuilder counted = LoopModel(body, {"M", "", "x"}, {"last", "all"});
  EXPECT_TRUE(Close(RunModel(counted, LoopInputs(6, Floats({1})))[0], Floats({7}), Exact()));
}

TEST(Loop, CarriedValuesMayGrow) {
  ModelBuilder body = LoopBody({"a"});
  body.Node("Concat", {"a", "x"}, {"s"}, {{"axis", int64_t{0}}});
  body.Node("Identity", {"go"}, {"on"}).Output("on").Output("s");
  ModelBuilder model = LoopModel(body, {"M", "c", "x"}, {"last"});
  model.Node("Neg", {"last"}, {"negative"}).Output("negative");
  const auto y = RunModel(model, LoopInputs(3, Floats({1, 2})));
  EXPECT_TRUE(Close(y[0], Floats({1, 2, 1, 2, 1, 2, 1, 2}), Exact()));
  EXPECT_EQ(y[1].shape(), (Shape{8}));
}

// a, b -> b, a + b: each value is what another was before.
TEST(Loop, CarriedValuesMayChangePlaces) {
  ModelBuilder body = LoopBody({"a", "b"});
  body.Node("Add", {"a", "b"}, {"s"}).Node("Identity", {"go"}, {"on"});
  body.Output("on").Output("b").Output("s").Output("a");
  const ModelBuilder model = LoopModel(body, {"M", "c", "x", "x"}, {"a", "b", "all"});
  const auto y = RunModel(model, LoopInputs(10, Floats({1})));
  EXPECT_TRUE(Close(y[0], Floats({89}), Exact()));
  EXPECT_TRUE(Close(y[1], Floats({144}), Exact()));
  EXPECT_TRUE(Close(y[2].Reshaped({10}), Floats({1, 1, 2, 3, 5, 8, 13, 21, 34, 55}), Exact()));
}

TEST(Loop, ScalarsMayBeDeclaredAsVectorsOfOneElement) {
  ModelBuilder body;
  body.Input("i", DType::kInt64, {1}).Input("go", DType::kBool, {1});
  body.Input("a", DType::kFloat, {Dim()});
  body.Node("Cast", {"i"}, {"f"}, {{"to", int64_t{1}}})
      .Node("Add", {"a", "f"}, {"s"})
      .Node("Identity", {"go"}, {"on"});
  body.Output("on").Output("s").Output("i");
  ModelBuilder model(17);
  model.Input("M", DType::kInt64, {1}).Input("c", DType::kBool, {1});
  model.Input("x", DType::kFloat, {2});
  model.Node("Loop", {"M", "c", "x"}, {"y", "steps"}).Body("body", body);
  model.Output("y").Output("steps");
  const auto y = RunModel(
      model, {{"M", Integers({4})}, {"c", Tensor::Of<bool>({1}, {true})}, {"x", Floats({0, 1})}});
  EXPECT_TRUE(Close(y[0], Floats({6, 7}), Exact()));
  EXPECT_TRUE(Close(y[1], Tensor::Of<int64_t>({4, 1}, {0, 1, 2, 3}), Exact()));
}

TEST(Loop, Nests) {
  ModelBuilder inner = LoopBody({"b"});
  inner.Node("Add", {"b", "a"}, {"t"}).Node("Identity", {"go"}, {"inner_on"});
  inner.Output("inner_on").Output("t");
  ModelBuilder body = LoopBody({"a"});
  body.Node("Loop", {"M", "c", "x"}, {"s"}).Body("body", inner);
  body.Node("Identity", {"go"}, {"on"}).Output("on").Output("s");
  const ModelBuilder model = LoopModel(body, {"M", "c", "x"}, {"last"});
  // Each outer iteration: a -> x + 3 a.
  EXPECT_TRUE(Close(RunModel(model, LoopInputs(3, Floats({1})))[0], Floats({40}), Exact()));
}

TEST(Loop, StopsBetweenIterations) {
  ModelBuilder body = LoopBody({"a"});
  body.Output("go").Output("a");
  const auto model = Load(LoopModel(body, {"", "c", "x"}, {"last"}), OneThread());
  ASSERT_NE(model, nullptr);
  int asked = 0;
  const auto y =
      model->Run(LoopInputs(0, Floats({1})), {.stopped = [&asked] { return ++asked > 1000; }});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(std::string(Message(y.status())), HasSubstr("node 'loop' (Loop)"));
}

// How often it runs is the client's choice: what piles up counts towards the limit of a run.
TEST(Loop, ResultsThatPileUpEndAtTheLimitOfARun) {
  EngineOptions options;
  options.threads = 1;
  options.max_run_bytes = 1 << 20;
  const Engine engine(options);
  const auto model = Load(LoopModel(Summing(), {"M", "c", "x"}, {"last", "all"}), engine);
  ASSERT_NE(model, nullptr);
  EXPECT_TRUE(model->Run(LoopInputs(1000, RandomFloats({16}, 1))).ok());
  const auto y = model->Run(LoopInputs(std::numeric_limits<int64_t>::max(), RandomFloats({16}, 1)));
  EXPECT_EQ(y.status().code(), absl::StatusCode::kResourceExhausted) << y.status();
}

// A body's run counts on top of what the runs around it have taken.
TEST(Loop, BodiesShareTheLimitOfTheirRun) {
  ModelBuilder body = LoopBody({"a"});  // repeats x, and lets it go
  body.Node("Expand", {"x", "extents"}, {"copies"});
  body.Node("ReduceSum", {"copies"}, {"sum"}, {{"keepdims", int64_t{0}}});
  body.Node("Add", {"a", "sum"}, {"s"}).Output("go").Output("s").Output("s");
  const auto status = [&](size_t limit) {
    EngineOptions options;
    options.threads = 1;
    options.max_run_bytes = limit;
    const Engine engine(options);
    ModelBuilder model = LoopModel(body, {"M", "c", "x"}, {"last", "all"});
    model.Initializer("extents", Integers({1000, 16}))
        .Node("Expand", {"x", "extents"}, {"outer"})
        .Output("outer");
    const auto loaded = Load(model, engine);
    return loaded == nullptr ? absl::UnknownError("")
                             : loaded->Run(LoopInputs(3, RandomFloats({16}, 1))).status();
  };
  constexpr size_t kCopies = 1000 * 16 * sizeof(float);
  EXPECT_TRUE(status(3 * kCopies).ok()) << status(3 * kCopies);
  const Status refused = status(kCopies + kCopies / 2);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
}

TEST(Loop, ARunSeesNothingOfAnother) {
  const Engine engine(EngineOptions{.threads = 4});
  const auto model = Load(LoopModel(Summing(), {"M", "c", "x"}, {"last", "all"}), engine);
  ASSERT_NE(model, nullptr);
  std::atomic<int> wrong = 0;
  engine.parallel().For(64, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto y = model->Run(LoopInputs(i, RandomFloats({i % 5 + 1}, 3, 1, 2)));
      if (!y.ok() || y->outputs[1].tensor.shape()[0] != i) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Loop, ResultsOfDifferentExtentsCannotBeStacked) {
  ModelBuilder body = LoopBody({"a"});
  body.Node("Concat", {"a", "x"}, {"s"}, {{"axis", int64_t{0}}});
  body.Output("go").Output("s").Output("s");
  EXPECT_THAT(
      RunError(LoopModel(body, {"M", "c", "x"}, {"last", "all"}), LoopInputs(2, Floats({1}))),
      HasSubstr("node 'loop' (Loop): an iteration gives a result of shape [3] where those "
                "before gave [2]"));
}

TEST(Loop, WhatIsWrongIsSaidAtLoad) {
  EXPECT_EQ(LoadError(LoopModel(Summing(), {"", "", "x"}, {"last", "all"})),
            "node 'loop' (Loop): it has neither M nor cond and would never end");
  EXPECT_EQ(LoadError(LoopModel(Summing(), {"M", "c", "x"}, {"last"})),
            "node 'loop' (Loop): body has 3 outputs where 2 are expected: the condition and the "
            "node's 1");
  EXPECT_THAT(
      LoadError(LoopModel(Summing(), {"M", "c", "x", "x"}, {"a", "b"})),
      HasSubstr("body has 3 inputs where 4 are expected: iteration, condition and 2 carried "
                "values"));
  EXPECT_THAT(LoadError(LoopModel(Summing(), {"M", "c", ""}, {"a", "b"})),
              HasSubstr("input 2, a carried value, is omitted"));
  ModelBuilder other = LoopBody({"a"});
  other.Node("Cast", {"a"}, {"s"}, {{"to", int64_t{7}}}).Output("go").Output("s");
  EXPECT_EQ(LoadError(LoopModel(other, {"M", "c", "x"}, {"last"})),
            "node 'loop' (Loop): body: output 1 is int64 where the value it carries on is float");
  ModelBuilder declared;
  declared.Input("i", DType::kInt64, {}).Input("go", DType::kBool, {});
  declared.Input("a", DType::kDouble, {2}).Output("go").Output("a");
  EXPECT_EQ(LoadError(LoopModel(declared, {"M", "c", "x"}, {"last"})),
            "node 'loop' (Loop): body: input 'a' is declared as double but is float");
  ModelBuilder inside = LoopBody({"a"});
  inside.Node("Transpose", {"a"}, {"s"}, {{"perm", Ints{1, 0}}}, "turn").Output("go").Output("s");
  EXPECT_THAT(LoadError(LoopModel(inside, {"M", "c", "x"}, {"last"})),
              HasSubstr("node 'loop' (Loop): body: node 'turn' (Transpose): "));
}

// Two states and one scan input: sums and products, and their difference at each step.
ModelBuilder ScanBody() {
  ModelBuilder body;
  body.Input("s", DType::kFloat, {Dim()}).Input("p", DType::kFloat, {Dim()});
  body.Input("v", DType::kFloat, {Dim()});
  body.Node("Add", {"s", "v"}, {"s2"})
      .Node("Mul", {"p", "v"}, {"p2"})
      .Node("Sub", {"p2", "s2"}, {"d"});
  body.Output("s2").Output("p2").Output("d");
  return body;
}

ModelBuilder ScanModel(const ModelBuilder& body, graph::Attributes attributes,
                       const graph::DimVector& x, int opset = 17) {
  attributes["num_scan_inputs"] = int64_t{1};
  ModelBuilder model(opset);
  model.Input("zero", DType::kFloat, {Dim()}).Input("one", DType::kFloat, {Dim()});
  model.Input("x", DType::kFloat, x);
  model.Node("Scan", {"zero", "one", "x"}, {"sum", "product", "all"}, attributes, "scan")
      .Body("body", body);
  model.Output("sum").Output("product").Output("all");
  return model;
}

std::vector<NamedTensor> ScanInputs(const Tensor& x) {
  return {{"zero", Floats({0, 0})}, {"one", Floats({1, 1})}, {"x", x}};
}

TEST(Scan, WalksAlongTheFirstAxis) {
  const ModelBuilder model = ScanModel(ScanBody(), {}, {Dim::Symbol("T"), 2});
  const auto y = RunModel(model, ScanInputs(Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6})));
  EXPECT_TRUE(Close(y[0], Floats({9, 12}), Exact()));
  EXPECT_TRUE(Close(y[1], Floats({15, 48}), Exact()));
  EXPECT_TRUE(Close(y[2], Tensor::Of<float>({3, 2}, {0, 0, -1, 2, 6, 36}), Exact()));
}

TEST(Scan, OtherAxesAndDirections) {
  const Tensor x = Tensor::Of<float>({2, 3}, {1, 3, 5, 2, 4, 6});
  for (const int64_t axis : {1, -1}) {
    const ModelBuilder model =
        ScanModel(ScanBody(), {{"scan_input_axes", Ints{axis}}, {"scan_output_axes", Ints{axis}}},
                  {2, Dim::Symbol("T")});
    const auto y = RunModel(model, ScanInputs(x));
    EXPECT_TRUE(Close(y[1], Floats({15, 48}), Exact()));
    EXPECT_TRUE(Close(y[2], Tensor::Of<float>({2, 3}, {0, -1, 6, 0, 2, 36}), Exact()));
  }
  const ModelBuilder back = ScanModel(ScanBody(),
                                      {{"scan_input_axes", Ints{1}},
                                       {"scan_input_directions", Ints{1}},
                                       {"scan_output_directions", Ints{1}}},
                                      {2, Dim::Symbol("T")});
  const auto y = RunModel(back, ScanInputs(x));
  EXPECT_TRUE(Close(y[0], Floats({9, 12}), Exact()));
  EXPECT_TRUE(Close(y[2], Tensor::Of<float>({3, 2}, {6, 36, 7, 14, 0, 0}), Exact()));
}

TEST(Scan, NoStepsLeaveTheStates) {
  const auto y = RunModel(ScanModel(ScanBody(), {}, {Dim::Symbol("T"), 2}),
                          ScanInputs(RandomFloats({0, 2}, 1)));
  EXPECT_TRUE(Close(y[0], Floats({0, 0}), Exact()));
  EXPECT_TRUE(Close(y[1], Floats({1, 1}), Exact()));
  EXPECT_EQ(y[2].shape(), (Shape{0, 2}));
}

TEST(Scan, WithoutStatesItIsAMap) {
  ModelBuilder body;
  body.Input("v", DType::kFloat, {Dim()}).Node("Mul", {"v", "k"}, {"r"}).Output("r");
  ModelBuilder model(17);
  model.Input("x", DType::kFloat, {4, 2}).Input("k", DType::kFloat, {2});
  model.Node("Scan", {"x"}, {"y"}, {{"num_scan_inputs", int64_t{1}}}).Body("body", body);
  model.Output("y", DType::kFloat, {4, 2});
  const Tensor x = RandomFloats({4, 2}, 1);
  const Tensor y = RunModel(model, {{"x", x}, {"k", Floats({2, 4})}})[0];
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(y.data<float>()[i], x.data<float>()[i] * (i % 2 == 0 ? 2.0f : 4.0f));
  }
}

// The extents of results are known only when a step has been run.
TEST(Scan, ResultsWhoseExtentsDependOnData) {
  ModelBuilder body;
  body.Input("v", DType::kFloat, {Dim()}).Node("Expand", {"v", "shape"}, {"r"}).Output("r");
  ModelBuilder model(17);
  model.Input("x", DType::kFloat, {3, 1}).Input("shape", DType::kInt64, {1});
  model
      .Node("Scan", {"x"}, {"y"}, {{"num_scan_inputs", int64_t{1}}, {"scan_output_axes", Ints{-1}}})
      .Body("body", body);
  model.Output("y");
  const auto y =
      RunModel(model, {{"x", Tensor::Of<float>({3, 1}, {1, 2, 3})}, {"shape", Integers({2})}});
  EXPECT_TRUE(Close(y[0], Tensor::Of<float>({2, 3}, {1, 2, 3, 1, 2, 3}), Exact()));
}

TEST(Scan, OpsetEightHasABatchAndLengths) {
  ModelBuilder body;
  body.Input("s", DType::kFloat, {1}).Input("v", DType::kFloat, {1});
  body.Node("Add", {"s", "v"}, {"s2"}).Node("Identity", {"s2"}, {"r"}).Output("s2").Output("r");
  for (const bool lengths : {false, true}) {
    for (const bool reverse : {false, true}) {
      graph::Attributes attributes = {{"num_scan_inputs", int64_t{1}}};
      if (reverse) attributes["directions"] = Ints{1};
      ModelBuilder model(8);
      model.Input("n", DType::kInt64, {2}).Input("zero", DType::kFloat, {2, 1});
      model.Input("x", DType::kFloat, {2, 3, 1});
      model.Node("Scan", {lengths ? "n" : "", "zero", "x"}, {"sum", "all"}, attributes)
          .Body("body", body);
      model.Output("sum").Output("all");
      const auto y = RunModel(model, {{"n", Integers({3, 2})},
                                      {"zero", Tensor::Of<float>({2, 1}, {0, 10})},
                                      {"x", Tensor::Of<float>({2, 3, 1}, {1, 2, 3, 4, 5, 6})}});
      const float second = lengths ? 19.0f : 25.0f;
      EXPECT_TRUE(Close(y[0], Tensor::Of<float>({2, 1}, {6, second}), Exact()));
      Tensor all = Tensor::Of<float>({2, 3, 1}, {1, 3, 6, 14, 19, lengths ? 0.0f : 25.0f});
      if (reverse && lengths) all = Tensor::Of<float>({2, 3, 1}, {3, 5, 6, 15, 19, 0});
      if (reverse && !lengths) all = Tensor::Of<float>({2, 3, 1}, {3, 5, 6, 16, 21, 25});
      EXPECT_TRUE(Close(y[1], all, Exact())) << lengths << reverse;
    }
  }
}

TEST(Scan, OpsetEightWithoutItemsOrWithOutputsThatNobodyWants) {
  ModelBuilder body;
  body.Input("s", DType::kFloat, {Dim()}).Input("v", DType::kFloat, {Dim()});
  body.Node("Add", {"s", "v"}, {"s2"}).Node("Identity", {"s2"}, {"r"}).Output("s2").Output("r");
  for (const std::string sum : {"sum", ""}) {
    ModelBuilder model(8);
    model.Input("zero", DType::kFloat, {Dim(), Dim()});
    model.Input("x", DType::kFloat, {Dim(), Dim(), Dim()});
    model.Node("Scan", {"", "zero", "x"}, {sum, "all"}, {{"num_scan_inputs", int64_t{1}}})
        .Body("body", body)
        .Output("all");
    const auto y = RunModel(model, {{"zero", Tensor::Of<float>({2, 1}, {0, 10})},
                                    {"x", Tensor::Of<float>({2, 2, 1}, {1, 2, 3, 4})}});
    EXPECT_TRUE(Close(y[0], Tensor::Of<float>({2, 2, 1}, {1, 3, 13, 17}), Exact()));
    const auto none =
        RunModel(model, {{"zero", RandomFloats({0, 1}, 1)}, {"x", RandomFloats({0, 2, 1}, 1)}});
    EXPECT_EQ(none[0].shape(), (Shape{0, 2, 1}));
  }
}

// Extents are symbols: an item without steps has results of no shape of its own.
TEST(Scan, OpsetEightGivesZerosForAnItemWithoutSteps) {
  ModelBuilder body;
  body.Input("s", DType::kFloat, {Dim()}).Input("v", DType::kFloat, {Dim()});
  body.Node("Add", {"s", "v"}, {"s2"}).Node("Identity", {"s2"}, {"r"}).Output("s2").Output("r");
  ModelBuilder model(8);
  model.Input("n", DType::kInt64, {Dim()}).Input("zero", DType::kFloat, {Dim(), Dim()});
  model.Input("x", DType::kFloat, {Dim(), Dim(), Dim()});
  model.Node("Scan", {"n", "zero", "x"}, {"sum", "all"}, {{"num_scan_inputs", int64_t{1}}})
      .Body("body", body)
      .Output("sum")
      .Output("all");
  const Tensor zero = Tensor::Of<float>({2, 2}, {0, 1, 2, 3});
  const Tensor x = Tensor::Of<float>({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto run = [&](std::initializer_list<int64_t> lengths) {
    return RunModel(model, {{"n", Tensor::Of<int64_t>({2}, lengths)}, {"zero", zero}, {"x", x}});
  };
  for (int repeat = 0; repeat < 10; ++repeat) {  // whatever memory holds before
    const auto second = run({0, 2});
    EXPECT_TRUE(Close(second[0], Tensor::Of<float>({2, 2}, {0, 1, 14, 17}), Exact()));
    EXPECT_TRUE(
        Close(second[1], Tensor::Of<float>({2, 2, 2}, {0, 0, 0, 0, 7, 9, 14, 17}), Exact()));
    const auto first = run({1, 0});
    EXPECT_TRUE(Close(first[0], Tensor::Of<float>({2, 2}, {1, 3, 2, 3}), Exact()));
    EXPECT_TRUE(Close(first[1], Tensor::Of<float>({2, 2, 2}, {1, 3, 0, 0, 0, 0, 0, 0}), Exact()));
  }
  EXPECT_TRUE(Close(run({0, 0})[0], zero, Exact()));
}

TEST(Scan, OpsetEightNeedsResultsOfOneShapeFromAllItems) {
  ModelBuilder body;  // as many elements as v says
  body.Input("s", DType::kFloat, {Dim()}).Input("v", DType::kInt64, {1});
  body.Node("Expand", {"s", "v"}, {"r"}).Node("Identity", {"s"}, {"t"}).Output("t").Output("r");
  ModelBuilder model(8);
  model.Input("zero", DType::kFloat, {Dim(), Dim()}).Input("x", DType::kInt64, {Dim(), Dim(), 1});
  model.Node("Scan", {"", "zero", "x"}, {"sum", "all"}, {{"num_scan_inputs", int64_t{1}}}, "scan")
      .Body("body", body)
      .Output("sum")
      .Output("all");
  const Tensor zero = Tensor::Of<float>({2, 1}, {0, 0});
  const auto error = [&](int64_t first, int64_t second) {
    return RunError(model,
                    {{"zero", zero}, {"x", Tensor::Of<int64_t>({2, 1, 1}, {first, second})}});
  };
  EXPECT_THAT(error(5, 1),
              HasSubstr("output 1 of item 1 has shape [1,1] where other items have [1,5]"));
  EXPECT_THAT(error(1, 5), HasSubstr("has shape [1,5] where other items have [1,1]"));
}

TEST(Scan, WhatIsWrongIsSaidAtLoadOrNamesTheNode) {
  const auto error = [](const graph::Attributes& attributes) {
    return LoadError(ScanModel(ScanBody(), attributes, {Dim::Symbol("T"), 2}));
  };
  EXPECT_EQ(error({{"scan_input_axes", Ints{0, 1}}}),
            "node 'scan' (Scan): attribute 'scan_input_axes' has 2 elements where 1 are expected");
  EXPECT_EQ(error({{"scan_output_directions", Ints{2}}}),
            "node 'scan' (Scan): attribute 'scan_output_directions' holds 2 where 0 or 1 is "
            "expected");
  EXPECT_THAT(error({{"scan_input_axes", Ints{2}}}), HasSubstr("the axis of scan input 0"));
  EXPECT_THAT(error({{"directions", Ints{0}}}), HasSubstr("no attribute 'directions'"));
  ModelBuilder grows;
  grows.Input("s", DType::kFloat, {Dim()}).Input("p", DType::kFloat, {Dim()});
  grows.Input("v", DType::kFloat, {Dim()});
  grows.Node("Concat", {"s", "v"}, {"t"}, {{"axis", int64_t{0}}});
  grows.Output("t").Output("p").Output("v");
  EXPECT_THAT(
      RunError(ScanModel(grows, {}, {Dim::Symbol("T"), 2}), ScanInputs(RandomFloats({3, 2}, 1))),
      HasSubstr("node 'scan' (Scan): body: state 0 has shape [4] after a step where it has [2]"));
}

TEST(ControlFlow, OtherTypesThanTensorsAreRefusedByName) {
  ModelBuilder then;
  then.Node("SequenceConstruct", {"x"}, {"s"}, {}, "make").Output("s");
  ModelBuilder model = Choice(then, then);
  model.Output("y");
  EXPECT_THAT(LoadError(model), AllOf(HasSubstr("then_branch: node 'make' (SequenceConstruct): "
                                                "operator SequenceConstruct of opset 17 is not "
                                                "supported"),
                                      HasSubstr("else_branch: node 'make'")));
}

TEST(ControlFlow, RequestsOfAModelWithBodiesDoNotJoin) {
  ModelBuilder body = LoopBody({"a"});
  body.Node("Relu", {"a"}, {"r"}).Output("go").Output("r");
  ModelBuilder model(17);
  model.Input("x", DType::kFloat, {Dim::Symbol("N"), 2});
  model.Initializer("M", Tensor::Scalar<int64_t>(2));
  model.Node("Loop", {"M", "", "x"}, {"y"}, {}, "loop").Body("body", body);
  model.Output("y", DType::kFloat, {Dim::Symbol("N"), 2});
  const auto loaded = Load(model, OneThread());
  ASSERT_NE(loaded, nullptr);
  EXPECT_FALSE(loaded->info().joinable);
  EXPECT_THAT(loaded->info().not_joinable_reason, HasSubstr("node 'loop' (Loop)"));
}

TEST(ControlFlow, ExplainShowsBodies) {
  const auto model = Load(LoopModel(Summing(), {"M", "c", "x"}, {"last", "all"}), OneThread());
  ASSERT_NE(model, nullptr);
  EXPECT_THAT(model->Explain(), AllOf(HasSubstr("node 'loop' (Loop): loop"), HasSubstr("body body"),
                                      HasSubstr("(Add): elementwise.add")));
}

}  // namespace
}  // namespace tandem
