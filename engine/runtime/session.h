// A session answers requests with one plan: it checks inputs, finds the shape plan, cuts a batch
// into parts and runs them on environments of their own, each writing its rows of the outputs in
// place. Where the batch ends on the way, the parts run up to there, and the rest runs once.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/plan/shape_plan.h"
#include "engine/runtime/arena_pool.h"
#include "engine/runtime/memory_budget.h"
#include "engine/runtime/tensor_env.h"

namespace tandem::runtime {

// Shape plans by stage and input shapes; the least recently used goes first. Thread-safe.
class ShapePlanCache {
 public:
  explicit ShapePlanCache(size_t capacity) : capacity_(capacity) {}
  using Key = std::pair<const plan::Stage*, std::vector<Shape>>;
  std::shared_ptr<const plan::ShapePlan> Find(const Key& key);
  void Insert(const Key& key, std::shared_ptr<const plan::ShapePlan> plan);
  size_t size() const;

 private:
  using Entry = std::pair<Key, std::shared_ptr<const plan::ShapePlan>>;
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  absl::flat_hash_map<Key, std::list<Entry>::iterator> index_;
};

struct SessionOptions {
  Isa isa = Isa::kReference;
  size_t shape_plans = 64;
  // Of arenas, outputs and what is allocated on the way, of one run; 0: no limit.
  size_t max_run_bytes = 0;
};

struct RunControl {
  const std::function<bool()>& stopped;  // may be empty
  bool profile = false;
  Observer observe = {};  // such a run is whole and takes no forks
};

struct SessionResult {
  std::vector<Tensor> outputs;  // of the plan, in its order
  TaskRuns task_runs;           // by task, over all parts; empty without profile
};

// How a batch is cut: into `count` parts, all of the shapes of `shape_plan` but for the last. Where
// it ends on the way, `shape_plan` is that of the whole batch.
struct Parts {
  std::shared_ptr<const plan::ShapePlan> shape_plan;
  int64_t count = 1;
  size_t arena_bytes = 0;  // of one part; where the batch ends on the way, of the run
};

// Thread-safe. The bodies of control flow have sessions of their own, with their own shape plans.
class Session final : private BodyRunner {
 public:
  // `plan`, `parallel` and `arenas` outlive the session.
  Session(const plan::Plan& plan, const SessionOptions& options, const Parallel& parallel,
          ArenaPool& arenas);

  // `inputs` stand in the plan's order; they have been validated.
  StatusOr<SessionResult> Run(std::span<const TensorView> inputs, const RunControl& control) const;

  // What Run would do with inputs of these shapes.
  StatusOr<Parts> PartsOf(std::span<const TensorView> inputs) const;

 private:
  using Views = std::vector<TensorView>;

  // `inputs` are those of the plan.
  StatusOr<std::shared_ptr<const plan::ShapePlan>> ShapePlanFor(
      const plan::Stage& stage, std::span<const TensorView> inputs) const;
  // What the threads of one run share.
  struct RunState {
    MemoryBudget& budget;
    const RunControl& control;
  };
  // One run of a stage on all it reads. Outputs that fit a tensor of `memory`, by output, are
  // written there.
  StatusOr<SessionResult> RunStage(const plan::Stage& stage, std::span<const TensorView> inputs,
                                   std::vector<Tensor> memory, const RunState& state) const;
  StatusOr<std::vector<Tensor>> RunBody(Call call, MemoryBudget budget,
                                        const std::function<bool()>& stopped) const override;
  StatusOr<SessionResult> RunParts(std::span<const TensorView> inputs, int64_t part,
                                   const RunControl& control) const;
  // Runs what comes behind the parts, which left `merged`.
  StatusOr<SessionResult> RunRest(std::span<const TensorView> inputs, std::vector<Tensor> merged,
                                  const RunState& state) const;
  StatusOr<TaskRuns> RunPlan(const plan::ShapePlan& shape_plan, std::span<const TensorView> inputs,
                             std::span<Tensor> outputs, const RunState& state) const;
  // What a part of a batch runs.
  const plan::Stage& PartStage() const { return plan_.cut ? plan_.cut->front : plan_.whole; }
  Views ItemsOf(std::span<const TensorView> inputs, int64_t begin, int64_t count) const;
  int64_t Items(std::span<const TensorView> inputs) const;
  int64_t PartItems(std::span<const TensorView> inputs) const;
  // Memory for what the parts of `shape_plan` compute.
  StatusOr<Tensor> Merged(const plan::ShapePlan& shape_plan, plan::ValueIndex value, int64_t items,
                          int64_t part) const;
  size_t OutputBytes(const plan::ShapePlan& shape_plan, plan::ValueIndex output) const;
  // Counts what is known beforehand of a run in `parts` of one shape plan, which allocates so many
  // bytes for outputs.
  Status TakeBytes(const plan::ShapePlan& shape_plan, int64_t parts, size_t output_bytes,
                   MemoryBudget& budget) const;

  const plan::Plan& plan_;
  const SessionOptions options_;
  const Parallel& parallel_;
  ArenaPool& arenas_;
  mutable ShapePlanCache shape_plans_;
  // Of the bodies of each task that has some.
  std::map<plan::TaskIndex, std::vector<std::unique_ptr<const Session>>> bodies_;
};

}  // namespace tandem::runtime
