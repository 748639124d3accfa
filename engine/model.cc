#include "engine/model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "engine/base/check.h"

namespace tandem {
namespace {

Port DescribePort(const std::string& name, const graph::Value& value) {
  Port port;
  port.name = name;
  port.dtype = value.type.dtype;
  if (value.type.dims) {
    port.dims = *value.type.dims;
  } else {
    port.rank_known = false;
  }
  port.optional = value.is_input && value.constant != nullptr;
  return port;
}

const Tensor* FindTensor(std::span<const NamedTensor> tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  return found == tensors.end() ? nullptr : &found->tensor;
}

std::string PortNames(const std::vector<Port>& ports) {
  std::vector<std::string> names;
  for (const Port& port : ports) names.push_back(fmt::format("'{}'", port.name));
  return fmt::format("{}", fmt::join(names, ", "));
}

Status CheckShape(const Port& port, const Shape& shape, bool any_batch,
                  std::map<std::string, std::pair<int64_t, std::string>>& symbols) {
  if (!port.rank_known) return absl::OkStatus();
  if (shape.rank() != static_cast<int>(port.dims.size())) {
    return InvalidArgument("input '{}' has rank {} (shape {}) where rank {} (shape {}) is expected",
                           port.name, shape.rank(), ToString(shape), port.dims.size(),
                           graph::ToString(port.dims));
  }
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const graph::Dim& dim = port.dims[static_cast<size_t>(axis)];
    const bool is_batch = axis == 0 && any_batch;
    if (!is_batch && dim.is_number() && dim.number() != shape[axis]) {
      return InvalidArgument(
          "input '{}' has shape {} where {} is expected: extent {} is {}, not {}", port.name,
          ToString(shape), graph::ToString(port.dims), axis, shape[axis], dim.number());
    }
    if (!is_batch && (!dim.is_symbol() || dim.coefficient() != 1)) continue;
    // No symbol is empty.
    const std::string symbol = is_batch ? "" : dim.symbol();
    const auto [known, added] = symbols.try_emplace(symbol, shape[axis], port.name);
    if (!added && known->second.first != shape[axis]) {
      return InvalidArgument("input '{}' has extent {} on axis {} where input '{}' has {} for {}",
                             port.name, shape[axis], axis, known->second.second,
                             known->second.first,
                             is_batch ? "the batch" : fmt::format("'{}'", symbol));
    }
  }
  return absl::OkStatus();
}

// Every extent of the plan is known but for the batch of a joinable model, and nothing runs a
// number of times that is not known: the work of an item does not depend on the request.
bool KnowsWork(const plan::Plan& plan) {
  if (!std::ranges::all_of(plan.tasks, [](const auto& task) { return task.bodies.empty(); })) {
    return false;
  }
  graph::Dim items;
  if (plan.batch.joinable)
    items = plan.values[static_cast<size_t>(plan.whole.inputs[0])].dims->front();
  return std::ranges::all_of(plan.values, [&](const plan::PlanValue& value) {
    return value.dims && std::ranges::all_of(*value.dims, [&](const graph::Dim& dim) {
             return dim.is_number() || dim.SameAs(items);
           });
  });
}

// A view for each input of the plan: what the request names, else the default.
std::vector<TensorView> ViewsOf(const plan::Plan& plan, std::span<const NamedTensor> inputs) {
  std::vector<TensorView> views;
  for (size_t i = 0; i < plan.whole.inputs.size(); ++i) {
    const Tensor* tensor = FindTensor(inputs, plan.input_names[i]);
    views.push_back(tensor != nullptr ? tensor->view() : plan.defaults[i]->view());
  }
  return views;
}

// Items of a request to a model that fixes its batch at one; 1 for all other models.
int64_t FixedAtOneItems(const plan::Plan& plan, const std::vector<TensorView>& views) {
  return plan.batch.fixed_at_one ? views[*plan::FirstOfItems(plan)].shape()[0] : 1;
}

std::vector<TaskTime> Profile(const plan::Plan& plan, const runtime::TaskRuns& runs) {
  std::vector<TaskTime> profile;
  profile.reserve(runs.size());
  std::vector<std::thread::id> threads;
  for (size_t task = 0; task < runs.size(); ++task) {
    TaskTime& time = profile.emplace_back();
    time.task = plan.tasks[task].name;
    time.kernel = plan.tasks[task].kernel;
    time.time = runs[task].time;
    for (const std::thread::id thread : runs[task].threads) {
      const auto known = std::ranges::find(threads, thread);
      time.threads.push_back(static_cast<int>(known - threads.begin()));
      if (known == threads.end()) threads.push_back(thread);
    }
  }
  return profile;
}

}  // namespace

ModelInfo DescribePorts(const graph::Graph& graph, std::string producer) {
  ModelInfo info;
  info.producer = std::move(producer);
  for (const graph::ValueId id : graph.inputs()) {
    info.inputs.push_back(DescribePort(graph.value(id).name, graph.value(id)));
  }
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    info.outputs.push_back(DescribePort(graph.output_names()[i], graph.value(graph.outputs()[i])));
    info.outputs.back().optional = false;
  }
  return info;
}

