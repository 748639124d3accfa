// From an optimized graph to a plan: values in their layouts, conversions where they meet, kernels,
// packs, and the schedule.
#include <fmt/ranges.h>

#include <algorithm>
#include <compare>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "engine/base/check.h"
#include "engine/ops/evaluate.h"
#include "engine/ops/registry.h"
#include "engine/plan/bind.h"
#include "engine/plan/cut.h"
#include "engine/plan/layouts.h"
#include "engine/plan/plan.h"

namespace tandem::plan {
namespace {

// One item on one core, for the cost gate only: orders of magnitude decide there.
constexpr double kMultiplyAddsPerSecond = 40e9;
constexpr double kBytesPerSecond = 10e9;

// The concrete shape for an estimate: open extents count as 1.
Shape EstimatedShape(const ops::ValueFacts& facts) {
  Shape shape;
  if (!facts.dims) return shape;
  for (const graph::Dim& dim : *facts.dims) shape.Append(dim.is_number() ? dim.number() : 1);
  return shape;
}

// Elements of a matrix or more axes, of which inference needs more than the shape.
constexpr int64_t kInferredElements = 1024;

void ReleaseWeight(graph::Value& value) {
  const graph::ConstantRef constant = value.constant;
  if (constant == nullptr || constant->shape().rank() < 2) return;
  if (constant->elements() <= kInferredElements) return;
  value.type.dtype = constant->dtype();
  value.type.dims = graph::ToDims(constant->shape());
  value.constant = nullptr;
}

// The bodies of a node stay to infer shapes while it runs. Weights, which the steps of their plans
// hold, are a dtype and a shape there.
void ReleaseWeights(graph::Node& node) {
  std::vector<std::shared_ptr<const graph::Graph>> bodies;
  for (const graph::Body& body : graph::BodiesOf(node)) {
    auto copy = std::make_shared<graph::Graph>(*body.graph);
    for (graph::ValueId id = 0; id < copy->value_limit(); ++id) {
      ReleaseWeight(copy->mutable_value(id));
    }
    for (const graph::NodeId id : copy->order()) ReleaseWeights(copy->mutable_node(id));
    bodies.push_back(std::move(copy));
  }
  graph::SetBodies(node, bodies);
}

void CollectConstants(const Plan& plan, std::set<graph::ConstantRef>& constants) {
  for (const PlanValue& value : plan.values) {
    if (value.constant != nullptr) constants.insert(value.constant);
  }
  for (const graph::ConstantRef& constant : plan.defaults) {
    if (constant != nullptr) constants.insert(constant);
  }
  for (const Task& task : plan.tasks) {
    for (const auto& body : task.bodies) CollectConstants(*body, constants);
  }
}

class Builder {
 public:
  // `path` stands before the nodes of a body in errors.
  Builder(graph::Graph graph, const PlanOptions& options, graph::ConstantStore& constants,
          PackStore& packs, std::string path = {})
      : graph_(std::move(graph)),
        options_(options),
        constants_(constants),
        packs_(packs),
        path_(std::move(path)) {}

  StatusOr<std::unique_ptr<Plan>> Build() {
    layouts_ = AssignLayouts(graph_);
    for (const graph::ValueId id : graph_.inputs()) AddInput(id);
    for (const graph::NodeId id : graph_.order()) RETURN_IF_ERROR(AddNode(id));
    for (size_t i = 0; i < graph_.outputs().size(); ++i) RETURN_IF_ERROR(AddOutput(i));
    RETURN_IF_ERROR(BindTasks());
    RETURN_IF_ERROR(FinishValues());
    AddSchedule();
    return std::move(plan_);
  }

  // Of the values of the plan that was built.
  void AddRoles(const BatchAnalysis& batch, Plan& plan) const {
    for (const auto& [key, index] : index_) {
      plan.values[static_cast<size_t>(index)].role = batch.roles[static_cast<size_t>(key.id)];
    }
  }

