#include <fmt/ranges.h>

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "engine/base/check.h"
#include "engine/graph/verify.h"
#include "engine/ops/registry.h"
#include "engine/optimizer/pass.h"
#include "engine/optimizer/rewrite.h"

namespace tandem::optimizer {

PassContext::PassContext(const OptimizeOptions& options, graph::ConstantStore& constants,
                         size_t initializer_bytes)
    : options_(options), constants_(constants), ledger_(options.fold, initializer_bytes) {}

const Parallel& PassContext::parallel() const {
  static const SequentialParallel sequential;
  return options_.parallel != nullptr ? *options_.parallel : sequential;
}

void PassContext::Refuse(const graph::Graph& graph, graph::NodeId node, std::string role,
                         std::string rule, std::string numbers) {
  refusals_.push_back({anchor_,
                       {std::string(pass_), graph::Describe(graph, node), std::move(role),
                        std::move(rule), std::move(numbers)}});
}

namespace {

size_t ConstantBytes(const graph::Graph& graph) {
  size_t bytes = 0;
  for (graph::ValueId id = 0; id < graph.value_limit(); ++id) {
    const graph::Value& value = graph.value(id);
    if (value.constant != nullptr) bytes += value.constant->held_bytes();
  }
  for (const graph::NodeId id : graph.order()) {
    for (const graph::Body& body : graph::BodiesOf(graph.node(id))) {
      bytes += ConstantBytes(*body.graph);
    }
  }
  return bytes;
}

Status CheckNames(std::span<const Pass> passes, const std::set<std::string>& disabled) {
  std::vector<std::string_view> known;
  for (const Pass& pass : passes) known.push_back(pass.name);
  for (const std::string& name : disabled) {
    if (std::ranges::find(known, name) != known.end()) continue;
    return InvalidArgument("no optimizer pass is named '{}'; the passes are {}", name,
                           fmt::join(known, ", "));
  }
  return absl::OkStatus();
}

// Parses a node that a patch brought, and types its outputs as far as nobody has.
Status Complete(graph::Graph& graph, graph::NodeId id) {
  graph::Node& node = graph.mutable_node(id);
  if (node.op == nullptr) {
    ASSIGN_OR_RETURN(node.op, ops::ParseNode(node));
  }
  std::vector<ops::ValueFacts> facts(node.inputs.size());
  std::vector<const ops::ValueFacts*> inputs(node.inputs.size());
  for (size_t port = 0; port < node.inputs.size(); ++port) {
    if (node.inputs[port] == graph::kNoValue) continue;
    facts[port] = ops::FactsOf(graph.value(node.inputs[port]));
    inputs[port] = &facts[port];
  }
  ops::InferContext context(node, std::move(inputs));
  RETURN_IF_ERROR(ops::OpOf(node).Infer(context));
  for (size_t port = 0; port < node.outputs.size(); ++port) {
    if (node.outputs[port] == graph::kNoValue) continue;
    graph::ValueType& type = graph.mutable_value(node.outputs[port]).type;
    const ops::ValueFacts& result = context.results()[port];
    if (type.dtype == DType::kUndefined) type.dtype = result.dtype;
    if (!type.dims) type.dims = result.dims;
  }
  return absl::OkStatus();
}

}  // namespace

class Driver {
 public:
  Driver(graph::Graph& graph, graph::ConstantStore& constants, const OptimizeOptions& options)
      : graph_(graph), context_(options, constants, ConstantBytes(graph)) {}

  StatusOr<OptimizeReport> Run(std::span<const Pass> passes);

 private:
  // A pass with what is known of its sweeps.
  struct Entry {
    const Pass* pass;
    PassReport report;
    PassDeclines declines;
    int64_t swept_at = -1;  // commits made when its last sweep ended
  };

  Status Sweep(Entry& entry);
  Status Visit(Entry& entry, graph::NodeId anchor, int& changes);
  bool IsUsable(const graph::Patch& patch, graph::NodeId anchor);
  Status CheckStopped() const;
  Status Commit(const graph::Patch& patch);
  Status VerifyChanges();
  void MeasureDepths();
  void MeasureDepth(graph::NodeId id);
  void Infer(graph::NodeId id);
  ops::ValueFacts FactsOfInput(graph::ValueId id) const;
  void Remember(graph::ValueId id, const ops::ValueFacts& inferred);

