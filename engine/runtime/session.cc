#include "engine/runtime/session.h"

#include <algorithm>

#include "engine/base/check.h"

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

bool HasDynamicOutput(const plan::ShapePlan& shape_plan) {
  return std::ranges::any_of(shape_plan.stage->outputs, [&](plan::ValueIndex output) {
    return shape_plan.values[static_cast<size_t>(output)].storage == plan::Storage::kDynamic;
  });
}

void AddRuns(const TaskRuns& of_part, TaskRuns& sum) {
  sum.resize(of_part.size());
  for (size_t task = 0; task < of_part.size(); ++task) {
    sum[task].time += of_part[task].time;
    for (const std::thread::id thread : of_part[task].threads) {
      auto& known = sum[task].threads;
      if (std::ranges::find(known, thread) == known.end()) known.push_back(thread);
    }
  }
}

// Which task takes the largest piece of the memory that is known beforehand: "node 'c' (Conv): 'y'
// of shape [50,7,8,8] takes 89600 bytes"; "" where none takes any.
std::string LargestPiece(const plan::Plan& plan, const plan::ShapePlan& shape_plan) {
  size_t largest = 0;
  std::string text;
  const auto consider = [&](plan::TaskIndex task, size_t bytes, const auto& describe) {
    if (bytes <= largest) return;
    largest = bytes;
    text = fmt::format("{}: {} takes {} bytes", plan.tasks[static_cast<size_t>(task)].name,
                       describe(), bytes);
  };
  for (size_t task = 0; task < plan.tasks.size(); ++task) {
    const auto index = static_cast<plan::TaskIndex>(task);
    consider(index, shape_plan.tasks[task].scratch_bytes, [] { return "its scratch memory"; });
    for (const plan::ValueIndex output : plan.tasks[task].outputs) {
      if (output == plan::kOmitted) continue;
      const auto v = static_cast<size_t>(output);
      const plan::ValuePlace& place = shape_plan.values[v];
      const bool own =
          place.storage == plan::Storage::kArena || place.storage == plan::Storage::kOutput;
      if (!own) continue;
      consider(index, DTypeBytes(plan.values[v].dtype, place.shape.elements()), [&] {
        return fmt::format("'{}' of shape {}", plan.values[v].name, ToString(place.shape));
      });
    }
  }
  return text;
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

Session::Session(const plan::Plan& plan, const SessionOptions& options, const Parallel& parallel,
                 ArenaPool& arenas)
    : plan_(plan),
      options_(options),
      parallel_(parallel),
      arenas_(arenas),
      shape_plans_(options.shape_plans) {
  for (size_t task = 0; task < plan.tasks.size(); ++task) {
    for (const auto& body : plan.tasks[task].bodies) {
      bodies_[static_cast<plan::TaskIndex>(task)].push_back(
          std::make_unique<const Session>(*body, options, parallel, arenas));
    }
  }
}

StatusOr<std::vector<Tensor>> Session::RunBody(Call call, MemoryBudget budget,
                                               const std::function<bool()>& stopped) const {
  const Session& body = *bodies_.at(call.task)[static_cast<size_t>(call.body)];
  ASSIGN_OR_RETURN(SessionResult result,
                   body.RunStage(body.plan_.whole, call.inputs, std::move(call.memory),
                                 {budget, RunControl{stopped}}));
  return std::move(result.outputs);
}

StatusOr<std::shared_ptr<const plan::ShapePlan>> Session::ShapePlanFor(
    const plan::Stage& stage, std::span<const TensorView> inputs) const {
  ShapePlanCache::Key key{&stage, {}};
  for (const TensorView& input : inputs) key.second.push_back(input.shape());
  if (std::shared_ptr<const plan::ShapePlan> known = shape_plans_.Find(key)) return known;
  ASSIGN_OR_RETURN(std::shared_ptr<const plan::ShapePlan> made,
                   plan::BuildShapePlan({plan_, stage, key.second}, options_.isa, parallel_));
  shape_plans_.Insert(key, made);
  return made;
}

StatusOr<SessionResult> Session::Run(std::span<const TensorView> inputs,
                                     const RunControl& control) const {
  const int64_t part = control.observe ? 0 : PartItems(inputs);
  if (part > 0) return RunParts(inputs, part, control);
  MemoryBudget budget(options_.max_run_bytes);
  return RunStage(plan_.whole, inputs, {}, {budget, control});
}

StatusOr<Parts> Session::PartsOf(std::span<const TensorView> inputs) const {
  const int64_t part = PartItems(inputs);
  if (part > 0) {
    ASSIGN_OR_RETURN(auto of_part, ShapePlanFor(PartStage(), ItemsOf(inputs, 0, part)));
    const int64_t count = (Items(inputs) + part - 1) / part;
    if (!HasDynamicOutput(*of_part)) {
      const size_t bytes = of_part->arena_bytes;
      if (!plan_.cut) return Parts{std::move(of_part), count, bytes};
      ASSIGN_OR_RETURN(auto whole, ShapePlanFor(plan_.whole, inputs));
      ASSIGN_OR_RETURN(auto rest, ShapePlanFor(plan_.cut->rest, inputs));
      const auto arenas = static_cast<size_t>(std::min<int64_t>(count, parallel_.threads()));
      size_t taken = arenas * bytes + rest->arena_bytes;
      for (const plan::ValueIndex output : PartStage().outputs) {
        const auto v = static_cast<size_t>(output);
        if (plan_.values[v].is_output) continue;
        taken += DTypeBytes(plan_.values[v].dtype, whole->values[v].shape.elements());
      }
      return Parts{std::move(whole), count, taken};
    }
  }
  ASSIGN_OR_RETURN(auto shape_plan, ShapePlanFor(plan_.whole, inputs));
  const size_t bytes = shape_plan->arena_bytes;
  return Parts{std::move(shape_plan), 1, bytes};
}

// The inputs of `count` items from item `begin` on; what all items share is whole.
Session::Views Session::ItemsOf(std::span<const TensorView> inputs, int64_t begin,
                                int64_t count) const {
  Views items;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto v = static_cast<size_t>(plan_.whole.inputs[i]);
    const bool rows = plan_.values[v].role == plan::BatchRole::kRows;
    items.push_back(rows ? RowsOf(inputs[i], begin, count) : inputs[i]);
  }
  return items;
}

