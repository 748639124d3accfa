// When tasks run: a tree of sequences and forks. Tasks that every path passes cut the graph into
// segments; what falls apart within a segment are independent branches ("towers"), of any number,
// which fork when at least two are worth it. Branches of large tasks do not: each of these keeps
// all threads busy by itself, on data that stays in their caches. Where towers meet in several
// tasks, what waits for one tower only belongs to it, and what waits for more comes behind them.
// Branches, and what comes behind them, are cut in the same way, so forks nest. Time is linear in
// tasks and edges.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace tandem::plan {

using TaskIndex = int32_t;

// Either one task, or a fork whose branches (indices of blocks) may run at the same time.
struct ScheduleItem {
  TaskIndex task = -1;
  std::vector<int> branches;
  bool is_fork() const { return !branches.empty(); }
};

// Items run in order.
struct Block {
  int parent = -1;       // the block that forks into this one
  int parent_item = -1;  // and its item
  std::vector<ScheduleItem> items;
};

// A branch that could run beside others and does not.
struct UnforkedBranch {
  TaskIndex longest = -1;  // of its tasks
  int tasks = 0;
  double seconds = 0;
  double task_seconds = 0;  // where its tasks are too large: as ForkGate::most_task_seconds
};

struct Schedule {
  std::vector<Block> blocks;  // 0 is where a run starts
  // Where branches stay in sequence: the longest of them.
  std::vector<UnforkedBranch> unforked;
  int forks() const;
};

// What scheduling needs of a task. Tasks are given in topological order.
struct TaskNode {
  std::vector<TaskIndex> predecessors;
  double seconds = 0;  // estimated for one item
};

// Which branches are worth a fork.
struct ForkGate {
  double least_seconds = 0;  // of a branch; infinity never forks
  // Of the task in which a moment of the branches lies, on the average.
  double most_task_seconds = std::numeric_limits<double>::infinity();
};

Schedule BuildSchedule(std::span<const TaskNode> tasks, const ForkGate& gate);

}  // namespace tandem::plan
