// Graphs of tasks for tests of the schedule.
#pragma once

#include <utility>
#include <vector>

#include "engine/plan/schedule.h"

namespace tandem::plan::test {

inline TaskNode Heavy(std::vector<TaskIndex> predecessors) {
  return {std::move(predecessors), 1e-3};
}
inline TaskNode Light(std::vector<TaskIndex> predecessors) {
  return {std::move(predecessors), 1e-9};
}

// Two chains that cross at every step.
inline std::vector<TaskNode> Braid(TaskIndex count) {
  std::vector<TaskNode> tasks = {Heavy({}), Heavy({})};
  for (TaskIndex i = 2; i < count; i += 2) {
    tasks.push_back(Heavy({i - 2, i - 1}));
    tasks.push_back(Heavy({i - 2, i - 1}));
  }
  return tasks;
}

// A chain with an output taken at every step.
inline std::vector<TaskNode> ChainOfOutputs(TaskIndex count) {
  std::vector<TaskNode> tasks = {Heavy({})};
  for (TaskIndex i = 1; i < count; i += 2) {
    tasks.push_back(Light({i - 1}));
    tasks.push_back(Heavy({i - 1}));
  }
  return tasks;
}

// Blocks of a light and a heavy branch that meet in two tasks.
inline std::vector<TaskNode> Blocks(TaskIndex count) {
  std::vector<TaskNode> tasks = {Heavy({}), Heavy({})};
  for (TaskIndex i = 2; i < count; i += 4) {
    tasks.push_back(Light({i - 2, i - 1}));
    tasks.push_back(Heavy({i - 2, i - 1}));
    tasks.push_back(Heavy({i, i + 1}));
    tasks.push_back(Heavy({i, i + 1}));
  }
  return tasks;
}

// Each fork within a branch of the one before, with what joins them behind.
inline std::vector<TaskNode> Nest(TaskIndex count) {
  const TaskIndex depth = count / 3;
  std::vector<TaskNode> tasks = {Heavy({})};
  for (TaskIndex i = 0; i < depth; ++i) {
    tasks.push_back(Heavy({2 * i}));
    tasks.push_back(Heavy({2 * i}));
  }
  for (TaskIndex i = depth; i-- > 0;) {
    tasks.push_back(Heavy({static_cast<TaskIndex>(tasks.size()) - 1, 2 * i + 1}));
  }
  return tasks;
}

}  // namespace tandem::plan::test
