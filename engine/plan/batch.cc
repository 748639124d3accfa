#include "engine/plan/batch.h"

#include <fmt/format.h>

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

// The reason why the ports do not have one batch axis in common, or nothing.
std::optional<std::string> PortsDecline(const graph::Graph& graph) {
  if (graph.inputs().empty()) return "the model has no inputs";
  std::optional<graph::Dim> batch;
  for (const std::vector<graph::ValueId>* ports : {&graph.inputs(), &graph.outputs()}) {
    for (const graph::ValueId id : *ports) {
      const graph::Value& value = graph.value(id);
      if (value.is_input && value.constant != nullptr) continue;
      const std::optional<graph::Dim> first = FirstDim(value);
      if (!first) return fmt::format("'{}' has no first axis", value.name);
      if (!batch) batch = first;
      if (!first->SameAs(*batch) || (!first->is_symbol() && !IsOne(*first)) ||
          first->coefficient() != 1) {
        return fmt::format("the first extent of '{}' is {} where {} is the batch", value.name,
                           ToString(*first), ToString(*batch));
      }
    }
  }
  return std::nullopt;
}

// The batch axes of a node's outputs, or the reason why it stops the batch.
ops::BatchAnswer AskNode(const graph::Graph& graph, const graph::Node& node,
                         const std::vector<std::optional<int>>& axes) {
  std::vector<std::optional<int>> inputs;
  std::vector<ops::ValueFacts> facts;
  facts.reserve(node.inputs.size() + node.outputs.size());
  std::vector<const ops::ValueFacts*> input_facts;
  std::vector<const ops::ValueFacts*> output_facts;
  const auto fact = [&](graph::ValueId id) -> const ops::ValueFacts* {
    if (id == graph::kNoValue) return nullptr;
    facts.push_back(ops::FactsOf(graph.value(id)));
    return &facts.back();
  };
  bool any = false;
  for (const graph::ValueId id : node.inputs) {
    inputs.push_back(id == graph::kNoValue ? std::nullopt : axes[static_cast<size_t>(id)]);
    any |= inputs.back().has_value();
    input_facts.push_back(fact(id));
  }
  for (const graph::ValueId id : node.outputs) output_facts.push_back(fact(id));
  const ops::BatchQuery query{node, inputs, input_facts, output_facts};
  return any ? ops::OpOf(node).Batch(query) : ops::BatchAnswer::All(query, std::nullopt);
}

}  // namespace

BatchAnalysis AnalyzeBatch(const graph::Graph& graph) {
  BatchAnalysis analysis;
  analysis.axes.resize(static_cast<size_t>(graph.value_limit()));
  if (std::optional<std::string> reason = PortsDecline(graph)) {
    analysis.reason = *std::move(reason);
    return analysis;
  }
  if (IsOne(*FirstDim(graph.value(graph.outputs().front())))) {
    analysis.fixed_at_one = true;
    analysis.reason = "the model fixes its batch at 1";
    return analysis;
  }
  for (const graph::ValueId id : graph.inputs()) {
    if (graph.value(id).constant == nullptr) analysis.axes[static_cast<size_t>(id)] = 0;
  }
  for (const graph::NodeId id : graph.order()) {
    const graph::Node& node = graph.node(id);
    const ops::BatchAnswer answer = AskNode(graph, node, analysis.axes);
    if (answer.declined) {
      analysis.reason = fmt::format("{}: {}", graph::Describe(graph, id), *answer.declined);
      return analysis;
    }
    for (size_t port = 0; port < node.outputs.size(); ++port) {
      if (node.outputs[port] == graph::kNoValue) continue;
      analysis.axes[static_cast<size_t>(node.outputs[port])] = answer.outputs[port];
    }
  }
  for (const graph::ValueId id : graph.outputs()) {
    if (analysis.axes[static_cast<size_t>(id)] != 0) {
      analysis.reason = fmt::format("output '{}' does not carry the batch on its first axis",
                                    graph.value(id).name);
      return analysis;
    }
  }
  analysis.joinable = true;
  return analysis;
}

}  // namespace tandem::plan
