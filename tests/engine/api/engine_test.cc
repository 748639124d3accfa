// The engine through its public interface: what a server sees of it.
#include "engine/engine.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "tests/engine/api/small_networks.h"
#include "tests/support/compare.h"
#include "tests/support/model_builder.h"
#include "tests/support/random_tensor.h"
#include "tests/support/temp_directory.h"

namespace tandem {
namespace {

using test::Close;
using test::Exact;
using test::ModelBuilder;
using test::RandomFloats;
using test::Siamese;
using test::SmallCnn;
using testing::HasSubstr;

const graph::Dim kN = graph::Dim::Symbol("N");

Engine MakeEngine(int threads, bool towers = true) {
  EngineOptions options;
  options.threads = threads;
  options.towers = towers;
  return Engine(options);
}

StatusOr<Tensor> RunOne(const Model& model, const std::vector<NamedTensor>& inputs) {
  ASSIGN_OR_RETURN(RunResult result, model.Run(inputs));
  return result.outputs.at(0).tensor;
}

TEST(Engine, RunsAConvolutionalNetwork) {
  const Engine engine = MakeEngine(1);
  const auto model = engine.LoadBytes(SmallCnn(kN));
  ASSERT_TRUE(model.ok()) << model.status();
  EngineOptions options;
  options.prepack = false;
  options.threads = 1;
  const auto plain = Engine(options).LoadBytes(SmallCnn(kN));
  ASSERT_TRUE(plain.ok()) << plain.status();
  const Tensor x = RandomFloats({2, 3, 8, 8}, 7);
  const auto y = RunOne(**model, {{"x", x}});
  const auto expected = RunOne(**plain, {{"x", x}});
  ASSERT_TRUE(y.ok()) << y.status();
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_EQ(y->shape(), Shape({2, 5}));
  EXPECT_TRUE(Close(*y, *expected, test::Reduction(112)));
}

TEST(Engine, ABatchHasTheBitsOfItsItemsAtAnyThreadCount) {
  const Tensor x = RandomFloats({7, 3, 8, 8}, 11);
  for (const int threads : {1, 2, 4}) {
    const Engine engine = MakeEngine(threads);
    const auto model = engine.LoadBytes(SmallCnn(kN));
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_TRUE((*model)->info().joinable) << (*model)->info().not_joinable_reason;
    const auto batch = RunOne(**model, {{"x", x}});
    ASSERT_TRUE(batch.ok()) << batch.status();
    for (int64_t i = 0; i < 7; ++i) {
      const auto one = RunOne(**model, {{"x", x.Rows(i, i + 1)}});
      ASSERT_TRUE(one.ok()) << one.status();
      EXPECT_TRUE(Close(*one, batch->Rows(i, i + 1), Exact())) << "item " << i;
    }
  }
}

TEST(Engine, JoinedRequestsHaveTheBitsOfSingleOnes) {
  const Engine engine = MakeEngine(2);
  const auto model = engine.LoadBytes(SmallCnn(kN));
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<BatchItem> items;
  for (const int64_t rows : {1, 3, 2}) {
    items.push_back({{{"x", RandomFloats({rows, 3, 8, 8}, static_cast<uint32_t>(rows))}}, {}});
  }
  const auto results = (*model)->RunBatch(items, {});
  ASSERT_TRUE(results.ok()) << results.status();
  for (size_t i = 0; i < items.size(); ++i) {
    const auto alone = RunOne(**model, items[i].inputs);
    ASSERT_TRUE(alone.ok());
    EXPECT_TRUE(Close((*results)[i].outputs.at(0).tensor, *alone, Exact()));
  }
}

TEST(Engine, AModelWithItsBatchFixedAtOneServesBatches) {
  const Engine engine = MakeEngine(2);
  const auto fixed = engine.LoadBytes(SmallCnn(1));
  ASSERT_TRUE(fixed.ok()) << fixed.status();
  EXPECT_TRUE((*fixed)->info().batch_fixed_at_one);
  const Tensor x = RandomFloats({3, 3, 8, 8}, 5);
  const auto batch = RunOne(**fixed, {{"x", x}});
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->shape(), Shape({3, 5}));
  for (int64_t i = 0; i < 3; ++i) {
    const auto one = RunOne(**fixed, {{"x", x.Rows(i, i + 1)}});
    ASSERT_TRUE(one.ok());
    EXPECT_TRUE(Close(*one, batch->Rows(i, i + 1), Exact()));
  }
}

TEST(Engine, ABatchOfNoItemsGivesNoRows) {
  const Engine engine = MakeEngine(2);
  for (const graph::Dim& batch : {kN, graph::Dim(1)}) {
    const auto model = engine.LoadBytes(SmallCnn(batch));
    ASSERT_TRUE(model.ok()) << model.status();
    const auto y = RunOne(**model, {{"x", RandomFloats({0, 3, 8, 8}, 5)}});
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ(y->shape(), Shape({0, 5}));
  }
}

TEST(Engine, TowersForkedAndSequentialHaveTheSameBitsAtAnyThreadCount) {
  const std::string bytes = Siamese(6);
  const Tensor a = RandomFloats({3, 8, 16, 16}, 21);
  const Tensor b = RandomFloats({3, 8, 16, 16}, 22);
  const Engine sequential = MakeEngine(1, false);
  const auto oracle = sequential.LoadBytes(bytes);
  ASSERT_TRUE(oracle.ok()) << oracle.status();
  EXPECT_THAT((*oracle)->Explain(), HasSubstr(" 0 forks"));
  const auto expected = RunOne(**oracle, {{"a", a}, {"b", b}});
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const int threads : {1, 2, 4}) {
    const Engine engine = MakeEngine(threads);
    const auto model = engine.LoadBytes(bytes);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_THAT((*model)->Explain(), HasSubstr(" 1 forks"));
    for (int run = 0; run < 20; ++run) {
      const auto y = RunOne(**model, {{"a", a}, {"b", b}});
      ASSERT_TRUE(y.ok()) << y.status();
      ASSERT_TRUE(Close(*y, *expected, Exact())) << threads << " threads, run " << run;
    }
  }
}

