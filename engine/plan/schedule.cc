#include "engine/plan/schedule.h"

#include <algorithm>
#include <numeric>

namespace tandem::plan {
namespace {

class Scheduler {
 public:
  Scheduler(std::span<const TaskNode> tasks, double gate)
      : tasks_(tasks), gate_(gate), successors_(tasks.size()), rank_(tasks.size(), -1) {
    for (size_t task = 0; task < tasks.size(); ++task) {
      for (const TaskIndex before : tasks[task].predecessors) {
        successors_[static_cast<size_t>(before)].push_back(static_cast<TaskIndex>(task));
      }
    }
  }

  Schedule Run() {
    schedule_.blocks.emplace_back();
    std::vector<TaskIndex> all(tasks_.size());
    std::iota(all.begin(), all.end(), 0);
    EmitComponents(0, all);
    return std::move(schedule_);
  }

 private:
  using Tasks = std::vector<TaskIndex>;

  double Seconds(const Tasks& tasks) const {
    double seconds = 0;
    for (const TaskIndex task : tasks) seconds += tasks_[static_cast<size_t>(task)].seconds;
    return seconds;
  }

  // Positions of `tasks` within themselves; -1 for all other tasks.
  void Rank(const Tasks& tasks) {
    for (size_t i = 0; i < tasks.size(); ++i) {
      rank_[static_cast<size_t>(tasks[i])] = static_cast<int>(i);
    }
  }
  void Unrank(const Tasks& tasks) {
    for (const TaskIndex task : tasks) rank_[static_cast<size_t>(task)] = -1;
  }

  // `tasks` split where no path connects them, each part in its order.
  std::vector<Tasks> Components(const Tasks& tasks) {
    Rank(tasks);
    std::vector<int> root(tasks.size());
    std::iota(root.begin(), root.end(), 0);
    const auto find = [&root](int i) {
      while (root[static_cast<size_t>(i)] != i) {
        root[static_cast<size_t>(i)] = root[static_cast<size_t>(root[static_cast<size_t>(i)])];
        i = root[static_cast<size_t>(i)];
      }
      return i;
    };
    for (size_t i = 0; i < tasks.size(); ++i) {
      for (const TaskIndex before : tasks_[static_cast<size_t>(tasks[i])].predecessors) {
        const int other = rank_[static_cast<size_t>(before)];
        if (other >= 0) root[static_cast<size_t>(find(static_cast<int>(i)))] = find(other);
      }
    }
    std::vector<Tasks> components;
    std::vector<int> index(tasks.size(), -1);
    for (size_t i = 0; i < tasks.size(); ++i) {
      int& component = index[static_cast<size_t>(find(static_cast<int>(i)))];
      if (component < 0) {
        component = static_cast<int>(components.size());
        components.emplace_back();
      }
      components[static_cast<size_t>(component)].push_back(tasks[i]);
    }
    Unrank(tasks);
    return components;
  }

  // Marks the tasks that are comparable with every other one: everything before is an ancestor,
  // everything behind a descendant. In a topological order that is so when the task is the only
  // sink of the tasks up to it and the only source of the tasks from it on.
  std::vector<bool> Bottlenecks(const Tasks& tasks) {
    Rank(tasks);
    const size_t n = tasks.size();
    std::vector<bool> only_sink(n), only_source(n);
    std::vector<int> unread(n, 0);
    int sinks = 0;
    for (size_t i = 0; i < n; ++i) {
      for (const TaskIndex before : tasks_[static_cast<size_t>(tasks[i])].predecessors) {
        const int other = rank_[static_cast<size_t>(before)];
        if (other >= 0 && unread[static_cast<size_t>(other)] == 1) {
          unread[static_cast<size_t>(other)] = 0;
          --sinks;
        }
      }
      unread[i] = 1;
      ++sinks;
      only_sink[i] = sinks == 1;
    }
    std::vector<int> unfed(n, 0);
    int sources = 0;
    for (size_t i = n; i-- > 0;) {
      for (const TaskIndex after : successors_[static_cast<size_t>(tasks[i])]) {
        const int other = rank_[static_cast<size_t>(after)];
        if (other >= 0 && unfed[static_cast<size_t>(other)] == 1) {
          unfed[static_cast<size_t>(other)] = 0;
          --sources;
        }
      }
      unfed[i] = 1;
      ++sources;
      only_source[i] = sources == 1;
    }
    Unrank(tasks);
    std::vector<bool> bottleneck(n);
    for (size_t i = 0; i < n; ++i) bottleneck[i] = only_sink[i] && only_source[i];
    return bottleneck;
  }

