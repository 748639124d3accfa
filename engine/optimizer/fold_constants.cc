// Constant folding: a node whose outputs are the same in every run is computed once, here.
//
//   y = f(constants)             -> y is a constant
//   y = f(shapes that are known) -> y is a constant (Shape, and integer arithmetic on it)
//
// One sweep in dataflow order folds whole chains, as a folded value is a constant to its readers at
// once. What folding may cost is bounded by FoldBudget (optimizer.h); a step that is too large by
// itself may fold with those that make it smaller again (constant_cone.h). What only repeats a
// constant (ConstantOfShape, Expand), and a Transpose for readers that pack, becomes a view of it,
// without bytes of its own (constant_view.h).
#include <algorithm>

#include "engine/optimizer/constant_cone.h"
#include "engine/optimizer/constant_view.h"
#include "engine/optimizer/rewrite.h"

namespace tandem::optimizer {
namespace {

using graph::kNoValue;

bool OnlyTensors(const graph::Graph& graph, const graph::Node& node) {
  return std::ranges::all_of(node.outputs, [&](graph::ValueId output) {
    return output == kNoValue || graph.value(output).type.kind == graph::ValueKind::kTensor;
  });
}

// Says so when all that stands in the way is an input whose default a request may replace.
void ReportReplaceable(const graph::Graph& graph, graph::NodeId anchor, PassContext& context) {
  const graph::Node& node = graph.node(anchor);
  std::optional<size_t> replaceable;
  for (size_t port = 0; port < node.inputs.size(); ++port) {
    const graph::ValueId input = node.inputs[port];
    if (input == kNoValue || graph.value(input).constant != nullptr) continue;
    if (!context.options().defaults.contains(input)) return;
    replaceable = port;
  }
  if (!replaceable) return;
  context.Refuse(graph, anchor, fmt::format("input {}", *replaceable),
                 "a request may replace this default",
                 fmt::format("'{}'", graph.value(node.inputs[*replaceable]).name));
}

// The content that inference alone knows of an output, if it is all of it.
std::optional<Tensor> InferredValue(const ops::ValueFacts& facts) {
  if (facts.value) return facts.value;
  if (!facts.content || !facts.dims) return std::nullopt;
  const std::optional<Shape> shape = facts.shape();
  const std::optional<std::vector<int64_t>> numbers = ops::IntegersOf(facts);
  if (!shape || !numbers || shape->elements() != static_cast<int64_t>(numbers->size())) {
    return std::nullopt;
  }
  if (facts.dtype == DType::kInt64) return Tensor::Of<int64_t>(*shape, *numbers);
  if (facts.dtype != DType::kInt32) return std::nullopt;
  std::vector<int32_t> narrow;
  for (const int64_t number : *numbers) {
    if (number != static_cast<int32_t>(number)) return std::nullopt;
    narrow.push_back(static_cast<int32_t>(number));
  }
  return Tensor::Of<int32_t>(*shape, narrow);
}

bool InferenceKnowsAll(const graph::Graph& graph, const graph::Node& node, PassContext& context) {
  const auto facts = context.inferred();
  if (facts.size() != node.outputs.size()) return false;
  bool any = false;
  for (size_t port = 0; port < node.outputs.size(); ++port) {
    if (!IsRead(graph, node.outputs[port])) continue;
    if (!InferredValue(facts[port])) return false;
    any = true;
  }
  return any;
}

// What the outputs that inference knows cost.
FoldCost CostOfInferred(const graph::Graph& graph, graph::NodeId anchor,
                        std::span<const ops::ValueFacts> facts) {
  const graph::Node& node = graph.node(anchor);
  FoldCost cost{.nodes = {OriginOf(graph, anchor)}};
  for (size_t port = 0; port < node.outputs.size(); ++port) {
    if (!IsRead(graph, node.outputs[port])) continue;
    const int64_t elements = facts[port].shape()->elements();
    cost.elements += elements;
    cost.made_bytes += DTypeBytes(facts[port].dtype, elements);
  }
  return cost;
}

std::vector<Tensor> InferredValues(const graph::Graph& graph, const graph::Node& node,
                                   std::span<const ops::ValueFacts> facts) {
  std::vector<Tensor> outputs(node.outputs.size());
  for (size_t port = 0; port < outputs.size(); ++port) {
    if (IsRead(graph, node.outputs[port])) outputs[port] = *InferredValue(facts[port]);
  }
  return outputs;
}

// True when the node is one that must not be folded although its inputs are constant.
bool Refused(const graph::Graph& graph, graph::NodeId anchor, PassContext& context) {
  const graph::Node& node = graph.node(anchor);
  if (graph::HasBody(node)) {
    context.Refuse(graph, anchor, "node", "control flow is not folded");
  } else if (!ops::OpOf(node).traits().deterministic) {
    context.Refuse(graph, anchor, "node", "its result differs from run to run");
  } else {
    return node.op_type == "DequantizeLinear";  // view_quantised.cc
  }
  return true;
}

// Bytes of the outputs that are read.
size_t MadeBytes(const graph::Graph& graph, const graph::Node& node,
                 const std::vector<Tensor>& outputs) {
  size_t bytes = 0;
  for (size_t port = 0; port < outputs.size(); ++port) {
    if (IsRead(graph, node.outputs[port])) bytes += outputs[port].view().byte_size();
  }
  return bytes;
}

graph::Patch MakePatch(const graph::Graph& graph, std::span<const graph::NodeId> removed,
                       const std::vector<Tensor>& outputs, PassContext& context) {
  graph::Patch patch(graph);
  const graph::Node& node = graph.node(removed.front());
  for (size_t port = 0; port < node.outputs.size(); ++port) {
    if (!IsRead(graph, node.outputs[port])) continue;
    patch.SetConstant(node.outputs[port], context.constants().Intern(outputs[port]));
  }
  for (const graph::NodeId id : removed) patch.RemoveNode(id);
  return patch;
}

// A fold of what inference knows, within the budget, or nothing.
std::optional<graph::Patch> FoldInferred(const graph::Graph& graph, graph::NodeId anchor,
                                         PassContext& context) {
  const graph::Node& node = graph.node(anchor);
  const FoldCost cost = CostOfInferred(graph, anchor, context.inferred());
  const ops::Decision decision = context.ledger().Check(cost);
  if (!decision.accepted) {
    context.Refuse(graph, anchor, "outputs", decision.rule, decision.numbers);
    return std::nullopt;
  }
  context.Charge(cost);
  return MakePatch(graph, {&anchor, 1}, InferredValues(graph, node, context.inferred()), context);
}

// Left where it is: a later node may fold together with it.
std::nullopt_t Postpone(const graph::Graph& graph, const ConstantCone& cone,
                        const ops::Decision& decision, PassContext& context) {
  const graph::NodeId anchor = cone.nodes.back();
  context.Postpone(anchor);
  // Of a larger cone the first reason has been recorded.
  if (cone.nodes.size() == 1) {
    context.Refuse(graph, anchor, "outputs", decision.rule, decision.numbers);
  }
  return std::nullopt;
}

// A fold within the budget, or nothing.
std::optional<graph::Patch> FoldCone(const graph::Graph& graph, const ConstantCone& cone,
                                     PassContext& context) {
  const graph::NodeId anchor = cone.nodes.back();
  std::optional<FoldCost> cost = CostOf(graph, cone, context.inferred());
  if (!cost) {
    context.Refuse(graph, anchor, "outputs", "the size of the result passes int64");
    return std::nullopt;
  }
  ops::Decision decision = context.ledger().Check(*cost);
  if (!decision.accepted) return Postpone(graph, cone, decision, context);
  StatusOr<std::vector<Tensor>> outputs = Evaluate(graph, cone, context);
  if (!outputs.ok()) {
    context.Refuse(graph, anchor, "node", "its evaluation fails",
                   std::string(Message(outputs.status())));
    return std::nullopt;
  }
  // Sizes that depend on data are known only now.
  cost->made_bytes = MadeBytes(graph, graph.node(anchor), *outputs);
  decision = context.ledger().Check(*cost);
  if (!decision.accepted) return Postpone(graph, cone, decision, context);
  context.Charge(*cost);
  return MakePatch(graph, cone.dying, *outputs, context);
}

}  // namespace

std::optional<graph::Patch> FoldConstants(const graph::Graph& graph, graph::NodeId anchor,
                                          PassContext& context) {
  const graph::Node& node = graph.node(anchor);
  const bool read = std::ranges::any_of(
      node.outputs, [&](graph::ValueId output) { return IsRead(graph, output); });
  if (!read || !OnlyTensors(graph, node)) return std::nullopt;
  const std::optional<ConstantCone> cone = FindCone(graph, anchor, context);
  const bool inferred = !cone && InferenceKnowsAll(graph, node, context);
  if (!cone && !inferred) {
    ReportReplaceable(graph, anchor, context);
    return std::nullopt;
  }
  if (Refused(graph, anchor, context)) return std::nullopt;
  if (context.inferred().size() != node.outputs.size()) return std::nullopt;
  if (inferred) return FoldInferred(graph, anchor, context);
  if (cone->nodes.size() == 1) {
    const std::optional<StridedTensor> view = ConstantViewOf(graph, node, context);
    if (view && !IsSmall(*view) && (view->repeats() || AllReadersPack(graph, node, view->dtype))) {
      return MakeView(graph, anchor, *view, context);
    }
  }
  return FoldCone(graph, *cone, context);
}

}  // namespace tandem::optimizer
