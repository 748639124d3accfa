#include "engine/runtime/session.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/runtime/tensor_env.h"

namespace tandem::runtime {
namespace {

// A part of a batch shorter than this is not worth a fork.
constexpr double kMinPartSeconds = 20e-6;

// Rows [begin, begin + count) along axis 0 of a native tensor.
TensorView RowsOf(const TensorView& view, int64_t begin, int64_t count) {
  Shape shape = view.shape();
  const int64_t row = shape.Product(1, shape.rank());
  shape[0] = count;
  const auto* data = static_cast<const std::byte*>(view.raw());
  return {view.dtype(), std::move(shape), data + DTypeBytes(view.dtype(), begin * row)};
}

}  // namespace

std::shared_ptr<const plan::ShapePlan> ShapePlanCache::Find(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto found = index_.find(key);
  if (found == index_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

void ShapePlanCache::Insert(const Key& key, std::shared_ptr<const plan::ShapePlan> plan) {
  const std::lock_guard lock(mutex_);
  if (index_.contains(key)) return;
  entries_.emplace_front(key, std::move(plan));
  index_[key] = entries_.begin();
  if (entries_.size() <= capacity_) return;
  index_.erase(entries_.back().first);
  entries_.pop_back();
}

size_t ShapePlanCache::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

StatusOr<std::shared_ptr<const plan::ShapePlan>> Session::ShapePlanFor(
    std::span<const TensorView> inputs) const {
  ShapePlanCache::Key key;
  for (const TensorView& input : inputs) key.push_back(input.shape());
  if (std::shared_ptr<const plan::ShapePlan> known = shape_plans_.Find(key)) return known;
  ASSIGN_OR_RETURN(std::shared_ptr<const plan::ShapePlan> made,
                   plan::BuildShapePlan(plan_, key, options_.isa, parallel_));
  shape_plans_.Insert(key, made);
  return made;
}

StatusOr<std::vector<Tensor>> Session::Run(std::span<const TensorView> inputs,
                                           const std::function<bool()>& stopped) const {
  if ((plan_.batch.joinable || plan_.batch.fixed_at_one) && !inputs.empty()) {
    const int64_t items = inputs[0].shape()[0];
    if (PartItems(items) != items) return RunParts(inputs, items, stopped);
  }
  return RunWhole(inputs, stopped);
}

// Items of the largest part when a batch is cut for the threads there are, or because the model
// fixes its batch at 1.
int64_t Session::PartItems(int64_t items) const {
  if (plan_.batch.fixed_at_one) return 1;
  const int64_t threads = parallel_.threads();
  const int64_t part = (items + threads - 1) / threads;
  return plan_.item_seconds * static_cast<double>(part) < kMinPartSeconds ? items : part;
}

Status Session::CheckBytes(const plan::ShapePlan& shape_plan, int64_t parts) const {
  if (options_.max_run_bytes == 0) return absl::OkStatus();
  size_t bytes = shape_plan.arena_bytes;
  for (const plan::ValueIndex output : plan_.outputs) {
    const auto v = static_cast<size_t>(output);
    bytes += DTypeBytes(plan_.values[v].dtype, shape_plan.values[v].shape.elements());
  }
  bytes *= static_cast<size_t>(parts);
  if (bytes <= options_.max_run_bytes) return absl::OkStatus();
  return ResourceExhausted("the run needs {} bytes of memory where {} are allowed", bytes,
                           options_.max_run_bytes);
}

// Runs the plan once. An output that is no tensor yet becomes what the run computes: its size
// depends on data.
Status Session::RunPlan(const plan::ShapePlan& shape_plan, std::span<const TensorView> inputs,
                        std::span<Tensor> outputs, const std::function<bool()>& stopped) const {
  ASSIGN_OR_RETURN(ArenaPool::Lease arena, arenas_.Take(shape_plan.arena_bytes));
  RunValues values(plan_, shape_plan, arena.bytes());
  for (size_t i = 0; i < inputs.size(); ++i) values.BindInput(i, inputs[i]);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].valid()) values.BindOutput(i, outputs[i].mutable_view());
  }
  RETURN_IF_ERROR(TensorEnv(values, parallel_, stopped).Run());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].valid()) outputs[i] = values.dynamic(plan_.outputs[i]);
  }
  return absl::OkStatus();
}

StatusOr<std::vector<Tensor>> Session::RunParts(std::span<const TensorView> inputs, int64_t items,
                                                const std::function<bool()>& stopped) const {
  const int64_t part = PartItems(items);
  const int64_t parts = (items + part - 1) / part;
  const auto count = [&](int64_t i) { return std::min(part, items - i * part); };
  // At most two sizes of parts, so at most two shape plans. Only shapes matter here: a batch of no
  // items has the shape plan of a part, too.
  std::vector<std::shared_ptr<const plan::ShapePlan>> shape_plans;
  for (const int64_t rows_of_part : {part, parts == 0 ? part : count(parts - 1)}) {
    Views rows;
    for (const TensorView& input : inputs) rows.push_back(RowsOf(input, 0, rows_of_part));
    ASSIGN_OR_RETURN(shape_plans.emplace_back(), ShapePlanFor(rows));
  }
  RETURN_IF_ERROR(CheckBytes(*shape_plans[0], parts));
  std::vector<Tensor> outputs;
  for (const plan::ValueIndex output : plan_.outputs) {
    const auto v = static_cast<size_t>(output);
    if (shape_plans[0]->values[v].storage == plan::Storage::kDynamic) {
      return RunWhole(inputs, stopped);
    }
    Shape shape = shape_plans[0]->values[v].shape;
    CHECK(shape[0] == part, "output '{}' has {} rows for {} items", plan_.values[v].name, shape[0],
          part);
    shape[0] = items;
    ASSIGN_OR_RETURN(outputs.emplace_back(), Tensor::Allocate(plan_.values[v].dtype, shape));
  }
  std::vector<Status> results(static_cast<size_t>(parts));
  parallel_.For(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Views rows;
      for (const TensorView& input : inputs) rows.push_back(RowsOf(input, i * part, count(i)));
      std::vector<Tensor> merged;
      for (const Tensor& output : outputs) {
        merged.push_back(output.Rows(i * part, i * part + count(i)));
      }
      const plan::ShapePlan& shape_plan = *shape_plans[i == parts - 1 ? 1 : 0];
      results[static_cast<size_t>(i)] = RunPlan(shape_plan, rows, merged, stopped);
    }
  });
  for (const Status& result : results) RETURN_IF_ERROR(result);
  return outputs;
}

StatusOr<std::vector<Tensor>> Session::RunWhole(std::span<const TensorView> inputs,
                                                const std::function<bool()>& stopped) const {
  ASSIGN_OR_RETURN(const std::shared_ptr<const plan::ShapePlan> shape_plan, ShapePlanFor(inputs));
  RETURN_IF_ERROR(CheckBytes(*shape_plan, 1));
  std::vector<Tensor> outputs;
  for (const plan::ValueIndex output : plan_.outputs) {
    const auto v = static_cast<size_t>(output);
    outputs.emplace_back();
    if (shape_plan->values[v].storage == plan::Storage::kDynamic) continue;
    ASSIGN_OR_RETURN(outputs.back(),
                     Tensor::Allocate(plan_.values[v].dtype, shape_plan->values[v].shape));
  }
  RETURN_IF_ERROR(RunPlan(*shape_plan, inputs, outputs, stopped));
  return outputs;
}

}  // namespace tandem::runtime