// Of the batch; 1 where there is none.
int64_t Session::Items(std::span<const TensorView> inputs) const {
  const std::optional<size_t> first = plan::FirstOfItems(plan_);
  return first ? inputs[*first].shape()[0] : 1;
}

// Items of the largest part when a batch is cut for the threads there are, or because the model
// fixes its batch at 1; 0 when it runs whole.
int64_t Session::PartItems(std::span<const TensorView> inputs) const {
  const bool fixed_at_one = plan_.batch.fixed_at_one;
  if (!plan_.batch.joinable && !fixed_at_one && !plan_.cut) return 0;
  const int64_t items = Items(inputs);
  const int64_t threads = parallel_.threads();
  const int64_t part = fixed_at_one ? 1 : (items + threads - 1) / threads;
  const bool worth =
      fixed_at_one || PartStage().seconds * static_cast<double>(part) >= kMinPartSeconds;
  return part == items || !worth ? 0 : part;
}

// Of an output; nothing is known of one whose size depends on data.
size_t Session::OutputBytes(const plan::ShapePlan& shape_plan, plan::ValueIndex output) const {
  const auto v = static_cast<size_t>(output);
  if (shape_plan.values[v].storage == plan::Storage::kDynamic) return 0;
  return DTypeBytes(plan_.values[v].dtype, shape_plan.values[v].shape.elements());
}

