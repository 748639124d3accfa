#include "engine/plan/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <set>

namespace tandem::plan {
namespace {

constexpr double kGate = 20e-6;

TaskNode Heavy(std::vector<TaskIndex> predecessors) { return {std::move(predecessors), 1e-3}; }
TaskNode Light(std::vector<TaskIndex> predecessors) { return {std::move(predecessors), 1e-9}; }

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
  EXPECT_EQ(BuildSchedule(towers, std::numeric_limits<double>::infinity()).forks(), 0);
}

TEST(Schedule, EntangledBranchesStaySequential) {
  // 2 reads both starts, 3 only the second: no cut separates two branches.
  const std::vector<TaskNode> tasks = {Heavy({}), Heavy({}), Heavy({0, 1}), Heavy({1})};
  EXPECT_EQ(Text(BuildSchedule(tasks, kGate)), "0 1 2 3");
}

TEST(Schedule, WhatMakesAnOutputOfATowerComesLast) {
  // 3 reads the end of one tower beside the join.
  const std::vector<TaskNode> heavy = {Heavy({}), Heavy({}), Heavy({0, 1}), Light({0})};
  EXPECT_EQ(Text(BuildSchedule(heavy, kGate)), "(0|1) 2 3");
  const std::vector<TaskNode> light = {Heavy({}), Heavy({}), Light({0, 1}), Light({0})};
  EXPECT_EQ(Text(BuildSchedule(light, kGate)), "(0|1) 2 3");
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

}  // namespace
}  // namespace tandem::plan