TEST(Engine, SharedWeightsArePackedOnceAndNothingIsPackedWhileRunning) {
  const Engine engine = MakeEngine(2);
  const auto model = engine.LoadBytes(Siamese(6));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(engine.stats().packs_built, 6u);
  EXPECT_EQ(engine.stats().packs_shared, 6u);
  const auto again = engine.LoadBytes(Siamese(6));
  ASSERT_TRUE(again.ok());
  const EngineStats loaded = engine.stats();
  EXPECT_EQ(loaded.packs_built, 6u);
  const Tensor x = RandomFloats({1, 8, 16, 16}, 1);
  for (int run = 0; run < 50; ++run) ASSERT_TRUE(RunOne(**model, {{"a", x}, {"b", x}}).ok());
  EXPECT_EQ(engine.stats().packs_built, 6u);
  EXPECT_EQ(engine.stats().pack_bytes, loaded.pack_bytes);
}

TEST(Engine, WeightsThatOnlyPacksReadAreReleased) {
  const Engine engine = MakeEngine(1);
  const auto model = engine.LoadBytes(Siamese(6));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(engine.stats().constant_bytes, 0u);
  EXPECT_GE(engine.stats().pack_bytes, 6u * 8 * 8 * 9 * 4);
}

TEST(Engine, AlternatingShapesGiveTheAnswersOfAFreshModel) {
  const Engine engine = MakeEngine(2);
  const auto model = engine.LoadBytes(SmallCnn(kN));
  ASSERT_TRUE(model.ok());
  const Tensor ten = RandomFloats({10, 3, 8, 8}, 1);
  const auto first = RunOne(**model, {{"x", ten}});
  ASSERT_TRUE(first.ok());
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(RunOne(**model, {{"x", ten.Rows(0, 2)}}).ok());
    const auto y = RunOne(**model, {{"x", ten}});
    ASSERT_TRUE(y.ok());
    ASSERT_TRUE(Close(*y, *first, Exact()));
  }
}

TEST(Engine, ConcurrentRunsDoNotDisturbEachOther) {
  const Engine engine = MakeEngine(2);
  const auto model = engine.LoadBytes(SmallCnn(kN));
  ASSERT_TRUE(model.ok());
  std::vector<std::thread> threads;
  std::vector<int> wrong(6, 0);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      const Tensor x =
          RandomFloats({1 + static_cast<int64_t>(t), 3, 8, 8}, 40 + static_cast<uint32_t>(t));
      const auto expected = RunOne(**model, {{"x", x}});
      for (int run = 0; run < 50; ++run) {
        const auto y = RunOne(**model, {{"x", x}});
        if (!y.ok() || !expected.ok() || !Close(*y, *expected, Exact())) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, testing::Each(0));
}

