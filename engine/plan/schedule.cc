#include "engine/plan/schedule.h"

#include <algorithm>
#include <numeric>

namespace tandem::plan {
namespace {

class Scheduler {
 public:
  Scheduler(std::span<const TaskNode> tasks, const ForkGate& gate)
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

  // The component of each task, counted in their order: no path connects two components.
  std::vector<int> ComponentOf(const Tasks& tasks) {
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
    Unrank(tasks);
    int components = 0;
    std::vector<int> index(tasks.size(), -1);
    std::vector<int> component(tasks.size());
    for (size_t i = 0; i < tasks.size(); ++i) {
      int& of_root = index[static_cast<size_t>(find(static_cast<int>(i)))];
      if (of_root < 0) of_root = components++;
      component[i] = of_root;
    }
    return component;
  }

  // The tasks of each group in their order, by what `group` says of each.
  static std::vector<Tasks> Split(const Tasks& tasks, const std::vector<int>& group) {
    std::vector<Tasks> groups(static_cast<size_t>(Count(group)));
    for (size_t i = 0; i < tasks.size(); ++i) {
      groups[static_cast<size_t>(group[i])].push_back(tasks[i]);
    }
    return groups;
  }

  static int Count(const std::vector<int>& group) { return 1 + *std::ranges::max_element(group); }

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

  void EmitSequence(int block, const Tasks& tasks) {
    for (const TaskIndex task : tasks) {
      schedule_.blocks[static_cast<size_t>(block)].items.push_back({task, {}});
    }
  }

  // Tasks that may fall apart.
  void EmitComponents(int block, const Tasks& tasks) {
    if (tasks.empty()) return;
    const std::vector<int> component = ComponentOf(tasks);
    if (Count(component) == 1) {
      EmitConnected(block, tasks);
    } else {
      EmitBranches(block, Split(tasks, component));
    }
  }

  // Branches that do not wait for each other: forks what is worth it, the rest goes first.
  void EmitBranches(int block, const std::vector<Tasks>& branches) {
    const std::vector<Tasks> heavy = EmitLight(block, branches);
    if (heavy.size() == 1) {
      EmitConnected(block, heavy[0]);
    } else if (heavy.size() > 1) {
      const std::vector<int> blocks = BlocksOf(block, heavy);
      for (size_t i = 0; i < heavy.size(); ++i) EmitConnected(blocks[i], heavy[i]);
    }
  }

  // Runs the branches that are not worth a fork one after the other, and returns the others.
  std::vector<Tasks> EmitLight(int block, const std::vector<Tasks>& branches) {
    std::vector<Tasks> heavy;
    UnforkedBranch longest;
    for (const Tasks& branch : branches) {
      const double seconds = Seconds(branch);
      if (seconds >= gate_.least_seconds) {
        heavy.push_back(branch);
        continue;
      }
      EmitSequence(block, branch);
      if (seconds > longest.seconds) longest = Unforked(branch);
    }
    if (branches.size() > 1 && longest.seconds > 0) schedule_.unforked.push_back(longest);
    return heavy;
  }

  UnforkedBranch Unforked(const Tasks& branch) const {
    const TaskIndex longest = *std::ranges::max_element(
        branch, {}, [this](TaskIndex index) { return tasks_[static_cast<size_t>(index)].seconds; });
    return {longest, static_cast<int>(branch.size()), Seconds(branch)};
  }

  // How long the task takes in which a moment of the branches lies, on the average.
  double TaskSeconds(const std::vector<Tasks>& branches) const {
    double sum = 0;
    double of_squares = 0;
    for (const Tasks& branch : branches) {
      for (const TaskIndex task : branch) {
        const double seconds = tasks_[static_cast<size_t>(task)].seconds;
        sum += seconds;
        of_squares += seconds * seconds;
      }
    }
    return sum == 0 ? 0 : of_squares / sum;
  }

  // The blocks of heavy branches: those of a fork or, where none is worth it, `block` for all.
  std::vector<int> BlocksOf(int block, const std::vector<Tasks>& branches) {
    const double task_seconds = TaskSeconds(branches);
    if (task_seconds <= gate_.most_task_seconds) return EmitFork(block, branches.size());
    UnforkedBranch longest;
    for (const Tasks& branch : branches) {
      if (Seconds(branch) > longest.seconds) longest = Unforked(branch);
    }
    longest.task_seconds = task_seconds;
    schedule_.unforked.push_back(longest);
    return std::vector<int>(branches.size(), block);
  }