 private:
  // The rank matters for channels-last constants only, which are padded to it; 0 for all else.
  struct Key {
    graph::ValueId id;
    Layout layout;
    size_t rank = 0;
    auto operator<=>(const Key&) const = default;  // NOLINT(modernize-use-nullptr): none is here
  };

  PlanValue& At(ValueIndex index) { return plan_->values[static_cast<size_t>(index)]; }
  Task& TaskAt(TaskIndex index) { return plan_->tasks[static_cast<size_t>(index)]; }

  ValueIndex AddValue(graph::ValueId id, Layout layout, size_t rank = 0) {
    const graph::Value& value = graph_.value(id);
    PlanValue added;
    added.name = value.name;
    added.dtype = value.type.dtype;
    added.dims = value.type.dims;
    added.layout = layout;
    plan_->values.push_back(std::move(added));
    const auto index = static_cast<ValueIndex>(plan_->values.size() - 1);
    index_[{id, layout, rank}] = index;
    return index;
  }

  void AddInput(graph::ValueId id) {
    const graph::Value& value = graph_.value(id);
    if (value.constant != nullptr) return;  // a default that no request replaces in this plan
    plan_->whole.inputs.push_back(AddValue(id, Layout::kNative));
    plan_->input_names.push_back(value.name);
    const auto found = options_.defaults.find(id);
    plan_->defaults.push_back(found == options_.defaults.end() ? nullptr : found->second);
  }

  // The value in `layout`: as it is, or through a conversion that is made once.
  StatusOr<ValueIndex> ValueIn(graph::ValueId id, Layout layout, size_t rank) {
    const graph::Value& value = graph_.value(id);
    if (value.constant == nullptr || layout == Layout::kNative) rank = 0;
    const auto known = index_.find({id, layout, rank});
    if (known != index_.end()) return known->second;
    if (value.constant != nullptr) return ConstantIn(id, layout, rank);
    const Layout written = layout == Layout::kNative ? Layout::kChannelsLast : Layout::kNative;
    const auto source = index_.find({id, written, 0});
    CHECK(source != index_.end(), "value '{}' is read before it is written", value.name);
    const ValueIndex from = source->second;
    const ValueIndex to = AddValue(id, layout);
    RETURN_IF_ERROR(AddConversion(from, to));
    return to;
  }

  // A constant in `layout`, seen with `rank` axes (ones are put in front).
  StatusOr<ValueIndex> ConstantIn(graph::ValueId id, Layout layout, size_t rank) {
    const graph::ConstantRef native = graph_.value(id).constant;
    if (layout == Layout::kNative) {
      const ValueIndex index = AddValue(id, layout);
      At(index).constant = native;
      return index;
    }
    Shape shape;
    const Shape& own = native->shape();
    for (size_t axis = static_cast<size_t>(own.rank()); axis < rank; ++axis) shape.Append(1);
    for (const int64_t extent : own.dims()) shape.Append(extent);
    ASSIGN_OR_RETURN(const Tensor tensor, native->SpellOut());
    ASSIGN_OR_RETURN(Tensor moved, ToChannelsLast(tensor.Reshaped(shape)));
    const ValueIndex index = AddValue(id, layout, rank);
    At(index).constant = constants_.Intern(std::move(moved));
    At(index).dims = graph::ToDims(shape);
    return index;
  }

  // The elements of `tensor` in channels-last order, as a native tensor of the physical shape.
  StatusOr<Tensor> ToChannelsLast(const Tensor& tensor) const {
    const int rank = tensor.shape().rank();
    std::vector<int64_t> perm = {0};
    for (int axis = 2; axis < rank; ++axis) perm.push_back(axis);
    perm.push_back(1);
    graph::Node node;
    node.op_type = "Transpose";
    node.opset = 13;
    node.attributes["perm"] = perm;
    node.inputs = {0};
    node.outputs = {1};
    ASSIGN_OR_RETURN(node.op, ops::ParseNode(node));
    ASSIGN_OR_RETURN(std::vector<Tensor> moved,
                     ops::Evaluate(node, {tensor}, options_.isa, SequentialParallel()));
    return std::move(moved[0]);
  }

