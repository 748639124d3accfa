#include "engine/plan/batch.h"

#include <fmt/format.h>

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "engine/ops/extents.h"
#include "engine/ops/operator.h"

namespace tandem::plan {
namespace {

// Extent 0 of a port, or nothing when the port has no first axis.
std::optional<graph::Dim> FirstDim(const graph::Value& value) {
  if (value.type.kind != graph::ValueKind::kTensor || !value.type.dims ||
      value.type.dims->empty()) {
    return std::nullopt;
  }
  return value.type.dims->front();
}

bool IsOne(const graph::Dim& dim) { return dim.is_number() && dim.number() == 1; }

// The inputs that hold the items of a request.
std::vector<graph::ValueId> InputsOfItems(const graph::Graph& graph,
                                          const graph::Defaults& defaults) {
  std::vector<graph::ValueId> inputs;
  for (const graph::ValueId id : graph.inputs()) {
    if (graph.value(id).constant == nullptr && !defaults.contains(id)) inputs.push_back(id);
  }
  return inputs;
}

// A first extent that may be the number of items.
bool CountsItems(const graph::Dim& dim) {
  return dim.is_symbol() ? dim.coefficient() == 1 : IsOne(dim);
}

std::string NoFirstAxis(const graph::Value& value) {
  if (value.type.kind != graph::ValueKind::kTensor) {
    return fmt::format("'{}' is no tensor but {}", value.name, ToString(value.type));
  }
  if (!value.type.dims) return fmt::format("the rank of '{}' is unknown", value.name);
  return fmt::format("'{}' is a scalar and has no first axis", value.name);
}

// What a first extent is: "is fixed at 4", "is N", "is unknown".
std::string ExtentText(const graph::Dim& dim) {
  if (dim.is_unknown()) return "is unknown";
  return fmt::format("is {}{}", dim.is_number() ? "fixed at " : "", ToString(dim));
}

// The reason why the ports do not have one batch axis in common, or nothing.
std::optional<std::string> PortsDecline(const graph::Graph& graph,
                                        const std::vector<graph::ValueId>& inputs) {
  if (inputs.empty()) return "the model has no inputs";
  std::optional<graph::Dim> batch;
  for (const std::vector<graph::ValueId>* ports : {&inputs, &graph.outputs()}) {
    for (const graph::ValueId id : *ports) {
      const graph::Value& value = graph.value(id);
      const std::optional<graph::Dim> first = FirstDim(value);
      if (!first) return NoFirstAxis(value);
      if (!batch) batch = first;
      if (first->SameAs(*batch) && CountsItems(*first)) continue;
      return fmt::format("the first extent of '{}' {}{}", value.name, ExtentText(*first),
                         first->SameAs(*batch) || !CountsItems(*batch)
                             ? ""
                             : fmt::format(", and {} is the batch", ToString(*batch)));
    }
  }
  return std::nullopt;
}

// The number of items: the first extent of the first input that leaves it open.
std::optional<graph::Dim> ItemsOf(const graph::Graph& graph,
                                  const std::vector<graph::ValueId>& inputs) {
  for (const graph::ValueId id : inputs) {
    std::optional<graph::Dim> first = FirstDim(graph.value(id));
    if (first && first->is_symbol() && first->coefficient() == 1) return first;
  }
  return std::nullopt;
}

// Walks the graph in order. A value carries the batch on an axis, or is computed from the number of
// items, or is the same for every request.
class Walk {
 public:
  Walk(const graph::Graph& graph, const graph::Dim& items)
      : graph_(graph),
        items_(items),
        axes_(static_cast<size_t>(graph.value_limit())),
        rounds_(axes_.size(), 1),
        counts_(axes_.size()),
        mixed_(axes_.size()) {}

