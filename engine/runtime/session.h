// A session answers requests with one plan: it checks inputs, finds the shape plan, cuts a batch
// into parts and runs them on environments of their own, each writing its rows of the outputs in
// place.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/plan/shape_plan.h"
#include "engine/runtime/arena_pool.h"

namespace tandem::runtime {

// Shape plans by input shapes; the least recently used goes first. Thread-safe.
class ShapePlanCache {
 public:
  explicit ShapePlanCache(size_t capacity) : capacity_(capacity) {}
  using Key = std::vector<Shape>;
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
  size_t max_run_bytes = 0;  // of arenas and outputs of one run; 0: no limit
};

// Thread-safe.
class Session {
 public:
  // `plan`, `parallel` and `arenas` outlive the session.
  Session(const plan::Plan& plan, const SessionOptions& options, const Parallel& parallel,
          ArenaPool& arenas)
      : plan_(plan),
        options_(options),
        parallel_(parallel),
        arenas_(arenas),
        shape_plans_(options.shape_plans) {}

  // All outputs of the plan for `inputs`, in the plan's order of inputs; they have been validated.
  StatusOr<std::vector<Tensor>> Run(std::span<const TensorView> inputs,
                                    const std::function<bool()>& stopped) const;

 private:
  using Views = std::vector<TensorView>;

  StatusOr<std::shared_ptr<const plan::ShapePlan>> ShapePlanFor(
      std::span<const TensorView> inputs) const;
  StatusOr<std::vector<Tensor>> RunWhole(std::span<const TensorView> inputs,
                                         const std::function<bool()>& stopped) const;
  StatusOr<std::vector<Tensor>> RunParts(std::span<const TensorView> inputs, int64_t items,
                                         const std::function<bool()>& stopped) const;
  Status RunPlan(const plan::ShapePlan& shape_plan, std::span<const TensorView> inputs,
                 std::span<Tensor> outputs, const std::function<bool()>& stopped) const;
  int64_t PartItems(int64_t items) const;
  Status CheckBytes(const plan::ShapePlan& shape_plan, int64_t parts) const;

  const plan::Plan& plan_;
  const SessionOptions options_;
  const Parallel& parallel_;
  ArenaPool& arenas_;
  mutable ShapePlanCache shape_plans_;
};

}  // namespace tandem::runtime
