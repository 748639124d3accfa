// Loop through the whole engine: its body is a plan of its own, compiled at load.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>

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
using test::control_flow::Floats;
using test::control_flow::Integers;
using test::control_flow::Load;
using test::control_flow::LoadError;
using test::control_flow::LoopBody;
using test::control_flow::LoopInputs;
using test::control_flow::LoopModel;
using test::control_flow::OneThread;
using test::control_flow::RunError;
using test::control_flow::RunModel;
using test::control_flow::Summing;
using testing::HasSubstr;

using Ints = std::vector<int64_t>;

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

}  // namespace
}  // namespace tandem