TEST(Engine, EveryBadInputIsNamedWithWhatCameAndWhatIsExpected) {
  const Engine engine = MakeEngine(1);
  const auto model = engine.LoadBytes(Siamese(1));
  ASSERT_TRUE(model.ok());
  const Tensor good = RandomFloats({1, 8, 16, 16}, 1);
  const auto message = [&](std::vector<NamedTensor> inputs) {
    const Status status = (*model)->Validate(inputs);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ((*model)->Run(inputs).status(), status);
    return std::string(Message(status));
  };
  EXPECT_THAT(message({{"a", good}}), HasSubstr("input 'b' (float[N,8,16,16]) is missing"));
  EXPECT_THAT(message({{"a", good}, {"b", good}, {"c", good}}),
              HasSubstr("no input 'c'; its inputs are 'a', 'b'"));
  EXPECT_THAT(message({{"a", good}, {"a", good}}), HasSubstr("'a' is given twice"));
  EXPECT_THAT(message({{"a", good}, {"b", Tensor::Scalar<int64_t>(1)}}),
              HasSubstr("'b' has dtype int64 where float is expected"));
  EXPECT_THAT(message({{"a", good}, {"b", RandomFloats({8, 16, 16}, 1)}}),
              HasSubstr("'b' has rank 3 (shape [8,16,16]) where rank 4 (shape [N,8,16,16])"));
  EXPECT_THAT(message({{"a", good}, {"b", RandomFloats({1, 8, 16, 15}, 1)}}),
              HasSubstr("extent 3 is 15, not 16"));
  EXPECT_THAT(message({{"a", good}, {"b", RandomFloats({2, 8, 16, 16}, 1)}}),
              HasSubstr("'b' has extent 2 on axis 0 where input 'a' has 1 for 'N'"));
}

// The batch that a model of one item is given has no name that one of its symbols could have.
TEST(Engine, ASymbolOfAnyNameIsNoBatch) {
  const Engine engine = MakeEngine(1);
  const graph::DimVector dims = {1, graph::Dim::Symbol("batch"), 4};
  const auto model = engine.LoadBytes(ModelBuilder(17)
                                          .Input("a", DType::kFloat, dims)
                                          .Input("b", DType::kFloat, dims)
                                          .Node("Add", {"a", "b"}, {"y"})
                                          .Output("y", DType::kFloat, dims)
                                          .Serialize());
  ASSERT_TRUE(model.ok());
  const auto validate = [&](const Shape& a, const Shape& b) {
    return (*model)->Validate(
        std::vector<NamedTensor>{{"a", RandomFloats(a, 1)}, {"b", RandomFloats(b, 2)}});
  };
  EXPECT_EQ(validate({1, 3, 4}, {1, 3, 4}), absl::OkStatus());
  EXPECT_EQ(validate({2, 3, 4}, {2, 3, 4}), absl::OkStatus());
  EXPECT_THAT(Message(validate({2, 3, 4}, {2, 5, 4})),
              HasSubstr("'b' has extent 5 on axis 1 where input 'a' has 3 for 'batch'"));
  EXPECT_THAT(Message(validate({2, 3, 4}, {3, 3, 4})),
              HasSubstr("'b' has extent 3 on axis 0 where input 'a' has 2 for the batch"));
}

TEST(Engine, ItHasTheThreadsItIsAskedForAndElseThoseOfTheMachine) {
  EXPECT_EQ(Engine(EngineOptions{}).threads(), AvailableCpus());
  EXPECT_EQ(MakeEngine(1).threads(), 1);
  EXPECT_EQ(MakeEngine(5).threads(), 5) << "more than there are cores, where that is asked for";
}