Status Session::TakeBytes(const plan::ShapePlan& shape_plan, int64_t parts, size_t output_bytes,
                          MemoryBudget& budget) const {
  const int64_t arenas = std::min<int64_t>(parts, parallel_.threads());
  Status taken = budget.Take(static_cast<size_t>(arenas) * shape_plan.arena_bytes + output_bytes);
  if (taken.ok()) return taken;
  const std::string piece = LargestPiece(plan_, shape_plan);
  return piece.empty() ? taken : Annotate(taken, piece);
}

// Runs the tasks of a stage once. An output that is no tensor yet becomes what the run computes:
// its size depends on data.
StatusOr<TaskRuns> Session::RunPlan(const plan::ShapePlan& shape_plan,
                                    std::span<const TensorView> inputs, std::span<Tensor> outputs,
                                    const RunState& state) const {
  ASSIGN_OR_RETURN(ArenaPool::Lease arena, arenas_.Take(shape_plan.arena_bytes));
  RunValues values(plan_, shape_plan, arena.bytes(), state.budget);
  if (state.control.profile) values.StartProfile();
  for (size_t i = 0; i < inputs.size(); ++i) values.BindInput(i, inputs[i]);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].valid()) values.BindOutput(i, outputs[i].mutable_view());
  }
  const RunScope scope{parallel_, state.control.stopped, *this, state.control.observe};
  RETURN_IF_ERROR(TensorEnv(values, scope).Run());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].valid()) outputs[i] = values.dynamic(shape_plan.stage->outputs[i]);
  }
  return values.TakeTaskRuns();
}

StatusOr<Tensor> Session::Merged(const plan::ShapePlan& shape_plan, plan::ValueIndex value,
                                 int64_t items, int64_t part) const {
  const plan::PlanValue& merged = plan_.values[static_cast<size_t>(value)];
  Shape shape = shape_plan.values[static_cast<size_t>(value)].shape;
  CHECK(shape[0] % part == 0, "'{}' has {} rows for {} items", merged.name, shape[0], part);
  shape[0] = shape[0] / part * items;
  if (merged.is_output) return Tensor::Allocate(merged.dtype, shape);
  ASSIGN_OR_RETURN(ArenaPool::Lease lease,
                   arenas_.Take(DTypeBytes(merged.dtype, shape.elements())));
  auto owner = std::make_shared<ArenaPool::Lease>(std::move(lease));
  return Tensor::Share(owner, merged.dtype, shape, owner->bytes().data());
}

StatusOr<SessionResult> Session::RunParts(std::span<const TensorView> inputs, int64_t part,
                                          const RunControl& control) const {
  const int64_t items = Items(inputs);
  const int64_t parts = (items + part - 1) / part;
  const auto count = [&](int64_t i) { return std::min(part, items - i * part); };
  // At most two sizes of parts, so at most two shape plans. Only shapes matter here: a batch of no
  // items has the shape plan of a part, too.
  std::vector<std::shared_ptr<const plan::ShapePlan>> shape_plans;
  for (const int64_t of_part : {part, parts == 0 ? part : count(parts - 1)}) {
    ASSIGN_OR_RETURN(shape_plans.emplace_back(),
                     ShapePlanFor(PartStage(), ItemsOf(inputs, 0, of_part)));
  }
  MemoryBudget budget(options_.max_run_bytes);
  const RunState state{budget, control};
  if (HasDynamicOutput(*shape_plans[0])) return RunStage(plan_.whole, inputs, {}, state);
  size_t output_bytes = 0;
  for (const plan::ValueIndex output : PartStage().outputs) {
    output_bytes += static_cast<size_t>(parts) * OutputBytes(*shape_plans[0], output);
  }
  RETURN_IF_ERROR(TakeBytes(*shape_plans[0], parts, output_bytes, budget));
  SessionResult result;
  for (const plan::ValueIndex output : PartStage().outputs) {
    ASSIGN_OR_RETURN(result.outputs.emplace_back(), Merged(*shape_plans[0], output, items, part));
  }
  std::vector<StatusOr<TaskRuns>> runs(static_cast<size_t>(parts));
  parallel_.For(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::vector<Tensor> rows;
      for (const Tensor& output : result.outputs) {
        const int64_t rows_of_item = output.shape()[0] / items;
        rows.push_back(output.Rows(i * part * rows_of_item, (i * part + count(i)) * rows_of_item));
      }
      const plan::ShapePlan& shape_plan = *shape_plans[i == parts - 1 ? 1 : 0];
      runs[static_cast<size_t>(i)] =
          RunPlan(shape_plan, ItemsOf(inputs, i * part, count(i)), rows, state);
    }
  });
  for (int64_t i = 0; i < parts; ++i) {
    const StatusOr<TaskRuns>& of_part = runs[static_cast<size_t>(i)];
    if (!of_part.ok()) {
      // What the message counts begins with the part.
      return Annotate(of_part.status(), fmt::format("items {} to {} of {}", i * part,
                                                    i * part + count(i) - 1, items));
    }
    AddRuns(*of_part, result.task_runs);
  }
  if (!plan_.cut) return result;
  ASSIGN_OR_RETURN(SessionResult rest, RunRest(inputs, std::move(result.outputs), state));
  AddRuns(rest.task_runs, result.task_runs);
  result.outputs = std::move(rest.outputs);
  return result;
}