  ops::ValueFacts FactsOf(ValueIndex index) const {
    if (index == kOmitted) return {};
    const PlanValue& value = plan_->values[static_cast<size_t>(index)];
    if (value.constant != nullptr && value.layout == Layout::kNative) {
      return ops::FactsOf(*value.constant);
    }
    ops::ValueFacts facts;
    facts.dtype = value.dtype;
    facts.dims = value.dims;
    return facts;
  }

  Status AddConversion(ValueIndex from, ValueIndex to) {
    graph::Node node;
    node.domain = "tandem";
    node.op_type = "ConvertLayout";
    node.opset = 1;
    node.inputs = {0};
    node.outputs = {1};
    ASSIGN_OR_RETURN(node.op, ops::ParseNode(node));
    Task task;
    task.name = fmt::format("'{}' to {}", At(to).name, LayoutName(At(to).layout));
    task.node = std::move(node);
    task.inputs = {from};
    task.outputs = {to};
    if (SpatialIsOne(At(to))) {
      AddView(std::move(task));
    } else {
      unbound_.push_back({Push(std::move(task))});
    }
    return absl::OkStatus();
  }

  // Both layouts are the same memory when there is one pixel or one channel.
  static bool SpatialIsOne(const PlanValue& value) {
    const graph::Dim spatial = graph::Product(*value.dims, 2, static_cast<int>(value.dims->size()));
    const graph::Dim channels = (*value.dims)[1];
    return (spatial.is_number() && spatial.number() == 1) ||
           (channels.is_number() && channels.number() == 1);
  }

  Status AddNode(graph::NodeId id) {
    const graph::Node& node = graph_.node(id);
    const std::string name = graph::Describe(graph_, id);
    Task task;
    task.name = node.origin.empty() ? name : fmt::format("{} [{}]", name, node.origin);
    task.node = node;
    const graph::ValueId result = node.outputs.empty() ? graph::kNoValue : node.outputs[0];
    const size_t rank = result != graph::kNoValue && graph_.value(result).type.dims
                            ? graph_.value(result).type.dims->size()
                            : 0;
    for (size_t port = 0; port < node.inputs.size(); ++port) {
      ValueIndex input = kOmitted;
      if (node.inputs[port] != graph::kNoValue) {
        const Layout layout = layouts_.reads[static_cast<size_t>(id)][port];
        StatusOr<ValueIndex> found = ValueIn(node.inputs[port], layout, rank);
        if (!found.ok()) return Annotate(found.status(), path_ + name);
        input = *found;
      }
      task.inputs.push_back(input);
    }
    for (const graph::ValueId output : node.outputs) {
      task.outputs.push_back(output == graph::kNoValue
                                 ? kOmitted
                                 : AddValue(output, layouts_.values[static_cast<size_t>(output)]));
    }
    if (IsView(task)) {
      AddView(std::move(task));
    } else {
      unbound_.push_back({Push(std::move(task)), id});
    }
    return absl::OkStatus();
  }

  // Binds all tasks, those with the largest constants first: what such a one takes while it is
  // packed is there before the other packs are. Gives the errors of all, in the order of the tasks.
  Status BindTasks() {
    for (Unbound& unbound : unbound_) unbound.bytes = LargestConstant(TaskAt(unbound.task));
    std::ranges::stable_sort(unbound_, std::greater(), &Unbound::bytes);
    std::map<TaskIndex, Status> errors;
    for (const Unbound& unbound : unbound_) {
      if (options_.stopped && options_.stopped()) return Cancelled("loading was stopped");
      Status bound =
          unbound.node ? BindNode(unbound.task, *unbound.node) : Bind(TaskAt(unbound.task));
      if (absl::IsCancelled(bound)) return bound;
      if (!bound.ok()) errors.emplace(unbound.task, bound);
    }
    if (errors.empty()) return absl::OkStatus();
    std::vector<std::string_view> texts;
    for (const auto& [task, error] : errors) texts.push_back(Message(error));
    return MakeStatus(errors.begin()->second.code(), fmt::format("{}", fmt::join(texts, "; ")));
  }