TEST(Engine, AllReasonsWhyAModelIsRefusedAreListed) {
  const auto model =
      MakeEngine(1).LoadBytes(ModelBuilder(17)
                                  .Input("x", DType::kFloat, {kN, 4})
                                  .Node("NoSuchOp", {"x"}, {"h"}, {}, "first")
                                  .Node("Relu", {"h"}, {"r"})
                                  .Node("AlsoMissing", {"r"}, {"y"}, {}, "second")
                                  .Node("Softmax", {"x"}, {"z"}, {{"axis", int64_t{7}}}, "third")
                                  .Output("y", DType::kFloat, {kN, 4})
                                  .Serialize());
  EXPECT_EQ(model.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(
      std::string(Message(model.status())),
      testing::AllOf(HasSubstr("node 'first' (NoSuchOp)"), HasSubstr("node 'second' (AlsoMissing)"),
                     HasSubstr("node 'third' (Softmax)")));
}

TEST(Engine, AShapeThatAnOutputCannotHaveIsReportedAndNotBelieved) {
  const auto said = [](const graph::DimVector& declared) {
    const auto model = MakeEngine(1).LoadBytes(ModelBuilder(17)
                                                   .Input("x", DType::kFloat, {kN, 4})
                                                   .Node("Relu", {"x"}, {"y"})
                                                   .Output("y", DType::kFloat, declared)
                                                   .Serialize());
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return std::string();
    EXPECT_EQ(graph::ToString((*model)->info().outputs[0].dims), "[N,4]");
    const auto report = (*model)->Report(std::vector<NamedShape>{{"x", {2, 4}}});
    EXPECT_TRUE(report.ok()) << report.status();
    if (!report.ok() || report->declines.empty()) return std::string();
    return report->declines[0].node + ": " + report->declines[0].numbers;
  };
  EXPECT_EQ(said({kN, 5}), "graph output 'y': [N,4] is inferred, not [N,5]");
  EXPECT_EQ(said({kN, 4, 1}), "graph output 'y': [N,4] is inferred, not [N,4,1]");
  // Names say nothing, and an extent that is open may be any.
  EXPECT_EQ(said({graph::Dim::Symbol("M"), 4}), "");
  EXPECT_EQ(said({kN, graph::Dim()}), "");
  EXPECT_EQ(said({1, graph::Dim::Symbol("C")}), "");
}

TEST(Engine, OutputsAreReturnedUnderTheirNamesAndInTheOrderAsked) {
  const Engine engine = MakeEngine(1);
  const auto model = engine.LoadBytes(ModelBuilder(17)
                                          .Input("x", DType::kFloat, {kN, 4})
                                          .Initializer("k", Tensor::Of<float>({2}, {5, 6}))
                                          .Node("Identity", {"x"}, {"same"})
                                          .Node("Relu", {"x"}, {"r"})
                                          .Node("Identity", {"k"}, {"constant"})
                                          .Output("same", DType::kFloat, {kN, 4})
                                          .Output("r", DType::kFloat, {kN, 4})
                                          .Output("constant", DType::kFloat, {2})
                                          .Serialize());
  ASSERT_TRUE(model.ok()) << model.status();
  const Tensor x = RandomFloats({2, 4}, 3);
  const std::vector<NamedTensor> inputs = {{"x", x}};
  const auto all = (*model)->Run(inputs);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->outputs.size(), 3u);
  EXPECT_TRUE(Close(all->outputs[0].tensor, x, Exact()));
  EXPECT_TRUE(Close(all->outputs[2].tensor, Tensor::Of<float>({2}, {5, 6}), Exact()));
  const auto some = (*model)->Run(inputs, {.outputs = {"constant", "same"}});
  ASSERT_TRUE(some.ok());
  EXPECT_EQ(some->outputs[0].name, "constant");
  EXPECT_EQ(some->outputs[1].name, "same");
  const auto none = (*model)->Run(inputs, {.outputs = {"nope"}});
  EXPECT_THAT(std::string(Message(none.status())), HasSubstr("no output 'nope'"));
}

TEST(Engine, AStoppedRunEndsBetweenTasks) {
  const Engine engine = MakeEngine(1);
  const auto model = engine.LoadBytes(Siamese(3));
  ASSERT_TRUE(model.ok());
  const Tensor x = RandomFloats({1, 8, 16, 16}, 1);
  const std::vector<NamedTensor> inputs = {{"a", x}, {"b", x}};
  int asked = 0;
  const auto y = (*model)->Run(inputs, {.stopped = [&asked] { return ++asked > 2; }});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(asked, 3);
}

TEST(Engine, ARunBeyondItsMemoryLimitIsRefused) {
  EngineOptions options;
  options.threads = 1;
  options.max_run_bytes = 4096;
  const auto model = Engine(options).LoadBytes(SmallCnn(kN));
  ASSERT_TRUE(model.ok());
  const auto y = RunOne(**model, {{"x", RandomFloats({50, 3, 8, 8}, 1)}});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(Message(y.status())), HasSubstr("where 4096 are allowed"));
}