  void EmitTask(int block, TaskIndex task) {
    schedule_.blocks[static_cast<size_t>(block)].items.push_back({task, {}});
  }

  // Tasks that may fall apart: forks what is worth it, the rest goes one after the other.
  void EmitComponents(int block, const Tasks& tasks) {
    std::vector<Tasks> components = Components(tasks);
    std::vector<Tasks> heavy;
    for (Tasks& component : components) {
      if (components.size() > 1 && Seconds(component) >= gate_) {
        heavy.push_back(std::move(component));
      } else {
        EmitConnected(block, component);
      }
    }
    if (heavy.size() == 1) {
      EmitConnected(block, heavy[0]);
    } else if (heavy.size() > 1) {
      EmitFork(block, heavy);
    }
  }

  void EmitFork(int block, const std::vector<Tasks>& branches) {
    ScheduleItem fork;
    const auto item = static_cast<int>(schedule_.blocks[static_cast<size_t>(block)].items.size());
    for (size_t i = 0; i < branches.size(); ++i) {
      fork.branches.push_back(static_cast<int>(schedule_.blocks.size()));
      schedule_.blocks.push_back({block, item, {}});
    }
    const std::vector<int> blocks = fork.branches;
    schedule_.blocks[static_cast<size_t>(block)].items.push_back(std::move(fork));
    for (size_t i = 0; i < branches.size(); ++i) EmitConnected(blocks[i], branches[i]);
  }

  // Tasks without readers among `tasks` that together are below the gate, and all others.
  struct LightEnds {
    Tasks ends;
    Tasks rest;
  };
  LightEnds SplitLightEnds(const Tasks& tasks) {
    Rank(tasks);
    LightEnds split;
    double seconds = 0;
    for (const TaskIndex task : tasks) {
      const bool read = std::ranges::any_of(
          successors_[static_cast<size_t>(task)],
          [this](TaskIndex after) { return rank_[static_cast<size_t>(after)] >= 0; });
      const double sum = seconds + tasks_[static_cast<size_t>(task)].seconds;
      const bool ends = !read && sum < gate_;
      if (ends) seconds = sum;
      (ends ? split.ends : split.rest).push_back(task);
    }
    Unrank(tasks);
    return split;
  }

  bool FallsApart(const Tasks& tasks) {
    if (Components(tasks).size() > 1) return true;
    const std::vector<bool> bottleneck = Bottlenecks(tasks);
    return std::ranges::find(bottleneck, true) != bottleneck.end();
  }

  // Tasks that hang together: bottlenecks cut them into segments. Where there are none because an
  // output is made of a value on the way, that comes last, and the others may fall apart.
  void EmitConnected(int block, const Tasks& tasks) {
    const std::vector<bool> bottleneck = Bottlenecks(tasks);
    if (std::ranges::find(bottleneck, true) != bottleneck.end()) {
      EmitSegments(block, tasks, bottleneck);
      return;
    }
    LightEnds split = SplitLightEnds(tasks);
    if (!split.ends.empty() && FallsApart(split.rest)) {
      EmitComponents(block, split.rest);
    } else {
      split.ends = tasks;
    }
    for (const TaskIndex task : split.ends) EmitTask(block, task);
  }

  void EmitSegments(int block, const Tasks& tasks, const std::vector<bool>& bottleneck) {
    Tasks segment;
    for (size_t i = 0; i < tasks.size(); ++i) {
      if (!bottleneck[i]) {
        segment.push_back(tasks[i]);
        continue;
      }
      if (!segment.empty()) EmitComponents(block, segment);
      segment.clear();
      EmitTask(block, tasks[i]);
    }
    if (!segment.empty()) EmitComponents(block, segment);
  }

  std::span<const TaskNode> tasks_;
  const double gate_;
  std::vector<std::vector<TaskIndex>> successors_;
  std::vector<int> rank_;
  Schedule schedule_;
};

}  // namespace

int Schedule::forks() const {
  int count = 0;
  for (const Block& block : blocks) {
    for (const ScheduleItem& item : block.items) count += item.is_fork() ? 1 : 0;
  }
  return count;
}

Schedule BuildSchedule(std::span<const TaskNode> tasks, double fork_gate_seconds) {
  return Scheduler(tasks, fork_gate_seconds).Run();
}

}  // namespace tandem::plan
