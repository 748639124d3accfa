// The time of the schedule grows as the number of tasks does, however they are nested, that of the
// memory plan as the number of values does, however many live together.
#include "tests/support/linearity.h"

#include <gtest/gtest.h>

#include "engine/plan/memory.h"
#include "tests/engine/plan/schedule_graphs.h"

namespace tandem::plan {
namespace {

constexpr ForkGate kGate = {.least_seconds = 20e-6};

class ScheduleTime : public testing::TestWithParam<std::vector<TaskNode> (*)(TaskIndex)> {};

TEST_P(ScheduleTime, IsLinear) {
  const auto seconds = [](int count) {
    const std::vector<TaskNode> tasks = GetParam()(count);
    const double start = tandem::test::SecondsOfThread();
    BuildSchedule(tasks, kGate);
    return tandem::test::SecondsOfThread() - start;
  };
  EXPECT_LT(tandem::test::RatioOfTwice(seconds, 10'000), tandem::test::kLinear);
  EXPECT_LT(seconds(10'000), 1.0);
}

// Value i is made by task i and read by the last one.
std::vector<Lifetime> AllTogether(int count) {
  std::vector<Lifetime> lifetimes;
  for (int i = 0; i < count; ++i) lifetimes.push_back({64, i, count});
  return lifetimes;
}

// Each value is read by the next task, but for every third, which the last one reads.
std::vector<Lifetime> SomeTogether(int count) {
  std::vector<Lifetime> lifetimes;
  for (int i = 0; i < count; ++i) lifetimes.push_back({64, i, i % 3 == 0 ? count : i + 1});
  return lifetimes;
}

TEST(MemoryPlanTime, IsLinear) {
  for (const auto build : {AllTogether, SomeTogether}) {
    const auto seconds = [build](int count) {
      const std::vector<Lifetime> lifetimes = build(count);
      const double start = tandem::test::SecondsOfThread();
      PlaceBuffers(lifetimes);
      return tandem::test::SecondsOfThread() - start;
    };
    EXPECT_LT(tandem::test::RatioOfTwice(seconds, 50'000), tandem::test::kLinear);
    EXPECT_LT(seconds(50'000), 1.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Deep, ScheduleTime,
                         testing::Values(test::Braid, test::ChainOfOutputs, test::Blocks,
                                         test::Nest));

}  // namespace
}  // namespace tandem::plan
