// Constant folding: a node whose outputs are the same in every run is computed once, here.
//
//   y = f(constants)             -> y is a constant
//   y = f(shapes that are known) -> y is a constant (Shape, and integer arithmetic on it)
//
// One sweep in dataflow order folds whole chains, as a folded value is a constant to its readers at
// once. What folding may cost is bounded by FoldBudget (optimizer.h). What only repeats a constant
// (ConstantOfShape, Expand) becomes a view of it, without bytes of its own.
#include <algorithm>
#include <limits>

#include "engine/ops/evaluate.h"
#include "engine/optimizer/rewrite.h"

namespace tandem::optimizer {
namespace {

using graph::kNoValue;

enum class Source : uint8_t { kConstants, kInference };

bool IsRead(const graph::Graph& graph, graph::ValueId output) {
  return output != kNoValue && !graph.value(output).uses.empty();
}

bool OnlyTensors(const graph::Graph& graph, const graph::Node& node) {
  return std::ranges::all_of(node.outputs, [&](graph::ValueId output) {
    return output == kNoValue || graph.value(output).type.kind == graph::ValueKind::kTensor;
  });
}

// Constants come through every input; an overridable one is refused only when it is all that stands
// in the way.
bool ReadsConstantsOnly(const graph::Graph& graph, graph::NodeId anchor, PassContext& context) {
  const graph::Node& node = graph.node(anchor);
  int overridable = -1;
  for (size_t port = 0; port < node.inputs.size(); ++port) {
    if (node.inputs[port] == kNoValue) continue;
    if (graph.value(node.inputs[port]).constant == nullptr) return false;
    const int index = static_cast<int>(port);
    if (FoldableInput(graph, node, index, context.options()) == nullptr) overridable = index;
  }
  if (overridable < 0) return true;
  const auto& value = graph.value(node.inputs[static_cast<size_t>(overridable)]);
  context.Refuse(graph, anchor, fmt::format("input {}", overridable),
                 "a request may override this input", fmt::format("'{}'", value.name));
  return false;
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

// Bytes of the constants that only this node reads.
size_t FreedBytes(const graph::Graph& graph, const graph::Node& node) {
  size_t bytes = 0;
  for (size_t port = 0; port < node.inputs.size(); ++port) {
    const graph::ValueId id = node.inputs[port];
    if (id == kNoValue) continue;
    const auto before = std::span(node.inputs).first(port);
    if (std::ranges::find(before, id) != before.end()) continue;
    const graph::Value& value = graph.value(id);
    if (value.constant == nullptr || value.is_input) continue;
    const auto own = static_cast<size_t>(std::ranges::count(node.inputs, id));
    if (value.uses.size() == own) bytes += value.constant->held_bytes();
  }
  return bytes;
}

std::vector<graph::ConstantRef> ConstantsOf(const graph::Graph& graph, const graph::Node& node) {
  std::vector<graph::ConstantRef> constants;
  for (const graph::ValueId id : node.inputs) {
    constants.push_back(id == kNoValue ? nullptr : graph.value(id).constant);
  }
  return constants;
}

int64_t InputElements(const graph::Graph& graph, const graph::Node& node) {
  int64_t elements = 0;
  for (const graph::ConstantRef& constant : ConstantsOf(graph, node)) {
    if (constant != nullptr) elements += constant->elements();
  }
  return elements;
}

// Bytes of the views that evaluating the node writes out.
size_t SpelledBytes(const graph::Graph& graph, const graph::Node& node) {
  size_t bytes = 0;
  for (const graph::ConstantRef& constant : ConstantsOf(graph, node)) {
    if (constant != nullptr && constant->is_view()) bytes += constant->byte_size();
  }
  return bytes;
}

// The multiply-adds that the operator estimates for these concrete shapes.
int64_t WorkOf(const graph::Graph& graph, const graph::Node& node,
               const std::vector<Shape>& outputs) {
  std::vector<Shape> inputs;
  DType dtype = DType::kFloat;
  for (const graph::ValueId id : node.inputs) {
    inputs.push_back(id == kNoValue ? Shape() : graph.value(id).constant->shape());
    if (inputs.size() == 1 && id != kNoValue) dtype = graph.value(id).constant->dtype();
  }
  const ops::StepShapes shapes{inputs, outputs, 1};
  const double work = ops::OpOf(node).EstimateCost(shapes, dtype).multiply_adds;
  constexpr double kMost = 1e18;
  return static_cast<int64_t>(std::min(work, kMost));
}

// What evaluating the node costs, before it is evaluated. Outputs whose size depends on data cost
// what their bound says: nothing is known but the inputs, so their bytes stand in.
std::optional<FoldCost> CostOf(const graph::Graph& graph, const graph::Node& node, Source source,
                               std::span<const ops::ValueFacts> facts) {
  FoldCost cost;
  cost.freed_bytes = FreedBytes(graph, node);
  cost.spelled_bytes = SpelledBytes(graph, node);
  cost.elements = InputElements(graph, node);
  std::vector<Shape> outputs(node.outputs.size());
  bool all_known = true;
  for (size_t port = 0; port < node.outputs.size(); ++port) {
    if (node.outputs[port] == kNoValue) continue;
    const std::optional<Shape> shape = facts[port].shape();
    if (!shape) {
      all_known = false;
      continue;
    }
    const std::optional<int64_t> elements = CheckedElements(shape->dims());
    if (!elements || *elements > (int64_t{1} << 56)) return std::nullopt;
    outputs[port] = *shape;
    cost.elements += *elements;
    if (IsRead(graph, node.outputs[port])) {
      cost.made_bytes += DTypeBytes(facts[port].dtype, *elements);
    }
  }
  if (all_known && source == Source::kConstants) {
    cost.elements = std::max(cost.elements, WorkOf(graph, node, outputs));
  }
  return cost;
}

StatusOr<std::vector<Tensor>> Compute(const graph::Graph& graph, const graph::Node& node,
                                      Source source, PassContext& context) {
  if (source == Source::kConstants) {
    std::vector<Tensor> inputs;
    for (const graph::ConstantRef& constant : ConstantsOf(graph, node)) {
      inputs.emplace_back();
      if (constant == nullptr) continue;
      ASSIGN_OR_RETURN(inputs.back(), constant->SpellOut());
    }
    return ops::Evaluate(node, inputs, context.options().isa, context.parallel());
  }
  std::vector<Tensor> outputs(node.outputs.size());
  for (size_t port = 0; port < outputs.size(); ++port) {
    if (!IsRead(graph, node.outputs[port])) continue;
    outputs[port] = *InferredValue(context.inferred()[port]);
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
  } else if (node.op_type == "DequantizeLinear") {
    context.Refuse(graph, anchor, "input 0", "a quantised weight is packed as it is");
  } else {
    return false;
  }
  return true;
}

// A fold within the budget, or nothing.
std::optional<std::vector<Tensor>> ComputeWithinBudget(const graph::Graph& graph,
                                                       graph::NodeId anchor, Source source,
                                                       PassContext& context) {
  const graph::Node& node = graph.node(anchor);
  std::optional<FoldCost> cost = CostOf(graph, node, source, context.inferred());
  if (!cost) {
    context.Refuse(graph, anchor, "outputs", "the size of the result passes int64");
    return std::nullopt;
  }
  ops::Decision decision = context.ledger().Check(*cost);
  if (decision.accepted) {
    StatusOr<std::vector<Tensor>> outputs = Compute(graph, node, source, context);
    if (!outputs.ok()) {
      context.Refuse(graph, anchor, "node", "its evaluation fails",
                     std::string(Message(outputs.status())));
      return std::nullopt;
    }
    // Sizes that depend on data are known only now.
    cost->made_bytes = 0;
    for (size_t port = 0; port < outputs->size(); ++port) {
      if (!IsRead(graph, node.outputs[port])) continue;
      cost->made_bytes += (*outputs)[port].view().byte_size();
    }
    decision = context.ledger().Check(*cost);
    if (decision.accepted) {
      context.Charge(*cost);
      return *std::move(outputs);
    }
  }
  context.Refuse(graph, anchor, "outputs", decision.rule, decision.numbers);
  return std::nullopt;
}

// What output 0 repeats, if that is smaller by enough to be worth a view.
std::optional<Tensor> RepeatedBy(const graph::Graph& graph, const graph::Node& node,
                                 const PassContext& context) {
  constexpr size_t kSmall = 4096;  // bytes; less is written out
  const std::optional<Shape> shape = context.inferred()[0].shape();
  if (!shape) return std::nullopt;
  std::optional<Tensor> tensor = ops::OpOf(node).RepeatedBy(ConstantsOf(graph, node));
  if (!tensor || DTypeBits(tensor->dtype()) % 8 != 0 || tensor->dtype() == DType::kString) {
    return std::nullopt;
  }
  const std::optional<int64_t> elements = CheckedElements(shape->dims());
  const bool large = elements && *elements > tensor->elements() &&
                     *elements > static_cast<int64_t>(kSmall / DTypeBytes(tensor->dtype(), 1));
  return large ? tensor : std::nullopt;
}

std::optional<graph::Patch> MakeView(const graph::Graph& graph, graph::NodeId anchor, Tensor tensor,
                                     PassContext& context) {
  const Shape shape = *context.inferred()[0].shape();
  FoldCost cost;
  const auto bytes =
      CheckedMul(shape.elements(), static_cast<int64_t>(DTypeBytes(tensor.dtype(), 1)));
  cost.view_bytes = bytes ? static_cast<size_t>(*bytes) : std::numeric_limits<size_t>::max() / 2;
  const ops::Decision decision = context.ledger().Check(cost);
  if (!decision.accepted) {
    context.Refuse(graph, anchor, "outputs", decision.rule, decision.numbers);
    return std::nullopt;
  }
  context.Charge(cost);
  graph::Patch patch(graph);
  patch.SetConstant(graph.node(anchor).outputs[0],
                    context.constants().InternView(std::move(tensor), shape));
  patch.RemoveNode(anchor);
  return patch;
}

}  // namespace

std::optional<graph::Patch> FoldConstants(const graph::Graph& graph, graph::NodeId anchor,
                                          PassContext& context) {
  const graph::Node& node = graph.node(anchor);
  const bool read = std::ranges::any_of(
      node.outputs, [&](graph::ValueId output) { return IsRead(graph, output); });
  if (!read || !OnlyTensors(graph, node)) return std::nullopt;
  Source source = Source::kConstants;
  if (!ReadsConstantsOnly(graph, anchor, context)) {
    if (!InferenceKnowsAll(graph, node, context)) return std::nullopt;
    source = Source::kInference;
  }
  if (Refused(graph, anchor, context)) return std::nullopt;
  if (context.inferred().size() != node.outputs.size()) return std::nullopt;
  if (source == Source::kConstants) {
    if (std::optional<Tensor> tensor = RepeatedBy(graph, node, context)) {
      return MakeView(graph, anchor, *std::move(tensor), context);
    }
  }
  std::optional<std::vector<Tensor>> outputs = ComputeWithinBudget(graph, anchor, source, context);
  if (!outputs) return std::nullopt;
  graph::Patch patch(graph);
  for (size_t port = 0; port < node.outputs.size(); ++port) {
    if (!IsRead(graph, node.outputs[port])) continue;
    patch.SetConstant(node.outputs[port], context.constants().Intern((*outputs)[port]));
  }
  patch.RemoveNode(anchor);
  return patch;
}

}  // namespace tandem::optimizer