CompiledModel::CompiledModel(ModelInfo info, CompiledPlans plans,
                             const runtime::SessionOptions& options, SharedParts parts)
    : info_(std::move(info)),
      parts_(std::move(parts)),
      fixed_(std::move(plans.fixed), options, parts_) {
  const plan::Plan& plan = *fixed_.plan;
  info_.batch_fixed_at_one = plan.batch.fixed_at_one;
  info_.joinable = plan.batch.joinable || plan.batch.fixed_at_one;
  if (!info_.joinable) info_.not_joinable_reason = plan.batch.reason;
  if (KnowsWork(plan)) info_.item_seconds = plan.whole.seconds;
  std::vector<const plan::Plan*> all = {&plan};
  if (plans.open != nullptr) {
    open_ = std::make_unique<const Runner>(std::move(plans.open), options, parts_);
    all.push_back(open_->plan.get());
  }
  const plan::HeldBytes held = plan::BytesOf(all);
  info_.constant_bytes = held.constants;
  info_.pack_bytes = held.packs;
}

bool CompiledModel::ReplacesDefaults(std::span<const NamedTensor> inputs) const {
  return open_ != nullptr && std::ranges::any_of(info_.inputs, [&](const Port& port) {
           return port.optional && FindTensor(inputs, port.name) != nullptr;
         });
}

Status CompiledModel::CheckNames(std::span<const NamedTensor> inputs) const {
  std::set<std::string_view> seen;
  for (const NamedTensor& input : inputs) {
    const auto port = std::ranges::find(info_.inputs, input.name, &Port::name);
    if (port == info_.inputs.end()) {
      return InvalidArgument("the model has no input '{}'; its inputs are {}", input.name,
                             PortNames(info_.inputs));
    }
    if (port->optional && open_ == nullptr) {
      return InvalidArgument(
          "input '{}' has a default, which this model does not let requests "
          "replace",
          input.name);
    }
    if (!seen.insert(input.name).second) {
      return InvalidArgument("input '{}' is given twice", input.name);
    }
  }
  return absl::OkStatus();
}

Status CompiledModel::Validate(std::span<const NamedTensor> inputs) const {
  RETURN_IF_ERROR(CheckNames(inputs));
  const plan::Plan& plan = *RunnerOf(inputs).plan;
  std::map<std::string, std::pair<int64_t, std::string>> symbols;
  for (size_t i = 0; i < plan.whole.inputs.size(); ++i) {
    const Port& port = *std::ranges::find(info_.inputs, plan.input_names[i], &Port::name);
    const bool any_batch = plan.batch.fixed_at_one && !port.optional;
    const Tensor* tensor = FindTensor(inputs, port.name);
    if (tensor == nullptr && port.optional) {
      RETURN_IF_ERROR(CheckShape(port, plan.defaults[i]->shape(), any_batch, symbols));
      continue;
    }
    if (tensor == nullptr) {
      return InvalidArgument("input '{}' ({}{}) is missing", port.name, DTypeName(port.dtype),
                             graph::ToString(port.dims));
    }
    if (tensor->dtype() != port.dtype) {
      return InvalidArgument("input '{}' has dtype {} where {} is expected", port.name,
                             DTypeName(tensor->dtype()), DTypeName(port.dtype));
    }
    RETURN_IF_ERROR(CheckShape(port, tensor->shape(), any_batch, symbols));
  }
  return absl::OkStatus();
}

StatusOr<std::vector<size_t>> CompiledModel::OutputIndices(
    const std::vector<std::string>& names) const {
  const std::vector<std::string>& output_names = fixed_.plan->output_names;
  std::vector<size_t> indices;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(output_names, name);
    if (found == output_names.end()) {
      return InvalidArgument("the model has no output '{}'; its outputs are {}", name,
                             PortNames(info_.outputs));
    }
    indices.push_back(static_cast<size_t>(found - output_names.begin()));
  }
  if (names.empty()) {
    for (size_t i = 0; i < output_names.size(); ++i) indices.push_back(i);
  }
  return indices;
}

StatusOr<RunResult> CompiledModel::Run(std::span<const NamedTensor> inputs,
                                       const RunOptions& options) const {
  RETURN_IF_ERROR(Validate(inputs));
  ASSIGN_OR_RETURN(const std::vector<size_t> wanted, OutputIndices(options.outputs));
  const Runner& runner = RunnerOf(inputs);
  const std::vector<TensorView> views = ViewsOf(*runner.plan, inputs);
  runtime::RunControl control{options.stopped, options.profile};
  if (options.observe) {
    control.observe = [&](const std::string& name, const Tensor& tensor) {
      options.observe({name, tensor});
    };
    const int64_t items = FixedAtOneItems(*runner.plan, views);
    if (items != 1) return InvalidArgument("values are observed of one item, not of {}", items);
  }
  ASSIGN_OR_RETURN(const runtime::SessionResult run, runner.session.Run(views, control));
  RunResult result;
  for (const size_t i : wanted) {
    result.outputs.push_back({runner.plan->output_names[i], run.outputs[i]});
  }
  result.profile = Profile(*runner.plan, run.task_runs);
  return result;
}