TEST(Engine, OutputsWhoseSizeDependsOnDataCountAgainstTheMemoryLimit) {
  EngineOptions options;
  options.threads = 1;
  options.max_run_bytes = 4096;
  const auto model = Engine(options).LoadBytes(ModelBuilder(17)
                                                   .Input("x", DType::kFloat, {kN})
                                                   .Node("NonZero", {"x"}, {"y"})
                                                   .Output("y", DType::kInt64, {1, graph::Dim()})
                                                   .Serialize());
  ASSERT_TRUE(model.ok()) << model.status();
  const auto few = RunOne(**model, {{"x", Tensor::Of<float>({3}, {0, 1, 2})}});
  EXPECT_TRUE(few.ok()) << few.status();
  const auto many = RunOne(**model, {{"x", RandomFloats({1000}, 1, 1.0f, 2.0f)}});
  EXPECT_EQ(many.status().code(), absl::StatusCode::kResourceExhausted) << many.status();
  EXPECT_THAT(std::string(Message(many.status())),
              HasSubstr("the run needs 8000 bytes of memory where 4096 are allowed"));
}

TEST(Engine, ItemsThatRunOneByOneNeedTheMemoryOfOne) {
  EngineOptions options;
  options.threads = 1;
  options.max_run_bytes = 64 * 1024;
  const auto model = Engine(options).LoadBytes(SmallCnn(1));
  ASSERT_TRUE(model.ok());
  const auto y = RunOne(**model, {{"x", RandomFloats({500, 3, 8, 8}, 1)}});
  EXPECT_TRUE(y.ok()) << y.status();
}

TEST(Engine, OutputsOfAllPartsCountAgainstTheMemoryLimit) {
  constexpr size_t kItem = 64 * 16 * 16 * sizeof(float);
  EngineOptions options;
  options.threads = 1;
  options.max_run_bytes = 10 * kItem;
  const auto model = Engine(options).LoadBytes(ModelBuilder(17)
                                                   .Input("x", DType::kFloat, {1, 64, 16, 16})
                                                   .Node("Relu", {"x"}, {"y"})
                                                   .Output("y", DType::kFloat, {1, 64, 16, 16})
                                                   .Serialize());
  ASSERT_TRUE(model.ok()) << model.status();
  const auto few = RunOne(**model, {{"x", RandomFloats({10, 64, 16, 16}, 1)}});
  EXPECT_TRUE(few.ok()) << few.status();
  const auto many = RunOne(**model, {{"x", RandomFloats({11, 64, 16, 16}, 1)}});
  EXPECT_EQ(many.status().code(), absl::StatusCode::kResourceExhausted) << many.status();
}

TEST(Engine, ALoadIsStoppedBetweenNodes) {
  constexpr int kNodes = 100;
  const test::TempDirectory directory;
  const std::string path = directory / "chain.onnx";
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 4});
  std::string last = "x";
  for (int i = 0; i < kNodes; ++i) {
    const std::string next = fmt::format("h{}", i);
    builder.Node("Softmax", {last}, {next});
    last = next;
  }
  builder.Output(last, DType::kFloat, {kN, 4}).WriteFile(path);
  const Engine engine = MakeEngine(1);
  int asked = 0;
  const auto load = [&](int stop_at) {
    asked = 0;
    return engine.Load(path, {.stopped = [&] { return ++asked >= stop_at; }, .input_layouts = {}})
        .status();
  };
  ASSERT_TRUE(load(std::numeric_limits<int>::max()).ok());
  const int most = asked;
  EXPECT_GT(most, 10 * kNodes);
  // At once, within the first pass, within the last ones, and while the plan is made.
  for (const int stop_at :
       {1, 2, kNodes / 2, most / 2, most - kNodes - 5, most - kNodes / 2, most}) {
    const Status status = load(stop_at);
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
    EXPECT_THAT(std::string(Message(status)), HasSubstr("loading was stopped"));
    EXPECT_EQ(asked, stop_at) << "it goes on";
  }
}

TEST(Engine, AReportStatesWhatARunTakes) {
  const Engine engine = MakeEngine(1);
  const auto model = engine.LoadBytes(SmallCnn(kN));
  ASSERT_TRUE(model.ok()) << model.status();
  const Tensor x = RandomFloats({3, 3, 8, 8}, 7);
  const auto report = (*model)->Report(std::vector<NamedShape>{{"x", x.shape()}});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_TRUE((*model)->Run(std::vector<NamedTensor>{{"x", x}}).ok());
  EXPECT_EQ(report->arena_bytes, engine.stats().arena_bytes);
  EXPECT_EQ(report->pack_bytes, engine.stats().pack_bytes);
  size_t packs = 0;
  for (const PackReport& pack : report->packs) packs += pack.bytes;
  EXPECT_EQ(report->pack_bytes, packs);
  EXPECT_EQ((*model)->Report(std::vector<NamedShape>{}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem
