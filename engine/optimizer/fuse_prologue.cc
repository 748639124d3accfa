// Element-wise nodes into the kernel that reads their result:
//
//   y = consumer(e, ...)     e = op(a) or op(a, c)     -> y = op(..)+ consumer(a, ..., c)
//
// with what has been fused behind op already. Whether a kernel takes the stages as it reads its
// input 0 is its operator's answer (Operator::TryFusePrologue). Guards: e has this reader only and
// is no graph output; the extents of e are those of a; c, and what the stages behind read, is
// constant.
#include <algorithm>

#include "engine/ops/operator.h"
#include "engine/optimizer/match.h"
#include "engine/optimizer/rewrite.h"

namespace tandem::optimizer {
namespace {

using graph::kNoValue;
using graph::ValueId;

// An element-wise node as stages on one of its inputs.
struct Stages {
  ValueId of = kNoValue;
  std::vector<graph::EpilogueStage> stages;  // operands: indices into `operands`
  std::vector<ValueId> operands;

  void Add(graph::EpilogueStage stage, ValueId operand) {
    stage.operand = operand == kNoValue ? -1 : static_cast<int>(operands.size());
    if (operand != kNoValue) operands.push_back(operand);
    stages.push_back(std::move(stage));
  }
};

// Inputs of the node itself, without those of its epilogue.
size_t OwnInputs(const graph::Node& node) {
  size_t own = node.inputs.size();
  for (const graph::EpilogueStage& stage : node.epilogue) {
    if (stage.operand >= 0) own = std::min(own, static_cast<size_t>(stage.operand));
  }
  return own;
}

// Nothing where an operand is not constant.
std::optional<Stages> StagesOf(const graph::Graph& graph, const graph::Node& node) {
  const auto is_constant = [&](int port) { return graph.constant_input(node, port) != nullptr; };
  const size_t own = OwnInputs(node);
  if (own < 1 || own > 2 || node.inputs[0] == kNoValue || node.inputs[own - 1] == kNoValue) {
    return std::nullopt;
  }
  Stages result;
  graph::EpilogueStage first;
  first.op = node.op_type;
  first.attributes = node.attributes;
  first.resolved = node.op;
  const int data = own == 2 && is_constant(0) ? 1 : 0;
  if (own == 2 && !is_constant(1 - data)) return std::nullopt;
  first.operand_is_first = data == 1;
  result.of = node.inputs[static_cast<size_t>(data)];
  result.Add(std::move(first), own == 2 ? node.inputs[static_cast<size_t>(1 - data)] : kNoValue);
  for (const graph::EpilogueStage& stage : node.epilogue) {
    if (stage.operand >= 0 && !is_constant(stage.operand)) return std::nullopt;
    result.Add(stage,
               stage.operand < 0 ? kNoValue : node.inputs[static_cast<size_t>(stage.operand)]);
  }
  return result;
}

ops::Decision Ask(const graph::Graph& graph, const graph::Node& node, const Stages& stages) {
  const graph::Value& read = graph.value(node.inputs[0]);
  const std::vector<const graph::DimVector*> inputs = InputDims(graph, node);
  std::vector<const graph::DimVector*> operands;
  for (const graph::EpilogueStage& stage : stages.stages) {
    const graph::ValueId operand =
        stage.operand < 0 ? kNoValue : stages.operands[static_cast<size_t>(stage.operand)];
    const bool known = operand != kNoValue && graph.value(operand).type.dims.has_value();
    operands.push_back(known ? &*graph.value(operand).type.dims : nullptr);
  }
  ops::PrologueRequest request;
  request.stages = stages.stages;
  request.dtype = graph.value(stages.of).type.dtype;
  request.inputs = inputs;
  request.operands = operands;
  ops::Decision decision = ops::OpOf(node).TryFusePrologue(request);
  if (!decision.accepted) return decision;
  const std::optional<graph::DimVector>& before = graph.value(stages.of).type.dims;
  if (!before || !read.type.dims || !SameDims(*before, *read.type.dims)) {
    return ops::Decision::Decline("the operator changes the extents, or they are not known");
  }
  return decision;
}

}  // namespace

std::optional<graph::Patch> FusePrologue(const graph::Graph& graph, graph::NodeId anchor,
                                         PassContext& context) {
  const graph::Node& node = graph.node(anchor);
  if (node.inputs.empty() || node.inputs[0] == kNoValue || !node.prologue.empty()) {
    return std::nullopt;
  }
  const graph::NodeId def = graph.value(node.inputs[0]).def;
  if (def == graph::kNoNode) return std::nullopt;
  const graph::Node& maker = graph.node(def);
  const ops::Traits traits = ops::OpOf(maker).traits();
  if (!maker.domain.empty() || !traits.elementwise || traits.view) return std::nullopt;
  const std::optional<Stages> stages = StagesOf(graph, maker);
  if (!stages) return std::nullopt;
  ops::Decision decision = Ask(graph, node, *stages);
  if (decision.accepted && !SoleReader(graph, node.inputs[0])) {
    decision = ops::Decision::Decline(
        "the element-wise result is read elsewhere, too",
        ReadOutside(graph, {anchor, def}, anchor).value_or("the node reads it twice"));
  }
  if (!decision.accepted) {
    // An empty rule: no kernel with a prologue at all.
    if (!decision.rule.empty()) {
      context.Refuse(graph, anchor, "prologue " + maker.op_type, decision.rule, decision.numbers);
    }
    return std::nullopt;
  }
  graph::Node fused = node;
  fused.inputs[0] = stages->of;
  if (!stages->operands.empty()) PadInputs(fused);
  const int first = static_cast<int>(fused.inputs.size());
  for (graph::EpilogueStage stage : stages->stages) {
    if (stage.operand >= 0) stage.operand += first;
    fused.prologue.push_back(std::move(stage));
  }
  fused.inputs.insert(fused.inputs.end(), stages->operands.begin(), stages->operands.end());
  return FusePair(graph, def, anchor, std::move(fused));
}

}  // namespace tandem::optimizer