StatusOr<Tensor> CompiledModel::Join(std::span<const BatchItem> items,
                                     const std::string& name) const {
  const Tensor& first = *FindTensor(items[0].inputs, name);
  if (items.size() == 1) return first;
  Shape shape = first.shape();
  shape[0] = 0;
  for (const BatchItem& item : items) {
    const Tensor& tensor = *FindTensor(item.inputs, name);
    const auto tail = [](const Tensor& t) { return t.shape().dims().subspan(1); };
    if (!std::ranges::equal(tail(tensor), tail(first))) {
      return Internal("input '{}' of shape {} cannot join one of shape {}", name,
                      ToString(tensor.shape()), ToString(first.shape()));
    }
    shape[0] += tensor.shape()[0];
  }
  ASSIGN_OR_RETURN(Tensor joined, Tensor::Allocate(first.dtype(), shape));
  int64_t row = 0;
  for (const BatchItem& item : items) {
    const Tensor& tensor = *FindTensor(item.inputs, name);
    const Tensor rows = joined.Rows(row, row + tensor.shape()[0]);
    if (tensor.dtype() == DType::kString) {
      std::ranges::copy(tensor.span<std::string>(),
                        rows.mutable_view().mutable_data<std::string>());
    } else if (rows.view().byte_size() > 0) {
      std::memcpy(rows.mutable_view().mutable_raw(), tensor.view().raw(),
                  tensor.view().byte_size());
    }
    row += tensor.shape()[0];
  }
  return joined;
}

StatusOr<std::vector<RunResult>> CompiledModel::RunBatch(
    std::span<const BatchItem> items, const std::function<bool()>& stopped) const {
  std::vector<BatchItem> joined;
  for (const BatchItem& item : items) {
    if (!ReplacesDefaults(item.inputs)) joined.push_back(item);
  }
  if (joined.size() == items.size()) return RunJoined(items, stopped);
  std::vector<RunResult> of_joined;
  if (!joined.empty()) {
    ASSIGN_OR_RETURN(of_joined, RunJoined(joined, stopped));
  }
  std::vector<RunResult> results;
  auto next = of_joined.begin();
  for (const BatchItem& item : items) {
    if (!ReplacesDefaults(item.inputs)) {
      results.push_back(std::move(*next++));
      continue;
    }
    ASSIGN_OR_RETURN(results.emplace_back(),
                     Run(item.inputs, {.outputs = item.outputs, .stopped = stopped}));
  }
  return results;
}

StatusOr<std::vector<RunResult>> CompiledModel::RunJoined(
    std::span<const BatchItem> items, const std::function<bool()>& stopped) const {
  const plan::Plan& plan = *fixed_.plan;
  CHECK(info_.joinable && !items.empty() && !plan.whole.inputs.empty(), "requests do not join: {}",
        info_.not_joinable_reason);
  std::vector<Tensor> inputs;
  std::vector<TensorView> views;
  for (const std::string& name : plan.input_names) {
    ASSIGN_OR_RETURN(inputs.emplace_back(), Join(items, name));
  }
  for (const Tensor& input : inputs) views.push_back(input.view());
  ASSIGN_OR_RETURN(const runtime::SessionResult run, fixed_.session.Run(views, {stopped}));
  std::vector<RunResult> results;
  int64_t row = 0;
  for (const BatchItem& item : items) {
    const int64_t end = row + FindTensor(item.inputs, plan.input_names[0])->shape()[0];
    ASSIGN_OR_RETURN(const std::vector<size_t> wanted, OutputIndices(item.outputs));
    RunResult& result = results.emplace_back();
    for (const size_t i : wanted) {
      result.outputs.push_back({plan.output_names[i], run.outputs[i].Rows(row, end)});
    }
    row = end;
  }
  return results;
}

std::string CompiledModel::Explain() const {
  std::string text = ToText(plan::Report(*fixed_.plan));
  if (open_ != nullptr) {
    text += "\nfor requests that replace defaults\n\n" + ToText(plan::Report(*open_->plan));
  }
  return text;
}

StatusOr<PlanReport> CompiledModel::Report(std::span<const NamedShape> inputs) const {
  // Tensors without memory: only their shapes are read.
  std::vector<NamedTensor> tensors;
  for (const auto& [name, shape] : inputs) {
    const auto port = std::ranges::find(info_.inputs, name, &Port::name);
    const DType dtype = port == info_.inputs.end() ? DType::kFloat : port->dtype;
    tensors.push_back({name, Tensor::Share(nullptr, dtype, shape, nullptr)});
  }
  RETURN_IF_ERROR(Validate(tensors));
  const Runner& runner = RunnerOf(tensors);
  ASSIGN_OR_RETURN(const runtime::Parts parts,
                   runner.session.PartsOf(ViewsOf(*runner.plan, tensors)));
  PlanReport report = plan::Report(*runner.plan, *parts.shape_plan);
  report.parts = parts.count;
  report.arena_bytes = parts.arena_bytes;
  return report;
}

}  // namespace tandem
