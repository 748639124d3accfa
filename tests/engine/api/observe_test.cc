// What a run tells of itself while it runs: the values of all tasks, and the threads that ran them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "engine/engine.h"
#include "tests/support/compare.h"
#include "tests/support/model_builder.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Close;
using test::Exact;
using test::ModelBuilder;
using test::RandomFloats;
using testing::HasSubstr;

const graph::Dim kN = graph::Dim::Symbol("N");

// x[N,3,8,8] -> Conv -> r = Relu -> p = MaxPool -> f = Flatten -> y
ModelBuilder Cnn(const graph::Dim& batch) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {batch, 3, 8, 8})
      .Initializer("w", RandomFloats({7, 3, 3, 3}, 1))
      .Initializer("fc", RandomFloats({112, 5}, 3))
      .Node("Conv", {"x", "w"}, {"c"}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}})
      .Node("Relu", {"c"}, {"r"})
      .Node("MaxPool", {"r"}, {"p"},
            {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}})
      .Node("Flatten", {"p"}, {"f"})
      .Node("Gemm", {"f", "fc"}, {"y"})
      .Output("y", DType::kFloat, {batch, 5});
  return builder;
}

// Two towers of `depth` convolutions each, joined by Add.
std::string Towers(int depth) {
  ModelBuilder builder(17);
  std::vector<std::string> ends;
  for (const std::string tower : {"a", "b"}) {
    builder.Input(tower, DType::kFloat, {1, 8, 32, 32});
    ends.push_back(tower);
    for (int i = 0; i < depth; ++i) {
      const std::string w = tower + "w" + std::to_string(i);
      const std::string next = tower + std::to_string(i);
      builder.Initializer(w, RandomFloats({8, 8, 3, 3}, static_cast<uint32_t>(i), -0.2f, 0.2f))
          .Node("Conv", {ends.back(), w}, {next}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
      ends.back() = next;
    }
  }
  return builder.Node("Add", {ends[0], ends[1]}, {"y"})
      .Output("y", DType::kFloat, {1, 8, 32, 32})
      .Serialize();
}

Engine EngineOf(int threads) {
  EngineOptions options;
  options.threads = threads;
  return Engine(options);
}

TEST(Observe, EveryValueThatATaskComputesIsToldInNativeLayout) {
  const Engine engine = EngineOf(2);
  const auto model = engine.LoadBytes(Cnn(kN).Serialize());
  ASSERT_TRUE(model.ok()) << model.status();
  const auto visible = engine.LoadBytes(Cnn(kN)
                                            .Output("r", DType::kFloat, {kN, 7, 8, 8})
                                            .Output("p", DType::kFloat, {kN, 7, 4, 4})
                                            .Output("f", DType::kFloat, {kN, 112})
                                            .Serialize());
  ASSERT_TRUE(visible.ok()) << visible.status();
  const std::vector<NamedTensor> inputs = {{"x", RandomFloats({3, 3, 8, 8}, 7)}};
  const auto expected = (*visible)->Run(inputs);
  ASSERT_TRUE(expected.ok()) << expected.status();
  std::map<std::string, Tensor> told;
  RunOptions options;
  options.observe = [&told](const NamedTensor& value) { told[value.name] = value.tensor; };
  ASSERT_TRUE((*model)->Run(inputs, options).ok());
  for (const auto& [name, tensor] : expected->outputs) {
    ASSERT_TRUE(told.contains(name)) << name;
    EXPECT_TRUE(Close(told[name], tensor, Exact())) << name;
  }
  EXPECT_FALSE(told.contains("c")) << "it is part of the task that computes 'r'";
}

TEST(Observe, TheRunStaysInOneThread) {
  const Engine engine = EngineOf(2);
  const auto model = engine.LoadBytes(Towers(6));
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_THAT((*model)->Explain(), HasSubstr(" 1 forks"));
  std::set<std::thread::id> threads;
  RunOptions options;
  options.observe = [&threads](const NamedTensor&) { threads.insert(std::this_thread::get_id()); };
  const std::vector<NamedTensor> inputs = {{"a", RandomFloats({1, 8, 32, 32}, 1)},
                                           {"b", RandomFloats({1, 8, 32, 32}, 2)}};
  for (int run = 0; run < 20; ++run) ASSERT_TRUE((*model)->Run(inputs, options).ok());
  EXPECT_THAT(threads, testing::ElementsAre(std::this_thread::get_id()));
}

TEST(Observe, SeveralItemsOfAModelOfOneAreRefused) {
  const auto model = EngineOf(1).LoadBytes(Cnn(1).Serialize());
  ASSERT_TRUE(model.ok()) << model.status();
  RunOptions options;
  options.observe = [](const NamedTensor&) {};
  const std::vector<NamedTensor> two = {{"x", RandomFloats({2, 3, 8, 8}, 7)}};
  EXPECT_THAT((*model)->Run(two, options).status().message(),
              HasSubstr("values are observed of one item, not of 2"));
  const std::vector<NamedTensor> one = {{"x", RandomFloats({1, 3, 8, 8}, 7)}};
  EXPECT_TRUE((*model)->Run(one, options).ok());
}

// Of many runs one in which both threads were free.
TEST(Observe, TheProfileShowsWhichThreadRanWhichTower) {
  const Engine engine = EngineOf(2);
  const auto model = engine.LoadBytes(Towers(6));
  ASSERT_TRUE(model.ok()) << model.status();
  const std::vector<NamedTensor> inputs = {{"a", RandomFloats({1, 8, 32, 32}, 1)},
                                           {"b", RandomFloats({1, 8, 32, 32}, 2)}};
  const auto report = (*model)->Report(
      std::vector<NamedShape>{{"a", Shape({1, 8, 32, 32})}, {"b", Shape({1, 8, 32, 32})}});
  ASSERT_TRUE(report.ok()) << report.status();
  RunOptions options;
  options.profile = true;
  bool side_by_side = false;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!side_by_side && std::chrono::steady_clock::now() < end) {
    const auto run = (*model)->Run(inputs, options);
    ASSERT_TRUE(run.ok()) << run.status();
    std::vector<std::set<int>> threads;  // by tower
    for (const ScheduleReport& item : report->blocks[0]) {
      for (const int branch : item.branches) {
        std::set<int>& of_tower = threads.emplace_back();
        for (const ScheduleReport& task : report->blocks[static_cast<size_t>(branch)]) {
          const auto& of_task = run->profile[static_cast<size_t>(task.task)].threads;
          of_tower.insert(of_task.begin(), of_task.end());
        }
      }
    }
    ASSERT_EQ(threads.size(), 2u);
    for (const std::set<int>& of_tower : threads) ASSERT_EQ(of_tower.size(), 1u);
    side_by_side = threads[0] != threads[1];
  }
  EXPECT_TRUE(side_by_side);
}

