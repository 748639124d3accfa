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
    graph::Dim dim = port.dims[static_cast<size_t>(axis)];
    if (axis == 0 && any_batch) dim = graph::Dim::Symbol("batch");
    if (dim.is_number() && dim.number() != shape[axis]) {
      return InvalidArgument(
          "input '{}' has shape {} where {} is expected: extent {} is {}, not {}", port.name,
          ToString(shape), graph::ToString(port.dims), axis, shape[axis], dim.number());
    }
    if (!dim.is_symbol() || dim.coefficient() != 1) continue;
    const auto [known, added] = symbols.try_emplace(dim.symbol(), shape[axis], port.name);
    if (!added && known->second.first != shape[axis]) {
      return InvalidArgument("input '{}' has extent {} on axis {} where input '{}' has {} for '{}'",
                             port.name, shape[axis], axis, known->second.second,
                             known->second.first, dim.symbol());
    }
  }
  return absl::OkStatus();
}

// Every extent of the plan is known but for the batch of a joinable model: the work of an item does
// not depend on the request.
bool OnlyBatchIsOpen(const plan::Plan& plan) {
  graph::Dim items;
  if (plan.batch.joinable)
    items = plan.values[static_cast<size_t>(plan.whole.inputs[0])].dims->front();
  return std::ranges::all_of(plan.values, [&](const plan::PlanValue& value) {
    return value.dims && std::ranges::all_of(*value.dims, [&](const graph::Dim& dim) {
             return dim.is_number() || dim.SameAs(items);
           });
  });
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

CompiledModel::CompiledModel(ModelInfo info, std::unique_ptr<const plan::Plan> plan,
                             const runtime::SessionOptions& options, SharedParts parts)
    : info_(std::move(info)),
      parts_(std::move(parts)),
      plan_(std::move(plan)),
      session_(*plan_, options, parts_.parallel, parts_.arenas) {
  info_.batch_fixed_at_one = plan_->batch.fixed_at_one;
  info_.joinable = plan_->batch.joinable || plan_->batch.fixed_at_one;
  if (!info_.joinable) info_.not_joinable_reason = plan_->batch.reason;
  if (OnlyBatchIsOpen(*plan_)) info_.item_seconds = plan_->whole.seconds;
  info_.constant_bytes = plan_->constant_bytes;
  info_.pack_bytes = plan_->pack_bytes;
}

Status CompiledModel::Validate(std::span<const NamedTensor> inputs) const {
  std::set<std::string_view> seen;
  for (const NamedTensor& input : inputs) {
    const auto port = std::ranges::find(info_.inputs, input.name, &Port::name);
    if (port == info_.inputs.end()) {
      return InvalidArgument("the model has no input '{}'; its inputs are {}", input.name,
                             PortNames(info_.inputs));
    }
    if (port->optional) {
      return InvalidArgument(
          "input '{}' has a default, which this model does not let requests "
          "replace",
          input.name);
    }
    if (!seen.insert(input.name).second) {
      return InvalidArgument("input '{}' is given twice", input.name);
    }
  }
  std::map<std::string, std::pair<int64_t, std::string>> symbols;
  for (const Port& port : info_.inputs) {
    if (port.optional) continue;
    const Tensor* tensor = FindTensor(inputs, port.name);
    if (tensor == nullptr) {
      return InvalidArgument("input '{}' ({}{}) is missing", port.name, DTypeName(port.dtype),
                             graph::ToString(port.dims));
    }
    if (tensor->dtype() != port.dtype) {
      return InvalidArgument("input '{}' has dtype {} where {} is expected", port.name,
                             DTypeName(tensor->dtype()), DTypeName(port.dtype));
    }
    RETURN_IF_ERROR(CheckShape(port, tensor->shape(), info_.batch_fixed_at_one, symbols));
  }
  return absl::OkStatus();
}

StatusOr<std::vector<size_t>> CompiledModel::OutputIndices(
    const std::vector<std::string>& names) const {
  std::vector<size_t> indices;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(plan_->output_names, name);
    if (found == plan_->output_names.end()) {
      return InvalidArgument("the model has no output '{}'; its outputs are {}", name,
                             PortNames(info_.outputs));
    }
    indices.push_back(static_cast<size_t>(found - plan_->output_names.begin()));
  }
  if (names.empty()) {
    for (size_t i = 0; i < plan_->output_names.size(); ++i) indices.push_back(i);
  }
  return indices;
}

