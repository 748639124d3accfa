// The schedule's time grows as the number of tasks does, however they are nested.
#include "tests/support/linearity.h"

#include <gtest/gtest.h>

#include "tests/engine/plan/schedule_graphs.h"

namespace tandem::plan {
namespace {

constexpr double kGate = 20e-6;

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

INSTANTIATE_TEST_SUITE_P(Deep, ScheduleTime,
                         testing::Values(test::Braid, test::ChainOfOutputs, test::Blocks,
                                         test::Nest));

}  // namespace
}  // namespace tandem::plan