  // An input carries the items on its first axis or has nothing to do with them; the reason why
  // neither is so, or nothing.
  std::optional<std::string> VisitInput(graph::ValueId id) {
    const graph::Value& value = graph_.value(id);
    const std::optional<graph::Dim> first = FirstDim(value);
    if (first && first->SameAs(items_)) return MixedIf(id, Carry(id, 0));
    if (!value.type.dims || std::ranges::any_of(*value.type.dims, &graph::Dim::is_unknown)) {
      return MixedIf(id,
                     fmt::format("extents of '{}' may depend on the number of items", value.name));
    }
    return VisitDefault(id);
  }

  // An input that all items share; the reason why it cannot be the same for any number of them, or
  // nothing.
  std::optional<std::string> VisitDefault(graph::ValueId id) {
    const graph::Value& value = graph_.value(id);
    if (!value.type.dims || std::ranges::none_of(*value.type.dims, [this](const graph::Dim& dim) {
          return OfItems(dim);
        })) {
      return std::nullopt;
    }
    return MixedIf(id, fmt::format("'{}' is shared by all items but has shape {}, which depends on "
                                   "them",
                                   value.name, graph::ToString(*value.type.dims)));
  }

  // The reason why the batch ends at this node, or nothing; nothing as well where it ended before.
  std::optional<std::string> Visit(const graph::Node& node) {
    const bool mixed = std::ranges::any_of(node.inputs, [this](graph::ValueId id) {
      return id != graph::kNoValue && mixed_[static_cast<size_t>(id)];
    });
    std::optional<std::string> reason;
    if (!mixed) reason = VisitCarried(node);
    if (!mixed && !reason) return std::nullopt;
    for (const graph::ValueId id : node.outputs) {
      if (id != graph::kNoValue) mixed_[static_cast<size_t>(id)] = true;
    }
    return reason;
  }

  BatchRole RoleOf(graph::ValueId id) const {
    const auto v = static_cast<size_t>(id);
    if (mixed_[v]) return BatchRole::kMixed;
    if (!axes_[v]) return BatchRole::kShared;
    return axes_[v] == 0 && rounds_[v] == 1 ? BatchRole::kRows : BatchRole::kInside;
  }

 private:
  std::optional<std::string> MixedIf(graph::ValueId id, std::optional<std::string> reason) {
    if (reason) mixed_[static_cast<size_t>(id)] = true;
    return reason;
  }

  // The reason why the batch ends at this value, or nothing.
  std::optional<std::string> Carry(graph::ValueId id, std::optional<int> axis, int64_t rounds = 1) {
    axes_[static_cast<size_t>(id)] = axis;
    rounds_[static_cast<size_t>(id)] = rounds;
    const graph::Value& value = graph_.value(id);
    if (!axis || !value.type.dims) return std::nullopt;
    for (size_t i = 0; i < value.type.dims->size(); ++i) {
      const graph::Dim& extent = (*value.type.dims)[i];
      if (static_cast<int>(i) == *axis || !OfItems(extent)) continue;
      return fmt::format("extent {} of '{}' is {}, which depends on the number of items", i,
                         value.name, ToString(extent));
    }
    return std::nullopt;
  }

  // Visits a node none of whose inputs is mixed.
  std::optional<std::string> VisitCarried(const graph::Node& node) {
    const ops::Operator& op = ops::OpOf(node);
    const Inputs inputs = InputsOf(node);
    if (op.traits().reads_shapes_only || (!inputs.batched && inputs.counted)) {
      Count(node, inputs.batched || inputs.counted || inputs.shape_counted);
      return std::nullopt;
    }
    if (inputs.counted) {
      return fmt::format("'{}' depends on the number of items", graph_.value(*inputs.counted).name);
    }
    if (inputs.different) {
      return fmt::format("'{}' and '{}' hold the items in different ways",
                         graph_.value(*inputs.batched).name, graph_.value(*inputs.different).name);
    }
    const ops::BatchAnswer answer = Ask(node, inputs);
    if (answer.declined) return answer.declined;
    for (size_t port = 0; port < node.outputs.size(); ++port) {
      if (node.outputs[port] == graph::kNoValue) continue;
      auto reason = Carry(node.outputs[port], answer.outputs[port], answer.rounds);
      if (reason) return reason;
    }
    return std::nullopt;
  }