  graph::Graph& graph_;
  PassContext context_;
  Lineage lineage_;
  int64_t commits_ = 0;
  // Commits made when the graph was last verified, and its depths measured.
  int64_t verified_at_ = -1;
  int64_t measured_at_ = -1;
  // Of the values of which the running sweep has inferred more than the graph says.
  absl::flat_hash_map<graph::ValueId, ops::ValueFacts> facts_;
};

StatusOr<OptimizeReport> Driver::Run(std::span<const Pass> passes) {
  const OptimizeOptions& options = context_.options_;
  RETURN_IF_ERROR(CheckNames(passes, options.disabled_passes));
  std::vector<Entry> entries;
  for (const Pass& pass : passes) {
    if (options.disabled_passes.contains(std::string(pass.name))) continue;
    entries.push_back({&pass, {.pass = std::string(pass.name)}, {}, -1});
  }
  OptimizeReport report;
  bool changed = true;
  while (changed) {
    if (report.rounds == options.max_rounds) {
      std::vector<std::string> busy;
      busy.reserve(entries.size());
      for (const Entry& entry : entries) {
        busy.push_back(fmt::format("{} ({})", entry.report.pass, entry.report.changes));
      }
      return Internal("the optimizer still changes the graph after {} rounds; changes by pass: {}",
                      report.rounds, fmt::join(busy, ", "));
    }
    const int64_t before = commits_;
    for (Entry& entry : entries) {
      // What has not changed since a pass last saw it needs no second look.
      if (entry.swept_at == commits_) continue;
      if (entry.pass->late && commits_ != before) continue;
      const Status swept = Sweep(entry);
      if (!swept.ok()) return Annotate(swept, fmt::format("pass '{}'", entry.pass->name));
    }
    ++report.rounds;
    changed = commits_ != before;
  }
  RETURN_IF_ERROR(ops::InferAll(graph_));
  for (Entry& entry : entries) {
    report.passes.push_back(entry.report);
    std::ranges::move(entry.declines.All(), std::back_inserter(report.declines));
  }
  report.folded = context_.ledger_.total();
  return report;
}

Status Driver::Sweep(Entry& entry) {
  const auto start = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(Annotate(VerifyChanges(), "before"));
  context_.pass_ = entry.pass->name;
  context_.refusals_.clear();
  context_.postponed_.clear();
  MeasureDepths();
  facts_.clear();
  int changes = 0;
  const std::vector<graph::NodeId> anchors = graph_.order();
  for (const graph::NodeId anchor : anchors) {
    if (!graph_.has_node(anchor)) continue;
    RETURN_IF_ERROR(CheckStopped());
    RETURN_IF_ERROR(Visit(entry, anchor, changes));
  }
  RETURN_IF_ERROR(CheckStopped());
  if (changes > 0) {
    RETURN_IF_ERROR(graph_.Sort());
    graph_.RemoveDeadNodes();
    graph_.ReleaseUnreadConstants();
  }
  RETURN_IF_ERROR(Annotate(VerifyChanges(), "after"));
  entry.declines.Update(std::move(context_.refusals_), graph_, lineage_);
  // A sweep that changed the graph may find more to do in what it made.
  entry.swept_at = changes > 0 ? -1 : commits_;
  entry.report.changes += changes;
  entry.report.time += std::chrono::steady_clock::now() - start;
  return absl::OkStatus();
}

Status Driver::CheckStopped() const {
  const std::function<bool()>& stopped = context_.options_.stopped;
  return stopped && stopped() ? Cancelled("loading was stopped") : absl::OkStatus();
}

// A pass sees the graph as const: without a commit it is as it was when it was verified.
Status Driver::VerifyChanges() {
  if (verified_at_ == commits_) return absl::OkStatus();
  verified_at_ = commits_;
  return graph::Verify(graph_);
}

Status Driver::Visit(Entry& entry, graph::NodeId anchor, int& changes) {
  const Pass& pass = *entry.pass;
  if (pass.infers) Infer(anchor);
  context_.cost_ = {};
  context_.anchor_ = anchor;
  const std::optional<graph::Patch> patch = pass.run(graph_, anchor, context_);
  if (!patch) return absl::OkStatus();
  CHECK(!patch->empty(), "pass {} returned an empty patch", pass.name);
  if (!IsUsable(*patch, anchor)) return absl::OkStatus();
  const std::string where = graph::Describe(graph_, anchor);
  const graph::NodeId first_new = graph_.node_limit();
  RETURN_IF_ERROR(Annotate(Commit(*patch), where));
  lineage_.Record(patch->removed(), first_new, graph_.node_limit());
  for (const graph::NodeId id : patch->removed()) {
    if (id == anchor || context_.postponed(id)) entry.declines.Settle(id);
  }
  context_.ledger_.Charge(context_.cost_);
  ++changes;
  ++commits_;
  return absl::OkStatus();
}

// What holds for patches of all passes; records the reason why one stays uncommitted.
bool Driver::IsUsable(const graph::Patch& patch, graph::NodeId anchor) {
  // A formula may well go on reading what it is computed with: its own scores as a mask.
  if (const std::optional<graph::ValueId> lost = patch.FindLostRead(graph_)) {
    context_.Refuse(graph_, anchor, "patch", "what only the replaced nodes make is still read",
                    fmt::format("'{}'", graph_.value(*lost).name));
    return false;
  }
  const std::optional<int> opset = context_.options_.written_opset;
  for (const graph::Node& node : patch.nodes()) {
    if (!opset || !node.domain.empty() || ops::MeansTheSame(node, *opset)) continue;
    context_.Refuse(
        graph_, anchor, std::string(kWrittenOpset),
        fmt::format("{} of opset {} is not in it or not the same", node.op_type, node.opset),
        fmt::format("the opset is {}", *opset));
    return false;
  }
  return true;
}

Status Driver::Commit(const graph::Patch& patch) {
  std::vector<graph::ValueId> sources;
  for (const graph::NodeId id : patch.removed()) {
    const graph::Node& node = graph_.node(id);
    std::ranges::copy_if(node.inputs, std::back_inserter(sources),
                         [](graph::ValueId input) { return input != graph::kNoValue; });
  }
  const graph::NodeId first_new = graph_.node_limit();
  patch.Commit(graph_);
  for (const graph::ValueId source : sources) graph_.ReleaseIfUnread(source);
  for (graph::NodeId id = first_new; id < graph_.node_limit(); ++id) {
    RETURN_IF_ERROR(Annotate(Complete(graph_, id), graph::Describe(graph_, id)));
    context_.depths_.push_back(0);
    MeasureDepth(id);
  }
  return absl::OkStatus();
}

void Driver::MeasureDepths() {
  if (measured_at_ == commits_) return;
  measured_at_ = commits_;
  context_.depths_.assign(static_cast<size_t>(graph_.node_limit()), 0);
  for (const graph::NodeId id : graph_.order()) MeasureDepth(id);
}

void Driver::MeasureDepth(graph::NodeId id) {
  int depth = 0;
  for (const graph::ValueId input : graph_.node(id).inputs) {
    if (input == graph::kNoValue) continue;
    const graph::NodeId def = graph_.value(input).def;
    if (def != graph::kNoNode) depth = std::max(depth, context_.depth(def));
  }
  context_.depths_[static_cast<size_t>(id)] = depth + 1;
}

ops::ValueFacts Driver::FactsOfInput(graph::ValueId id) const {
  const graph::Value& value = graph_.value(id);
  if (value.constant == nullptr) {
    const auto found = facts_.find(id);
    if (found != facts_.end()) return found->second;
  }
  return ops::FactsOf(value);
}

// Infers the anchor from what the sweep has inferred of its inputs, so that the content of shape
// arithmetic travels along.
void Driver::Infer(graph::NodeId id) {
  const graph::Node& node = graph_.node(id);
  context_.inferred_.clear();
  absl::InlinedVector<ops::ValueFacts, 4> facts(node.inputs.size());
  std::vector<const ops::ValueFacts*> inputs(node.inputs.size());
  for (size_t port = 0; port < node.inputs.size(); ++port) {
    if (node.inputs[port] == graph::kNoValue) continue;
    facts[port] = FactsOfInput(node.inputs[port]);
    inputs[port] = &facts[port];
  }
  ops::InferContext context(node, std::move(inputs));
  if (!ops::OpOf(node).Infer(context).ok()) return;
  context_.inferred_ = std::move(context.results());
  for (size_t port = 0; port < node.outputs.size(); ++port) {
    const graph::ValueId output = node.outputs[port];
    if (output != graph::kNoValue) Remember(output, context_.inferred_[port]);
  }
}

// Keeps what the graph does not say of the value by itself.
void Driver::Remember(graph::ValueId id, const ops::ValueFacts& inferred) {
  const graph::ValueType& type = graph_.value(id).type;
  const bool same_dims = !inferred.dims || (type.dims && SameDims(*inferred.dims, *type.dims));
  if (inferred.dtype == type.dtype && same_dims && !inferred.value && !inferred.content) return;
  ops::ValueFacts& facts = facts_[id];
  facts = inferred;
  // What the file declares stands in where inference finds nothing.
  if (!facts.dims) facts.dims = type.dims;
}

StatusOr<OptimizeReport> RunPasses(std::span<const Pass> passes, graph::Graph& graph,
                                   graph::ConstantStore& constants,
                                   const OptimizeOptions& options) {
  return Driver(graph, constants, options).Run(passes);
}

}  // namespace tandem::optimizer
