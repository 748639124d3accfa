// A reduction into the kernel that computes its input:
//
//   y = Reduce*(p, axes)     p = producer(...)     -> y = producer(...) +Reduce*
//
// Whether a kernel reduces along the axes is its operator's answer (Operator::TryFuseEpilogue).
// Guards: p has this reader only and is no graph output; the producer has no other output that is
// read; the axes are known at load.
#include <algorithm>
#include <numeric>

#include "engine/ops/operator.h"
#include "engine/optimizer/rewrite.h"

namespace tandem::optimizer {
namespace {

using graph::kNoValue;

// The axes, as far as folding may read them; all of them where none are named and the rank is
// known.
std::optional<std::vector<int64_t>> AxesOf(const graph::Graph& graph, const graph::Node& node) {
  std::vector<int64_t> axes;
  if (node.inputs.size() > 1 && node.inputs[1] != kNoValue) {
    const graph::ConstantRef constant = graph.constant_input(node, 1);
    if (constant == nullptr || constant->dtype() != DType::kInt64) return std::nullopt;
    const std::span<const int64_t> elements = constant->view().span<int64_t>();
    axes.assign(elements.begin(), elements.end());
  } else if (const auto found = node.attributes.find("axes"); found != node.attributes.end()) {
    const auto* list = found->second.get_if<std::vector<int64_t>>();
    if (list != nullptr) axes = *list;
  }
  if (!axes.empty()) return axes;
  const std::optional<graph::DimVector>& dims = graph.value(node.inputs[0]).type.dims;
  if (!dims || IntAttribute(node, "noop_with_empty_axes", 0) != 0) return std::nullopt;
  axes.resize(dims->size());
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

// The other outputs of the producer are not read.
bool IsOnlyOutput(const graph::Graph& graph, const graph::Node& producer, graph::ValueId result) {
  for (const graph::ValueId output : producer.outputs) {
    if (output != kNoValue && output != result && !graph.value(output).uses.empty()) return false;
  }
  return true;
}

ops::Decision Ask(const graph::Graph& graph, const graph::Node& node,
                  const graph::Attributes& attributes) {
  const graph::Value& result = graph.value(node.inputs[0]);
  const graph::Node& producer = graph.node(result.def);
  const std::vector<const graph::DimVector*> inputs = InputDims(graph, producer);
  ops::EpilogueRequest request;
  request.op = node.op_type;
  request.resolved = node.op.get();
  request.attributes = &attributes;
  request.dtype = result.type.dtype;
  request.result = result.type.dims ? &*result.type.dims : nullptr;
  request.stages = producer.epilogue;
  request.inputs = inputs;
  request.readers = static_cast<int>(result.uses.size()) - result.output_uses;
  request.is_output = result.output_uses > 0;
  ops::Decision decision = ops::OpOf(producer).TryFuseEpilogue(request);
  if (decision.accepted && !IsOnlyOutput(graph, producer, node.inputs[0])) {
    return ops::Decision::Decline("another output of the producer is read");
  }
  return decision;
}

}  // namespace

std::optional<graph::Patch> FuseReduction(const graph::Graph& graph, graph::NodeId anchor,
                                          PassContext& context) {
  const graph::Node& node = graph.node(anchor);
  if (!node.domain.empty() || !node.op_type.starts_with("Reduce") || !node.epilogue.empty() ||
      node.outputs.size() != 1 || node.outputs[0] == kNoValue) {
    return std::nullopt;
  }
  const graph::NodeId def = graph.value(node.inputs[0]).def;
  if (def == graph::kNoNode || ops::OpOf(graph.node(def)).traits().elementwise) {
    return std::nullopt;
  }
  graph::EpilogueStage stage;
  stage.op = node.op_type;
  stage.resolved = node.op;
  stage.attributes["keepdims"] = IntAttribute(node, "keepdims", 1);
  if (const auto axes = AxesOf(graph, node)) stage.attributes["axes"] = *axes;
  const ops::Decision decision = Ask(graph, node, stage.attributes);
  if (!decision.accepted) {
    // An empty rule: no kernel with an epilogue at all.
    if (!decision.rule.empty()) {
      context.Refuse(graph, def, "reduction epilogue " + node.op_type, decision.rule,
                     decision.numbers);
    }
    return std::nullopt;
  }
  graph::Node fused = graph.node(def);
  std::ranges::replace(fused.outputs, node.inputs[0], node.outputs[0]);
  fused.epilogue.push_back(std::move(stage));
  return FusePair(graph, def, anchor, std::move(fused));
}

}  // namespace tandem::optimizer