  struct Inputs {
    std::optional<graph::ValueId> batched;    // the first one that carries the batch
    std::optional<graph::ValueId> different;  // one that carries it in another way
    std::optional<graph::ValueId> counted;    // one computed from the number of items
    bool shape_counted = false;               // the same, of an input that is only a shape
  };

  Inputs InputsOf(const graph::Node& node) const {
    Inputs inputs;
    for (size_t port = 0; port < node.inputs.size(); ++port) {
      const graph::ValueId id = node.inputs[port];
      if (id == graph::kNoValue) continue;
      if (axes_[static_cast<size_t>(id)]) {
        if (!inputs.batched) inputs.batched = id;
        if (!SameItems(*inputs.batched, id)) inputs.different = id;
      }
      if (!counts_[static_cast<size_t>(id)]) continue;
      if (ops::OpOf(node).ReadsShape(static_cast<int>(port))) {
        inputs.shape_counted = true;
      } else {
        inputs.counted = id;
      }
    }
    return inputs;
  }

  // False where the items stand on the axes of both in different ways.
  bool SameItems(graph::ValueId a, graph::ValueId b) const {
    const auto extent = [this](graph::ValueId id) -> graph::Dim {
      const graph::ValueType& type = graph_.value(id).type;
      return type.dims ? (*type.dims)[static_cast<size_t>(*axes_[static_cast<size_t>(id)])]
                       : graph::Dim();
    };
    return rounds_[static_cast<size_t>(a)] == rounds_[static_cast<size_t>(b)] &&
           ops::MayEqual(extent(a), extent(b));
  }

  // Marks what the node computes from the number of items, if its inputs `depend` on it.
  void Count(const graph::Node& node, bool depend) {
    if (!depend) return;
    std::vector<ops::ValueFacts> known = KnownOutputs(node);
    for (size_t port = 0; port < node.outputs.size(); ++port) {
      const graph::ValueId id = node.outputs[port];
      if (id == graph::kNoValue) continue;
      counts_[static_cast<size_t>(id)] = MayCount(known[port]);
      known_[id] = std::move(known[port]);
    }
  }

  // What inference knows of the outputs of a node that computes with extents.
  std::vector<ops::ValueFacts> KnownOutputs(const graph::Node& node) const {
    std::vector<ops::ValueFacts> facts;
    facts.reserve(node.inputs.size());
    std::vector<const ops::ValueFacts*> inputs;
    for (const graph::ValueId id : node.inputs) {
      if (id != graph::kNoValue) facts.push_back(Known(id));
      inputs.push_back(id == graph::kNoValue ? nullptr : &facts.back());
    }
    ops::InferContext context(node, std::move(inputs));
    const Status inferred = ops::OpOf(node).Infer(context);
    return inferred.ok() ? std::move(context.results())
                         : std::vector<ops::ValueFacts>(node.outputs.size());
  }

  // The extents next to the batch are the same for any number of items: those that are unknown get
  // names, so that it is seen where they go.
  ops::ValueFacts Known(graph::ValueId id) const {
    if (const auto found = known_.find(id); found != known_.end()) return found->second;
    ops::ValueFacts facts = ops::FactsOf(graph_.value(id));
    const std::optional<int> batch = axes_[static_cast<size_t>(id)];
    if (!batch || !facts.dims) return facts;
    for (size_t axis = 0; axis < facts.dims->size(); ++axis) {
      graph::Dim& extent = (*facts.dims)[axis];
      if (static_cast<int>(axis) == *batch) {
        if (!OfItems(extent)) extent = graph::Dim();
      } else if (extent.is_unknown()) {
        extent = graph::Dim::Symbol(fmt::format("extent {} of value {}", axis, id));
      }
    }
    return facts;
  }

  bool OfItems(const graph::Dim& dim) const {
    return dim.is_symbol() && dim.symbol() == items_.symbol();
  }

  // False for integers that are known and none of which depends on the number of items.
  bool MayCount(const ops::ValueFacts& facts) const {
    return !facts.content || std::ranges::any_of(*facts.content, [this](const graph::Dim& dim) {
      return dim.is_unknown() || OfItems(dim);
    });
  }