  // The blocks of the branches.
  std::vector<int> EmitFork(int block, size_t branches) {
    std::vector<int> blocks;
    const auto item = static_cast<int>(schedule_.blocks[static_cast<size_t>(block)].items.size());
    for (size_t i = 0; i < branches; ++i) {
      blocks.push_back(static_cast<int>(schedule_.blocks.size()));
      schedule_.blocks.push_back({block, item, {}});
    }
    schedule_.blocks[static_cast<size_t>(block)].items.push_back({-1, blocks});
    return blocks;
  }

  // Tasks that hang together. Bottlenecks of the trunk cut them into segments; else the trunk may
  // fall apart; else its towers meet more than once.
  void EmitConnected(int block, const Tasks& tasks) {
    looked_at_ += tasks.size();
    if (looked_at_ > kLooks * tasks_.size()) {
      EmitLevels(block, tasks);
      return;
    }
    const std::vector<bool> is_trunk = Trunk(tasks);
    Tasks trunk;
    for (size_t i = 0; i < tasks.size(); ++i) {
      if (is_trunk[i]) trunk.push_back(tasks[i]);
    }
    const std::vector<bool> bottleneck = Bottlenecks(trunk);
    if (std::ranges::find(bottleneck, true) != bottleneck.end()) {
      EmitSegments(block, tasks, is_trunk, bottleneck);
      return;
    }
    const std::vector<int> tower = ComponentOf(trunk);
    if (Count(tower) > 1) {
      EmitTowers(block, tasks, is_trunk, tower);
    } else {
      EmitFront(block, tasks);
    }
  }

  // Marks the tasks that take at least the gate together with all that waits for them among
  // `tasks`. The others are light ends: what makes an output of a value on the way. If there are
  // no others, all are marked.
  std::vector<bool> Trunk(const Tasks& tasks) {
    Rank(tasks);
    std::vector<double> seconds(tasks.size());  // at least: what is met twice counts twice
    std::vector<bool> trunk(tasks.size());
    for (size_t i = tasks.size(); i-- > 0;) {
      seconds[i] = tasks_[static_cast<size_t>(tasks[i])].seconds;
      for (const TaskIndex after : successors_[static_cast<size_t>(tasks[i])]) {
        const int other = rank_[static_cast<size_t>(after)];
        if (other >= 0) seconds[i] += seconds[static_cast<size_t>(other)];
      }
      trunk[i] = seconds[i] >= gate_.least_seconds;
    }
    Unrank(tasks);
    if (std::ranges::find(trunk, true) == trunk.end()) trunk.assign(tasks.size(), true);
    return trunk;
  }

  // Groups of all tasks from those of the trunk. An end belongs where `join` puts the groups of
  // what it reads; one that reads none of the tasks belongs to group 0.
  template <typename Join>
  std::vector<int> GroupEnds(const Tasks& tasks, const std::vector<bool>& is_trunk,
                             std::span<const int> trunk_groups, Join join) {
    Rank(tasks);
    std::vector<int> group(tasks.size(), 0);
    size_t of_trunk = 0;
    for (size_t i = 0; i < tasks.size(); ++i) {
      if (is_trunk[i]) {
        group[i] = trunk_groups[of_trunk++];
        continue;
      }
      for (const TaskIndex before : tasks_[static_cast<size_t>(tasks[i])].predecessors) {
        const int other = rank_[static_cast<size_t>(before)];
        if (other >= 0) group[i] = join(group[i], group[static_cast<size_t>(other)]);
      }
    }
    Unrank(tasks);
    return group;
  }

  // What lies between two bottlenecks may fall apart; so may a bottleneck's ends, which follow it.
  void EmitSegments(int block, const Tasks& tasks, const std::vector<bool>& is_trunk,
                    const std::vector<bool>& bottleneck) {
    std::vector<int> group;  // even between bottlenecks, odd at one
    int passed = 0;
    for (const bool here : bottleneck) {
      group.push_back(here ? 2 * passed++ + 1 : 2 * passed);
    }
    const auto later = [](int a, int b) { return std::max(a, b); };
    const std::vector<Tasks> segments = Split(tasks, GroupEnds(tasks, is_trunk, group, later));
    for (size_t i = 0; i < segments.size(); ++i) {
      if (i % 2 == 0) {
        EmitComponents(block, segments[i]);
      } else {
        EmitSequence(block, {segments[i].front()});
        EmitComponents(block, {segments[i].begin() + 1, segments[i].end()});
      }
    }
  }