StatusOr<RunResult> CompiledModel::Run(std::span<const NamedTensor> inputs,
                                       const RunOptions& options) const {
  RETURN_IF_ERROR(Validate(inputs));
  ASSIGN_OR_RETURN(const std::vector<size_t> wanted, OutputIndices(options.outputs));
  std::vector<TensorView> views;
  for (const std::string& name : plan_->input_names) {
    views.push_back(FindTensor(inputs, name)->view());
  }
  runtime::RunControl control{options.stopped, options.profile};
  if (options.observe) {
    control.observe = [&](const std::string& name, const Tensor& tensor) {
      options.observe({name, tensor});
    };
    if (info_.batch_fixed_at_one && !views.empty() && views[0].shape()[0] != 1) {
      return InvalidArgument("values are observed of one item, not of {}", views[0].shape()[0]);
    }
  }
  ASSIGN_OR_RETURN(const runtime::SessionResult run, session_.Run(views, control));
  RunResult result;
  for (const size_t i : wanted) result.outputs.push_back({plan_->output_names[i], run.outputs[i]});
  result.profile = Profile(run.task_runs);
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
  CHECK(info_.joinable && !items.empty() && !plan_->whole.inputs.empty(),
        "requests do not join: {}", info_.not_joinable_reason);
  std::vector<Tensor> inputs;
  std::vector<TensorView> views;
  for (const std::string& name : plan_->input_names) {
    ASSIGN_OR_RETURN(inputs.emplace_back(), Join(items, name));
  }
  for (const Tensor& input : inputs) views.push_back(input.view());
  ASSIGN_OR_RETURN(const runtime::SessionResult run, session_.Run(views, {stopped}));
  std::vector<RunResult> results;
  int64_t row = 0;
  for (const BatchItem& item : items) {
    const int64_t end = row + FindTensor(item.inputs, plan_->input_names[0])->shape()[0];
    ASSIGN_OR_RETURN(const std::vector<size_t> wanted, OutputIndices(item.outputs));
    RunResult& result = results.emplace_back();
    for (const size_t i : wanted) {
      result.outputs.push_back({plan_->output_names[i], run.outputs[i].Rows(row, end)});
    }
    row = end;
  }
  return results;
}

std::vector<TaskTime> CompiledModel::Profile(const runtime::TaskRuns& runs) const {
  std::vector<TaskTime> profile;
  std::vector<std::thread::id> threads;
  for (size_t task = 0; task < runs.size(); ++task) {
    TaskTime& time = profile.emplace_back();
    time.task = plan_->tasks[task].name;
    time.kernel = plan_->tasks[task].kernel;
    time.time = runs[task].time;
    for (const std::thread::id thread : runs[task].threads) {
      const auto known = std::ranges::find(threads, thread);
      time.threads.push_back(static_cast<int>(known - threads.begin()));
      if (known == threads.end()) threads.push_back(thread);
    }
  }
  return profile;
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
  std::vector<TensorView> views;
  for (const std::string& name : plan_->input_names) {
    views.push_back(FindTensor(tensors, name)->view());
  }
  ASSIGN_OR_RETURN(const runtime::Parts parts, session_.PartsOf(views));
  PlanReport report = plan::Report(*plan_, *parts.shape_plan);
  report.parts = parts.count;
  report.arena_bytes = parts.arena_bytes;
  return report;
}

}  // namespace tandem