  size_t LargestConstant(const Task& task) {
    size_t bytes = 0;
    for (const ValueIndex input : task.inputs) {
      if (input == kOmitted || At(input).constant == nullptr) continue;
      bytes = std::max(bytes, At(input).constant->byte_size());
    }
    return bytes;
  }

  Status BindNode(TaskIndex index, graph::NodeId id) {
    const graph::Node& node = graph_.node(id);
    const std::string name = path_ + graph::Describe(graph_, id);
    Task& task = TaskAt(index);
    RETURN_IF_ERROR(AddBodies(task, name));
    if (const Status bound = Bind(task); !bound.ok()) return Annotate(bound, name);
    for (size_t port = 0; port < node.inputs.size(); ++port) {
      if (node.inputs[port] != graph::kNoValue) {
        ReleaseIfPacked(node.inputs[port], task.inputs[port], task.packed[port]);
      }
    }
    return absl::OkStatus();
  }

  // A constant of which packs were made for all who read it goes at once, so that all weights of a
  // model and all their packs need not be there at the same time.
  void ReleaseIfPacked(graph::ValueId id, ValueIndex read, bool packed) {
    const graph::Value& value = graph_.value(id);
    if (value.constant == nullptr) return;
    Uses& uses = uses_[id];
    uses.packed = uses.packed && packed;
    uses.reads.push_back(read);
    if (uses.reads.size() < value.uses.size() || !uses.packed) return;
    for (const ValueIndex index : uses.reads) {
      if (At(index).constant != nullptr) At(index).content = At(index).constant->hash();
      At(index).constant = nullptr;
    }
    graph_.mutable_value(id).constant = nullptr;
  }

  // True when output 0 lies in the memory of input 0 as it is.
  bool IsView(const Task& task) {
    const ops::Traits traits = ops::OpOf(task.node).traits();
    if (traits.view) return true;
    switch (traits.layout) {
      case ops::LayoutRule::kFromChannelsLast:
        return At(task.inputs[0]).layout == Layout::kChannelsLast;
      case ops::LayoutRule::kToChannelsLast:
        return At(task.outputs[0]).layout == Layout::kChannelsLast;
      default:
        return false;
    }
  }

  Status AddBodies(Task& task, const std::string& path) {
    PlanOptions options = options_;
    options.defaults.clear();
    for (const graph::Body& body : graph::BodiesOf(task.node)) {
      const std::string inner = fmt::format("{}: {}: ", path, body.attribute);
      ASSIGN_OR_RETURN(std::unique_ptr<Plan> plan,
                       Builder(*body.graph, options, constants_, packs_, inner).Build());
      for (const ops::PackRef& pack : plan->packs) AddPack(pack);
      std::ranges::copy(plan->declines, std::back_inserter(plan_->declines));
      task.bodies.push_back(std::move(plan));
    }
    ReleaseWeights(task.node);
    return absl::OkStatus();
  }

  void AddPack(const ops::PackRef& pack) {
    if (known_packs_.insert(pack.get()).second) plan_->packs.push_back(pack);
  }

  void AddView(Task task) {
    At(task.outputs[0]).view_of = task.inputs[0];
    task.kernel = "view";
    task.packed.assign(task.inputs.size(), false);
    Push(std::move(task));
  }

  Status Bind(Task& task) {
    BindRequest request;
    request.node = &task.node;
    request.arithmetic = {options_.isa, options_.precision};
    for (const ValueIndex input : task.inputs) {
      request.inputs.push_back(FactsOf(input));
      request.input_layouts.push_back(input == kOmitted ? Layout::kNative : At(input).layout);
      request.constants.push_back(input == kOmitted ? nullptr : At(input).constant);
    }
    for (const ValueIndex output : task.outputs) {
      request.outputs.push_back(FactsOf(output));
      request.output_layouts.push_back(output == kOmitted ? Layout::kNative : At(output).layout);
    }
    PlanBindContext context(request, packs_);
    ASSIGN_OR_RETURN(task.step, ops::OpOf(task.node).Bind(context));
    task.kernel = task.step->kernel();
    task.packed = context.packed();
    for (const ops::PackRef& pack : context.packs()) AddPack(pack);
    task.seconds = EstimateSeconds(task, request);
    for (const auto& body : task.bodies) task.seconds += body->whole.seconds;
    return absl::OkStatus();
  }