  // The batch axes of the node's outputs; none when nothing of it `depends` on the items.
  ops::BatchAnswer Ask(const graph::Node& node, const Inputs& kinds) const {
    std::vector<std::optional<int>> inputs;
    std::vector<ops::ValueFacts> facts;
    facts.reserve(node.inputs.size() + node.outputs.size());
    std::vector<const ops::ValueFacts*> input_facts;
    std::vector<const ops::ValueFacts*> output_facts;
    const auto fact = [&](graph::ValueId id) -> const ops::ValueFacts* {
      if (id == graph::kNoValue) return nullptr;
      facts.push_back(ops::FactsOf(graph_.value(id)));
      return &facts.back();
    };
    for (const graph::ValueId id : node.inputs) {
      inputs.push_back(id == graph::kNoValue ? std::nullopt : axes_[static_cast<size_t>(id)]);
      input_facts.push_back(fact(id));
    }
    for (const graph::ValueId id : node.outputs) output_facts.push_back(fact(id));
    const int64_t rounds = kinds.batched ? rounds_[static_cast<size_t>(*kinds.batched)] : 1;
    const ops::BatchQuery query{node, items_, inputs, input_facts, output_facts, rounds};
    return kinds.batched || kinds.shape_counted ? ops::OpOf(node).Batch(query)
                                                : ops::BatchAnswer::All(query, std::nullopt);
  }

  const graph::Graph& graph_;
  const graph::Dim items_;
  std::vector<std::optional<int>> axes_;
  std::vector<int64_t> rounds_;  // as ops::BatchQuery::rounds, of values with an axis
  std::vector<bool> counts_;
  std::vector<bool> mixed_;
  // Of what is computed with extents, the number of items among them.
  absl::flat_hash_map<graph::ValueId, ops::ValueFacts> known_;
};

}  // namespace

BatchAnalysis AnalyzeBatch(const graph::Graph& graph, const graph::Defaults& defaults) {
  BatchAnalysis analysis;
  analysis.roles.resize(static_cast<size_t>(graph.value_limit()));
  const std::vector<graph::ValueId> inputs = InputsOfItems(graph, defaults);
  std::optional<std::string> reason = PortsDecline(graph, inputs);
  if (!reason && IsOne(*FirstDim(graph.value(graph.outputs().front())))) {
    analysis.fixed_at_one = true;
    analysis.reason = "the model fixes its batch at 1";
    for (const std::vector<graph::ValueId>* ports : {&inputs, &graph.outputs()}) {
      for (const graph::ValueId id : *ports) {
        analysis.roles[static_cast<size_t>(id)] = BatchRole::kRows;
      }
    }
    return analysis;
  }
  const std::optional<graph::Dim> items = ItemsOf(graph, inputs);
  if (items) {
    Walk walk(graph, *items);
    for (const auto& [id, constant] : defaults) {
      std::optional<std::string> ends = walk.VisitDefault(id);
      if (!reason) reason = std::move(ends);
    }
    for (const graph::ValueId id : inputs) {
      std::optional<std::string> ends = walk.VisitInput(id);
      if (!reason) reason = std::move(ends);
    }
    for (const graph::NodeId id : graph.order()) {
      const std::optional<std::string> ends = walk.Visit(graph.node(id));
      if (!reason && ends) reason = fmt::format("{}: {}", graph::Describe(graph, id), *ends);
    }
    for (size_t value = 0; value < analysis.roles.size(); ++value) {
      analysis.roles[value] = walk.RoleOf(static_cast<graph::ValueId>(value));
    }
  }
  for (const graph::ValueId id : graph.outputs()) {
    if (!reason && analysis.roles[static_cast<size_t>(id)] != BatchRole::kRows) {
      reason = fmt::format("output '{}' does not carry the batch on its first axis",
                           graph.value(id).name);
    }
  }
  analysis.joinable = !reason;
  analysis.reason = reason.value_or("");
  return analysis;
}

}  // namespace tandem::plan