StatusOr<SessionResult> Session::RunRest(std::span<const TensorView> inputs,
                                         std::vector<Tensor> merged, const RunState& state) const {
  const plan::Stage& rest = plan_.cut->rest;
  Views read(inputs.begin(), inputs.end());
  for (const Tensor& tensor : merged) read.push_back(tensor.view());
  std::vector<Tensor> memory(rest.outputs.size());
  for (size_t i = 0; i < rest.outputs.size(); ++i) {
    const auto& parts = plan_.cut->front.outputs;
    const auto found = std::ranges::find(parts, rest.outputs[i]);
    if (found != parts.end()) memory[i] = merged[static_cast<size_t>(found - parts.begin())];
  }
  return RunStage(rest, read, std::move(memory), state);
}

StatusOr<SessionResult> Session::RunStage(const plan::Stage& stage,
                                          std::span<const TensorView> inputs,
                                          std::vector<Tensor> memory, const RunState& state) const {
  ASSIGN_OR_RETURN(const std::shared_ptr<const plan::ShapePlan> shape_plan,
                   ShapePlanFor(stage, inputs.first(plan_.whole.inputs.size())));
  memory.resize(stage.outputs.size());
  size_t output_bytes = 0;
  for (size_t i = 0; i < stage.outputs.size(); ++i) {
    const auto v = static_cast<size_t>(stage.outputs[i]);
    const plan::ValuePlace& place = shape_plan->values[v];
    const bool fits =
        memory[i].dtype() == plan_.values[v].dtype && memory[i].shape() == place.shape;
    if (!fits || place.storage == plan::Storage::kDynamic) memory[i] = Tensor();
    if (!memory[i].valid()) output_bytes += OutputBytes(*shape_plan, stage.outputs[i]);
  }
  RETURN_IF_ERROR(TakeBytes(*shape_plan, 1, output_bytes, state.budget));
  SessionResult result;
  for (size_t i = 0; i < stage.outputs.size(); ++i) {
    const auto v = static_cast<size_t>(stage.outputs[i]);
    const plan::ValuePlace& place = shape_plan->values[v];
    result.outputs.push_back(std::move(memory[i]));
    if (result.outputs.back().valid() || place.storage == plan::Storage::kDynamic) continue;
    ASSIGN_OR_RETURN(result.outputs.back(), Tensor::Allocate(plan_.values[v].dtype, place.shape));
  }
  ASSIGN_OR_RETURN(result.task_runs, RunPlan(*shape_plan, inputs, result.outputs, state));
  return result;
}

}  // namespace tandem::runtime