  // Nothing is estimated where a rank is unknown.
  static double EstimateSeconds(const Task& task, const BindRequest& request) {
    const auto lacks_rank = [](const ops::ValueFacts& facts) {
      return facts.dtype != DType::kUndefined && !facts.dims;
    };
    if (std::ranges::any_of(request.inputs, lacks_rank)) return 0;
    if (std::ranges::any_of(request.outputs, lacks_rank)) return 0;
    std::vector<Shape> inputs, outputs;
    for (const ops::ValueFacts& facts : request.inputs) inputs.push_back(EstimatedShape(facts));
    for (const ops::ValueFacts& facts : request.outputs) outputs.push_back(EstimatedShape(facts));
    const ops::StepShapes shapes{inputs, outputs, 1};
    const DType dtype = request.outputs.empty() ? DType::kUndefined : request.outputs[0].dtype;
    const ops::Cost cost = ops::OpOf(task.node).EstimateCost(shapes, dtype);
    return cost.multiply_adds / kMultiplyAddsPerSecond + cost.bytes / kBytesPerSecond;
  }

  TaskIndex Push(Task task) {
    const auto index = static_cast<TaskIndex>(plan_->tasks.size());
    for (const ValueIndex output : task.outputs) {
      if (output != kOmitted) At(output).def = index;
    }
    plan_->tasks.push_back(std::move(task));
    return index;
  }

  Status AddOutput(size_t i) {
    const graph::ValueId id = graph_.outputs()[i];
    const StatusOr<ValueIndex> index = ValueIn(id, Layout::kNative, 0);
    if (!index.ok()) {
      return Annotate(index.status(),
                      fmt::format("{}output '{}'", path_, graph_.output_names()[i]));
    }
    At(*index).is_output = true;
    plan_->whole.outputs.push_back(*index);
    plan_->output_names.push_back(graph_.output_names()[i]);
    return absl::OkStatus();
  }

  // Readers of every value; constants that nobody reads are let go, and views that are read as they
  // are get bytes of their own.
  Status FinishValues() {
    std::vector<bool> read_native(plan_->values.size(), false);
    for (size_t t = 0; t < plan_->tasks.size(); ++t) {
      const Task& task = plan_->tasks[t];
      for (size_t port = 0; port < task.inputs.size(); ++port) {
        if (task.inputs[port] == kOmitted) continue;
        At(task.inputs[port]).readers.push_back(static_cast<TaskIndex>(t));
        if (!task.packed[port]) read_native[static_cast<size_t>(task.inputs[port])] = true;
      }
    }
    for (size_t v = 0; v < plan_->values.size(); ++v) {
      PlanValue& value = plan_->values[v];
      if (value.constant != nullptr) value.content = value.constant->hash();
      if (!read_native[v] && !value.is_output) value.constant = nullptr;
      if (value.constant == nullptr) continue;
      RETURN_IF_ERROR(WriteOut(value));
    }
    const HeldBytes held = BytesOf({plan_.get()});
    plan_->constant_bytes = held.constants;
    plan_->pack_bytes = held.packs;
    return absl::OkStatus();
  }

  // Gives the constant bytes of its own. An error names it with the first that reads it.
  Status WriteOut(PlanValue& value) {
    StatusOr<graph::ConstantRef> written = constants_.WrittenOut(value.constant);
    if (!written.ok()) {
      const std::string reader =
          value.readers.empty() ? "a graph output" : TaskAt(value.readers.front()).name;
      return Annotate(written.status(),
                      fmt::format("{}{}: constant '{}'", path_, reader, value.name));
    }
    value.constant = *std::move(written);
    return absl::OkStatus();
  }

