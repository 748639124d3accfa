#include "engine/plan/cut.h"

#include <algorithm>

#include "engine/ops/operator.h"

namespace tandem::plan {
namespace {

// A front that shrinks more often than this is given up, so that the time stays linear.
constexpr int kMaxSweeps = 16;

class Cutter {
 public:
  explicit Cutter(const Plan& plan)
      : plan_(plan), front_(plan.tasks.size()), rest_(plan.tasks.size()) {}

  std::optional<Cut> Find() {
    for (size_t task = 0; task < plan_.tasks.size(); ++task) {
      front_[task] = Carries(task);
      rest_[task] = !front_[task] && !Shared(task);
    }
    int sweeps = 0;
    while (Shrink()) {
      if (++sweeps == kMaxSweeps) return std::nullopt;
    }
    AssignShared();
    Cut cut;
    cut.front = MakeStage(front_);
    cut.rest = MakeStage(rest_);
    cut.front.inputs = cut.rest.inputs = plan_.whole.inputs;
    for (size_t value = 0; value < plan_.values.size(); ++value) {
      const TaskIndex def = plan_.values[value].def;
      if (def < 0 || !At(front_, def) || At(rest_, def) || !ReadByRest(plan_.values[value]))
        continue;
      cut.front.outputs.push_back(static_cast<ValueIndex>(value));
      cut.rest.inputs.push_back(static_cast<ValueIndex>(value));
    }
    cut.rest.outputs = plan_.whole.outputs;
    if (cut.front.outputs.empty() || cut.front.seconds == 0) return std::nullopt;
    return cut;
  }

 private:
  static bool At(const std::vector<bool>& tasks, TaskIndex task) {
    return tasks[static_cast<size_t>(task)];
  }

  template <typename Predicate>
  bool AnyOutput(size_t task, Predicate holds) const {
    return std::ranges::any_of(plan_.tasks[task].outputs, [&](ValueIndex output) {
      return output != kOmitted && holds(plan_.values[static_cast<size_t>(output)]);
    });
  }

  // True when the task computes something of each item and nothing of several.
  bool Carries(size_t task) const {
    const auto mixed = [](const PlanValue& value) { return value.role == BatchRole::kMixed; };
    return !Shared(task) && !AnyOutput(task, mixed);
  }
  bool Shared(size_t task) const {
    return !AnyOutput(task, [](const PlanValue& v) { return v.role != BatchRole::kShared; });
  }

  // What only reads a shape finds that of the whole batch without the value.
  bool ReadByRest(const PlanValue& value) const {
    return value.is_output || std::ranges::any_of(value.readers, [&](TaskIndex reader) {
             return At(rest_, reader) && !ops::OpOf(plan_.tasks[static_cast<size_t>(reader)].node)
                                              .traits()
                                              .reads_shapes_only;
           });
  }

  // Moves tasks of the front to the rest: those whose results the rest could not read from merged
  // rows, and those that read what the rest computes. True when there were any.
  bool Shrink() {
    bool shrunk = false;
    const auto move = [&](size_t task) {
      front_[task] = false;
      rest_[task] = true;
      shrunk = true;
    };
    for (size_t task = plan_.tasks.size(); task-- > 0;) {
      const auto stays_apart = [this](const PlanValue& value) {
        const bool rows = value.role == BatchRole::kRows && DTypeBits(value.dtype) >= 8;
        return !rows && ReadByRest(value);
      };
      if (front_[task] && AnyOutput(task, stays_apart)) move(task);
    }
    for (size_t task = 0; task < plan_.tasks.size(); ++task) {
      const bool late = std::ranges::any_of(plan_.tasks[task].inputs, [this](ValueIndex input) {
        if (input == kOmitted) return false;
        const TaskIndex def = plan_.values[static_cast<size_t>(input)].def;
        return def >= 0 && At(rest_, def);
      });
      if (front_[task] && late) move(task);
    }
    return shrunk;
  }

  // What is the same for all items is computed wherever it is read.
  void AssignShared() {
    for (size_t task = plan_.tasks.size(); task-- > 0;) {
      if (!Shared(task)) continue;
      front_[task] = AnyOutput(task, [this](const PlanValue& value) {
        return std::ranges::any_of(value.readers, [this](TaskIndex r) { return At(front_, r); });
      });
      const auto by_rest = [this](const PlanValue& value) { return ReadByRest(value); };
      rest_[task] = !front_[task] || AnyOutput(task, by_rest);
    }
  }

  Stage MakeStage(const std::vector<bool>& runs) const {
    Stage stage;
    stage.runs = runs;
    for (size_t task = 0; task < runs.size(); ++task) {
      if (runs[task]) stage.seconds += plan_.tasks[task].seconds;
    }
    return stage;
  }

  const Plan& plan_;
  std::vector<bool> front_;  // by task
  std::vector<bool> rest_;
};

}  // namespace

std::optional<Cut> FindCut(const Plan& plan) { return Cutter(plan).Find(); }

}  // namespace tandem::plan