TEST(Observe, TheReportCountsWorkAndSaysWhereItCannot) {
  const Engine engine = EngineOf(1);
  const auto model = engine.LoadBytes(Cnn(kN)
                                          .Node("NonZero", {"r"}, {"places"})
                                          .Node("Neg", {"places"}, {"n"})
                                          .Output("n", DType::kInt64, {4, graph::Dim()})
                                          .Serialize());
  ASSERT_TRUE(model.ok()) << model.status();
  const auto report = (*model)->Report(std::vector<NamedShape>{{"x", Shape({2, 3, 8, 8})}});
  ASSERT_TRUE(report.ok()) << report.status();
  std::map<std::string, const TaskReport*> tasks;
  for (const TaskReport& task : report->tasks) {
    for (const int output : task.outputs) {
      if (output >= 0) tasks.emplace(report->values[static_cast<size_t>(output)].name, &task);
    }
  }
  EXPECT_EQ(tasks.at("r")->multiply_adds, 2 * 7 * 8 * 8 * 27);
  EXPECT_EQ(tasks.at("y")->multiply_adds, 2 * 112 * 5);
  EXPECT_EQ(tasks.at("p")->multiply_adds, 2 * 7 * 4 * 4 * 4);
  // What each reads, its weights included, and writes.
  constexpr int kImage = 2 * 3 * 8 * 8, kFeatures = 2 * 7 * 8 * 8, kPooled = 2 * 7 * 4 * 4;
  EXPECT_EQ(tasks.at("r")->moved_bytes, 4 * (kImage + 7 * 27 + kFeatures));
  EXPECT_EQ(tasks.at("p")->moved_bytes, 4 * (kFeatures + kPooled));
  EXPECT_EQ(tasks.at("y")->moved_bytes, 4 * (kPooled + 112 * 5 + 2 * 5));
  EXPECT_EQ(tasks.at("f")->kernel, "view");
  EXPECT_FALSE(tasks.at("f")->multiply_adds.has_value());
  EXPECT_FALSE(tasks.at("f")->moved_bytes.has_value());
  EXPECT_THAT(ToText(*report), HasSubstr(", 24192 multiply-adds, 5876 bytes moved"));
  EXPECT_FALSE(tasks.at("n")->multiply_adds.has_value());
  EXPECT_EQ(tasks.at("n")->cost_unknown, "the extents of 'places' depend on data");
}

}  // namespace
}  // namespace tandem