  void AddSchedule() {
    std::vector<TaskNode> nodes(plan_->tasks.size());
    plan_->whole.runs.assign(nodes.size(), true);
    for (size_t t = 0; t < nodes.size(); ++t) {
      nodes[t].seconds = plan_->tasks[t].seconds;
      plan_->whole.seconds += plan_->tasks[t].seconds;
      for (const ValueIndex input : plan_->tasks[t].inputs) {
        if (input != kOmitted && At(input).def >= 0) {
          nodes[t].predecessors.push_back(At(input).def);
        }
      }
    }
    plan_->schedule = BuildSchedule(nodes, options_.fork_gate);
    for (const UnforkedBranch& branch : plan_->schedule.unforked) AddDecline(branch);
  }

  void AddDecline(const UnforkedBranch& branch) {
    const ForkGate& gate = options_.fork_gate;
    std::string rule = "costs less than a fork is worth";
    std::string numbers =
        fmt::format("{:.2f} us < {:.2f} us", branch.seconds * 1e6, gate.least_seconds * 1e6);
    if (gate.least_seconds == std::numeric_limits<double>::infinity()) {
      rule = "towers are switched off";
      numbers = fmt::format("{:.2f} us", branch.seconds * 1e6);
    } else if (branch.task_seconds > 0) {
      rule = "its tasks are worth all threads each";
      numbers = fmt::format("{:.2f} us > {:.2f} us", branch.task_seconds * 1e6,
                            gate.most_task_seconds * 1e6);
    }
    plan_->declines.push_back({"schedule", path_ + TaskAt(branch.longest).name,
                               fmt::format("branch of {} tasks", branch.tasks), std::move(rule),
                               std::move(numbers)});
  }

  // A task without a kernel.
  struct Unbound {
    TaskIndex task;
    std::optional<graph::NodeId> node;  // none: a conversion
    size_t bytes = 0;                   // of its largest constant
  };

  // What has become of the uses of a constant.
  struct Uses {
    std::vector<ValueIndex> reads;
    bool packed = true;  // all of them
  };

  graph::Graph graph_;
  const PlanOptions& options_;
  graph::ConstantStore& constants_;
  PackStore& packs_;
  const std::string path_;
  Layouts layouts_;
  std::map<Key, ValueIndex> index_;
  std::map<graph::ValueId, Uses> uses_;
  absl::flat_hash_set<const ops::Pack*> known_packs_;  // those in plan_->packs
  std::vector<Unbound> unbound_;
  std::unique_ptr<Plan> plan_ = std::make_unique<Plan>();
};

}  // namespace

std::optional<size_t> FirstOfItems(const Plan& plan) {
  for (size_t i = 0; i < plan.whole.inputs.size(); ++i) {
    const auto v = static_cast<size_t>(plan.whole.inputs[i]);
    if (plan.values[v].role == BatchRole::kRows) return i;
  }
  return std::nullopt;
}

HeldBytes BytesOf(const std::vector<const Plan*>& plans) {
  std::set<graph::ConstantRef> constants;
  std::set<ops::PackRef> packs;
  for (const Plan* plan : plans) {
    CollectConstants(*plan, constants);
    packs.insert(plan->packs.begin(), plan->packs.end());
  }
  HeldBytes held;
  for (const graph::ConstantRef& constant : constants) {
    held.constants += constant->view().byte_size();
  }
  for (const ops::PackRef& pack : packs) held.packs += pack->buffer.size();
  return held;
}

StatusOr<std::unique_ptr<Plan>> BuildPlan(graph::Graph graph, const PlanOptions& options,
                                          graph::ConstantStore& constants, PackStore& packs) {
  BatchAnalysis batch = AnalyzeBatch(graph, options.defaults);
  Builder builder(std::move(graph), options, constants, packs);
  ASSIGN_OR_RETURN(std::unique_ptr<Plan> plan, builder.Build());
  plan->batch = std::move(batch);
  builder.AddRoles(plan->batch, *plan);
  if (!plan->batch.joinable && !plan->batch.fixed_at_one) plan->cut = FindCut(*plan);
  return plan;
}

}  // namespace tandem::plan
