#include "engine/plan/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "tests/engine/plan/schedule_graphs.h"

namespace tandem::plan {
namespace {

constexpr ForkGate kGate = {.least_seconds = 20e-6};

using test::Heavy;
using test::Light;

// "0 (1 2|3) 4": tasks in order, forks in parentheses.
std::string Text(const Schedule& schedule, int block = 0) {
  std::string text;
  for (const ScheduleItem& item : schedule.blocks[static_cast<size_t>(block)].items) {
    if (!text.empty()) text += " ";
    if (!item.is_fork()) {
      text += std::to_string(item.task);
      continue;
    }
    text += "(";
    for (size_t i = 0; i < item.branches.size(); ++i) {
      text += (i > 0 ? "|" : "") + Text(schedule, item.branches[i]);
    }
    text += ")";
  }
  return text;
}

TEST(Schedule, AChainIsASequence) {
  const std::vector<TaskNode> tasks = {Heavy({}), Heavy({0}), Heavy({1})};
  EXPECT_EQ(Text(BuildSchedule(tasks, kGate)), "0 1 2");
}

TEST(Schedule, TwoTowersForkBeforeTheirJoinHoweverTheyAreInterleaved) {
  // 0 and 1 start the towers; 2 follows 0, 3 follows 1; 4 joins.
  const std::vector<TaskNode> tasks = {Heavy({}), Heavy({}), Heavy({0}), Heavy({1}), Light({2, 3})};
  EXPECT_EQ(Text(BuildSchedule(tasks, kGate)), "(0 2|1 3) 4");
}

TEST(Schedule, AThirdInputAtTheJoinChangesNothing) {
  const std::vector<TaskNode> tasks = {Heavy({}), Heavy({}), Light({}), Light({0, 1, 2})};
  EXPECT_EQ(Text(BuildSchedule(tasks, kGate)), "2 (0|1) 3");
}

TEST(Schedule, AnyNumberOfTowersFork) {
  for (const int towers : {2, 3, 5}) {
    std::vector<TaskNode> tasks(static_cast<size_t>(towers), Heavy({}));
    std::vector<TaskIndex> all(static_cast<size_t>(towers));
    std::iota(all.begin(), all.end(), 0);
    tasks.push_back(Heavy(all));
    const Schedule schedule = BuildSchedule(tasks, kGate);
    ASSERT_TRUE(schedule.blocks[0].items[0].is_fork());
    EXPECT_EQ(schedule.blocks[0].items[0].branches.size(), static_cast<size_t>(towers));
  }
}

TEST(Schedule, ForksNest) {
  // 0 forks into {1 -> (2|3) -> 4} and {5}; 6 joins.
  const std::vector<TaskNode> tasks = {Heavy({}),     Heavy({0}), Heavy({1}),   Heavy({1}),
                                       Heavy({2, 3}), Heavy({0}), Heavy({4, 5})};
  EXPECT_EQ(Text(BuildSchedule(tasks, kGate)), "0 (1 (2|3) 4|5) 6");
}

TEST(Schedule, BranchesBelowTheGateStaySequential) {
  const std::vector<TaskNode> tasks = {Heavy({}), Light({0}), Heavy({0}), Heavy({1, 2})};
  EXPECT_EQ(BuildSchedule(tasks, kGate).forks(), 0);
  const std::vector<TaskNode> towers = {Heavy({}), Heavy({}), Heavy({0, 1})};
  EXPECT_EQ(
      BuildSchedule(towers, {.least_seconds = std::numeric_limits<double>::infinity()}).forks(), 0);
}

TEST(Schedule, AHeavyReaderOfOneTowerBelongsToIt) {
  // 2 reads both starts, 3 only the second.
  const std::vector<TaskNode> tasks = {Heavy({}), Heavy({}), Heavy({0, 1}), Heavy({1})};
  EXPECT_EQ(Text(BuildSchedule(tasks, kGate)), "(0|1 3) 2");
}

TEST(Schedule, WhatMakesAnOutputOfATowerRunsInIt) {
  // 3 reads the end of one tower beside the join.
  const std::vector<TaskNode> heavy = {Heavy({}), Heavy({}), Heavy({0, 1}), Light({0})};
  EXPECT_EQ(Text(BuildSchedule(heavy, kGate)), "(0 3|1) 2");
  const std::vector<TaskNode> light = {Heavy({}), Heavy({}), Light({0, 1}), Light({0})};
  EXPECT_EQ(Text(BuildSchedule(light, kGate)), "(0 3|1) 2");
}

TEST(Schedule, AnOutputOnTheWayOfATowerChangesNothing) {
  // 0 2 4 and 1 3 5 are the towers, 6 joins them; 7 and 8 make outputs of 2 and of 4.
  const std::vector<TaskNode> tasks = {Heavy({}),     Heavy({}),  Heavy({0}),
                                       Heavy({1}),    Heavy({2}), Heavy({3}),
                                       Heavy({4, 5}), Light({2}), Light({4})};
  EXPECT_EQ(Text(BuildSchedule(tasks, kGate)), "(0 2 7 4 8|1 3 5) 6");
}

TEST(Schedule, TowersThatMeetInSeveralTasksFork) {
  // 0 2 and 1 3 are the towers; 4 and 5 read both.
  std::vector<TaskNode> tasks = {Heavy({}),  Heavy({}),     Heavy({0}),
                                 Heavy({1}), Heavy({2, 3}), Heavy({2, 3})};
  EXPECT_EQ(Text(BuildSchedule(tasks, kGate)), "(0 2|1 3) (4|5)");
  tasks.push_back(Light({4, 5}));
  EXPECT_EQ(Text(BuildSchedule(tasks, kGate)), "(0 2|1 3) (4|5) 6");
  tasks[4].seconds = tasks[5].seconds = 1e-9;
  EXPECT_EQ(Text(BuildSchedule(tasks, kGate)), "(0 2|1 3) 4 5 6");
  tasks.pop_back();
  EXPECT_EQ(Text(BuildSchedule(tasks, kGate)), "(0 2|1 3) 4 5");
}

TEST(Schedule, TowersThatMeetOnTheirWayFork) {
  // Three starts; 3 reads the first two, 4 the last two, 5 and 6 read both of these.
  const std::vector<TaskNode> tasks = {Heavy({}),     Heavy({}),     Heavy({}),    Heavy({0, 1}),
                                       Heavy({1, 2}), Heavy({3, 4}), Heavy({3, 4})};
  EXPECT_EQ(Text(BuildSchedule(tasks, kGate)), "(0|1|2) (3|4) (5|6)");
}

TEST(Schedule, AnInnerForkStaysOneWhereTowersMeetInLightTasks) {
  // 0 is a tower; 1 and 2 meet in 3, which is one with them; 4 and 5 read both.
  const std::vector<TaskNode> tasks = {Heavy({}),     Heavy({}),     Heavy({}),
                                       Heavy({1, 2}), Light({0, 3}), Light({0, 3})};
  EXPECT_EQ(Text(BuildSchedule(tasks, kGate)), "(0|(1|2) 3) 4 5");
}

TEST(Schedule, WhatIsLightAndReadByBothTowersRunsFirst) {
  // 2 enters both towers behind their starts 0 and 1; 5 and 6 join.
  const std::vector<TaskNode> tasks = {Heavy({}),     Heavy({}),     Light({}),    Heavy({0, 2}),
                                       Heavy({1, 2}), Heavy({3, 4}), Heavy({3, 4})};
  EXPECT_EQ(Text(BuildSchedule(tasks, kGate)), "2 (0 3|1 4) (5|6)");
}

// Every task of a branch keeps all threads busy by itself; smaller branches within may still fork.
TEST(Schedule, BranchesOfLargeTasksRunOneAfterTheOther) {
  const TaskNode large = {{}, 1e-3};
  const TaskNode small = {{}, 30e-6};
  const auto after = [](TaskNode task, std::vector<TaskIndex> predecessors) {
    task.predecessors = std::move(predecessors);
    return task;
  };
  const ForkGate gate = {.least_seconds = 20e-6, .most_task_seconds = 50e-6};
  const std::vector<TaskNode> towers = {large, large, after(large, {0}), after(small, {1}),
                                        after(small, {2, 3})};
  const Schedule whole = BuildSchedule(towers, gate);
  EXPECT_EQ(Text(whole), "0 2 1 3 4");
  ASSERT_EQ(whole.unforked.size(), 1U);
  EXPECT_EQ(whole.unforked[0].tasks, 2);
  EXPECT_DOUBLE_EQ(whole.unforked[0].seconds, 2e-3);
  EXPECT_DOUBLE_EQ(whole.unforked[0].task_seconds, (3 * 1e-6 + 30e-6 * 30e-6) / (3e-3 + 30e-6));
  const std::vector<TaskNode> inner = {
      large, small, small, after(small, {1, 2}), after(large, {3}), after(small, {0, 4})};
  EXPECT_EQ(Text(BuildSchedule(inner, gate)), "0 (1|2) 3 4 5");
  const std::vector<TaskNode> few = {small, small, after(small, {0}), after(small, {1})};
  EXPECT_EQ(Text(BuildSchedule(few, gate)), "(0 2|1 3)");
  // Two that meet more than once.
  const std::vector<TaskNode> braid = {large, large, after(small, {0, 1}), after(small, {0, 1})};
  EXPECT_EQ(Text(BuildSchedule(braid, gate)), "0 1 (2|3)");
}

TEST(Schedule, SaysWhichBranchesAreNotWorthAFork) {
  std::vector<TaskNode> tasks = {Heavy({}), Light({0}), Light({1}), Heavy({0}), Heavy({2, 3})};
  const Schedule one = BuildSchedule(tasks, kGate);
  ASSERT_EQ(one.unforked.size(), 1U);
  EXPECT_EQ(one.unforked[0].longest, 1);
  EXPECT_EQ(one.unforked[0].tasks, 2);
  EXPECT_DOUBLE_EQ(one.unforked[0].seconds, 2e-9);
  tasks[2] = Heavy({1});
  EXPECT_TRUE(BuildSchedule(tasks, kGate).unforked.empty());
  // Two that meet more than once.
  const std::vector<TaskNode> several = {Light({}), {{}, 3e-9}, Heavy({0, 1}), Heavy({0, 1})};
  const Schedule two = BuildSchedule(several, kGate);
  EXPECT_EQ(Text(two), "0 1 (2|3)");
  ASSERT_EQ(two.unforked.size(), 1U);
  EXPECT_EQ(two.unforked[0].longest, 1);
  // A chain has no branches.
  EXPECT_TRUE(BuildSchedule(std::vector<TaskNode>{Light({}), Light({0})}, kGate).unforked.empty());
}

// Every task appears once, and nothing it needs runs later or in a branch beside it.
void CheckValid(const std::vector<TaskNode>& tasks, const Schedule& schedule) {
  std::set<TaskIndex> done;
  const std::function<void(int, std::set<TaskIndex>&)> run = [&](int block,
                                                                 std::set<TaskIndex>& seen) {
    for (const ScheduleItem& item : schedule.blocks[static_cast<size_t>(block)].items) {
      if (!item.is_fork()) {
        for (const TaskIndex before : tasks[static_cast<size_t>(item.task)].predecessors) {
          ASSERT_TRUE(seen.contains(before)) << item.task << " runs before " << before;
        }
        ASSERT_TRUE(seen.insert(item.task).second) << item.task << " runs twice";
        continue;
      }
      std::set<TaskIndex> after = seen;
      for (const int branch : item.branches) {
        std::set<TaskIndex> branch_seen = seen;
        run(branch, branch_seen);
        after.insert(branch_seen.begin(), branch_seen.end());
      }
      seen = std::move(after);
    }
  };
  run(0, done);
  EXPECT_EQ(done.size(), tasks.size());
}

TEST(Schedule, RandomGraphsKeepEveryDependency) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    std::vector<TaskNode> tasks;
    const int count = 1 + static_cast<int>(random() % 30);
    for (int task = 0; task < count; ++task) {
      TaskNode node = random() % 3 == 0 ? Light({}) : Heavy({});
      for (int edge = static_cast<int>(random() % 3); edge > 0 && task > 0; --edge) {
        node.predecessors.push_back(static_cast<TaskIndex>(random() % static_cast<uint32_t>(task)));
      }
      tasks.push_back(std::move(node));
    }
    SCOPED_TRACE(seed);
    CheckValid(tasks, BuildSchedule(tasks, kGate));
  }
}

TEST(Schedule, DeepGraphsKeepEveryDependency) {
  for (const auto build : {test::Braid, test::ChainOfOutputs, test::Blocks, test::Nest}) {
    const std::vector<TaskNode> tasks = build(600);
    CheckValid(tasks, BuildSchedule(tasks, kGate));
  }
}

TEST(Schedule, ABraidForksAtEveryStep) {
  EXPECT_EQ(BuildSchedule(test::Braid(600), kGate).forks(), 300);
}

}  // namespace
}  // namespace tandem::plan
