// What a run measures of itself: every task once, under its own name, in times that add up.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "tests/engine/api/comparison.h"
#include "tests/engine/api/small_networks.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::LoadModel;
using test::RandomFloats;

RunResult Profiled(const Model& model, const std::vector<NamedTensor>& inputs) {
  auto run = model.Run(inputs, {.profile = true});
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? *std::move(run) : RunResult();
}

TEST(Profile, TimesEveryTaskOnceUnderTheNamesOfTheReport) {
  const Engine engine(EngineOptions{.threads = 1});
  for (const test::Network& network : test::Networks()) {
    SCOPED_TRACE(network.name);
    const auto model = LoadModel(engine, network.bytes);
    ASSERT_NE(model, nullptr);
    const std::vector<NamedTensor> inputs = {{"x", RandomFloats({2, 3, 16, 16}, 7)}};
    const PlanReport report = test::ReportOf(*model, inputs);
    const auto plain = model->Run(inputs);
    ASSERT_TRUE(plain.ok()) << plain.status();
    EXPECT_TRUE(plain->profile.empty());
    const RunResult run = Profiled(*model, inputs);
    ASSERT_EQ(run.outputs.size(), plain->outputs.size());
    EXPECT_TRUE(test::Close(run.outputs[0].tensor, plain->outputs[0].tensor, test::Exact()));
    ASSERT_EQ(run.profile.size(), report.tasks.size());
    std::map<std::string_view, int> count;
    for (size_t task = 0; task < report.tasks.size(); ++task) {
      EXPECT_EQ(run.profile[task].task, report.tasks[task].name);
      EXPECT_EQ(run.profile[task].kernel, report.tasks[task].kernel);
      EXPECT_EQ(run.profile[task].time.count() > 0, report.tasks[task].mode == "run");
      EXPECT_EQ(run.profile[task].threads.size(), report.tasks[task].mode == "run" ? 1u : 0u);
      if (report.tasks[task].mode == "run" && !report.tasks[task].kernel.starts_with("convert")) {
        ++count[run.profile[task].task];
      }
    }
    for (const auto& [task, times] : count) EXPECT_EQ(times, 1) << task;
  }
}

// The report, which has the tasks of a profile in their order, has the shapes of that run.
TEST(Profile, TheShapesOfEveryTaskAreThoseThatTheRunHad) {
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = LoadModel(engine, test::Residual());
  ASSERT_NE(model, nullptr);
  for (const Shape& shape : {Shape{1, 3, 16, 16}, Shape{3, 3, 20, 28}}) {
    const std::vector<NamedTensor> inputs = {{"x", RandomFloats(shape, 7)}};
    std::map<std::string, Shape> shapes;
    const auto run = model->Run(inputs, {.profile = true, .observe = [&](const NamedTensor& value) {
                                           shapes[value.name] = value.tensor.shape();
                                         }});
    ASSERT_TRUE(run.ok()) << run.status();
    const PlanReport report = test::ReportOf(*model, inputs);
    ASSERT_EQ(run->profile.size(), report.tasks.size());
    int compared = 0;
    for (const TaskReport& task : report.tasks) {
      for (const int output : task.outputs) {
        const ValueReport& value = report.values[static_cast<size_t>(output)];
        ASSERT_TRUE(value.shape.has_value());
        EXPECT_EQ(shapes.at(value.name), *value.shape) << task.name;
        ++compared;
      }
    }
    EXPECT_GT(compared, 5);
  }
}

// The largest share of the run that the times of its tasks make up, of many runs: in some the
// machine interfered.
double BestShare(const Model& model, const std::vector<NamedTensor>& inputs) {
  double best = 0;
  for (int i = 0; i < 100; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const RunResult run = Profiled(model, inputs);
    const auto wall = std::chrono::steady_clock::now() - start;
    std::chrono::nanoseconds sum{0};
    for (const TaskTime& task : run.profile) sum += task.time;
    const double share = std::chrono::duration<double>(sum) / wall;
    EXPECT_LE(share, 1);
    best = std::max(best, share);
  }
  return best;
}

TEST(Profile, TheTimesOfTasksAddUpToTheRun) {
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = LoadModel(engine, test::Siamese(6));
  ASSERT_NE(model, nullptr);
  EXPECT_GT(BestShare(*model, {{"a", RandomFloats({4, 8, 16, 16}, 21)},
                               {"b", RandomFloats({4, 8, 16, 16}, 22)}}),
            0.9);
}

TEST(Profile, AddsUpTheParts) {
  const Engine engine(EngineOptions{.threads = 2});
  const auto model = LoadModel(engine, test::SmallCnn(1));  // two items are two runs
  ASSERT_NE(model, nullptr);
  const std::vector<NamedTensor> inputs = {{"x", RandomFloats({2, 3, 8, 8}, 7)}};
  const PlanReport report = test::ReportOf(*model, inputs);
  EXPECT_EQ(report.parts, 2);
  EXPECT_EQ(Profiled(*model, inputs).profile.size(), report.tasks.size());
}

// Four items of a model of one take about four times as long as one, task by task.
TEST(Profile, TheTimesOfPartsAddUpToTheRun) {
  const Engine engine(EngineOptions{.threads = 1});
  test::ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {1, 16, 48, 48})
      .Initializer("w", RandomFloats({16, 16, 3, 3}, 1))
      .Node("Conv", {"x", "w"}, {"c"})
      .Node("Softmax", {"c"}, {"y"}, {{"axis", int64_t{1}}})
      .Output("y", DType::kFloat, {1, 16, 46, 46});
  const auto model = LoadModel(engine, builder.Serialize());
  ASSERT_NE(model, nullptr);
  const std::vector<NamedTensor> inputs = {{"x", RandomFloats({4, 16, 48, 48}, 7)}};
  const PlanReport report = test::ReportOf(*model, inputs);
  EXPECT_EQ(report.parts, 4);
  EXPECT_EQ(Profiled(*model, inputs).profile.size(), report.tasks.size());
  EXPECT_GT(BestShare(*model, inputs), 0.9);
}

}  // namespace
}  // namespace tandem