  // Components of the trunk, each with the ends that read nothing else. Ends that read no tower
  // come first, those that read several last.
  void EmitTowers(int block, const Tasks& tasks, const std::vector<bool>& is_trunk,
                  std::vector<int> tower) {
    for (int& index : tower) ++index;
    const int several = Count(tower);
    const auto only = [several](int a, int b) {
      if (a == 0 || b == 0 || a == b) return std::max(a, b);
      return several;
    };
    std::vector<Tasks> groups = Split(tasks, GroupEnds(tasks, is_trunk, tower, only));
    groups.resize(static_cast<size_t>(several) + 1);
    EmitComponents(block, groups.front());
    EmitBranches(block, {groups.begin() + 1, groups.end() - 1});
    EmitComponents(block, groups.back());
  }

  // Towers, level by level. A task that reads nothing starts a tower of level 0, one that reads a
  // single tower of the highest level it reads belongs to it, and one that reads several of that
  // level starts a tower of the next.
  std::vector<std::vector<Tasks>> Levels(const Tasks& tasks) {
    Rank(tasks);
    struct Place {
      int level = -1;
      int tower = -1;
    };
    std::vector<Place> places(tasks.size());
    std::vector<std::vector<Tasks>> levels;
    for (size_t i = 0; i < tasks.size(); ++i) {
      Place& place = places[i];
      bool several = false;
      for (const TaskIndex before : tasks_[static_cast<size_t>(tasks[i])].predecessors) {
        const int other = rank_[static_cast<size_t>(before)];
        if (other < 0) continue;
        const Place& read = places[static_cast<size_t>(other)];
        if (read.level > place.level) {
          place = read;
          several = false;
        } else if (read.level == place.level && read.tower != place.tower) {
          several = true;
        }
      }
      if (several || place.level < 0) {
        const auto level = static_cast<size_t>(++place.level);
        if (level == levels.size()) levels.emplace_back();
        place.tower = static_cast<int>(levels[level].size());
        levels[level].emplace_back();
      }
      levels[static_cast<size_t>(place.level)][static_cast<size_t>(place.tower)].push_back(
          tasks[i]);
    }
    Unrank(tasks);
    return levels;
  }

  // Towers that wait for nothing run before all others. Light ones run first: without them the
  // heavy ones may be longer.
  void EmitFront(int block, const Tasks& tasks) {
    const std::vector<Tasks> front = std::move(Levels(tasks)[0]);
    const std::vector<Tasks> heavy = EmitLight(block, front);
    const bool only_heavy = heavy.size() == front.size();
    if (only_heavy) {
      const std::vector<int> blocks = BlocksOf(block, heavy);
      for (size_t i = 0; i < heavy.size(); ++i) EmitConnected(blocks[i], heavy[i]);
    }
    std::vector<bool> done(tasks.size(), false);
    Rank(tasks);
    for (const Tasks& tower : front) {
      if (!only_heavy && Seconds(tower) >= gate_.least_seconds) continue;
      for (const TaskIndex task : tower) {
        done[static_cast<size_t>(rank_[static_cast<size_t>(task)])] = true;
      }
    }
    Unrank(tasks);
    Tasks rest;
    for (size_t i = 0; i < tasks.size(); ++i) {
      if (!done[i]) rest.push_back(tasks[i]);
    }
    EmitComponents(block, rest);
  }

  // As EmitFront, but looks at each task once.
  void EmitLevels(int block, const Tasks& tasks) {
    for (const std::vector<Tasks>& level : Levels(tasks)) {
      const std::vector<Tasks> heavy = EmitLight(block, level);
      if (heavy.size() == 1) EmitSequence(block, heavy[0]);
      if (heavy.size() < 2) continue;
      const std::vector<int> blocks = BlocksOf(block, heavy);
      for (size_t i = 0; i < heavy.size(); ++i) EmitSequence(blocks[i], heavy[i]);
    }
  }

  // Sets are looked at until they add up to so many times all tasks, so that the time stays linear
  // however deep the graph is nested; what is left then takes one more look.
  static constexpr size_t kLooks = 32;

  std::span<const TaskNode> tasks_;
  const ForkGate gate_;
  std::vector<std::vector<TaskIndex>> successors_;
  std::vector<int> rank_;
  size_t looked_at_ = 0;
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

Schedule BuildSchedule(std::span<const TaskNode> tasks, const ForkGate& gate) {
  return Scheduler(tasks, gate).Run();
}

}  // namespace tandem::plan
