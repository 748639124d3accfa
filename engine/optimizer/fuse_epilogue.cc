// Element-wise nodes into the kernel that computes their input:
//
//   y = op(p)         p = producer(...)            -> y = producer(...) +op
//   y = op(p, o)      o a bias, scale or residual  -> y = producer(..., o) +op(o)
//
// Whether a kernel takes the stage is its operator's answer (Operator::TryFuseEpilogue). Guards:
//   p has this reader only and is no graph output; the producer has no other output that is read;
//   the result has the extents of p: o is broadcast to p, never p to o.
// As nothing but this node reads the producer, o cannot depend on it: reading o there makes no
// cycle, whatever the order of the nodes. Where both inputs come from producers that would take the
// node, the later one by dataflow gets it, the other one is its residual.
#include <algorithm>

#include "engine/ops/operator.h"
#include "engine/optimizer/rewrite.h"

namespace tandem::optimizer {
namespace {

using graph::kNoValue;

struct Candidate {
  graph::NodeId producer = graph::kNoNode;
  int port = 0;  // of the anchor that reads the producer
};

bool IsClip(const graph::Node& node) { return node.domain.empty() && node.op_type == "Clip"; }

// The only element of a bound as float, which holds every 8-bit integer.
std::optional<float> BoundOf(const graph::ConstantRef& bound) {
  if (bound == nullptr || bound->elements() != 1) return std::nullopt;
  switch (bound->dtype()) {
    case DType::kFloat:
      return bound->view().data<float>()[0];
    case DType::kInt8:
      return bound->view().data<int8_t>()[0];
    case DType::kUint8:
      return bound->view().data<uint8_t>()[0];
    default:
      return std::nullopt;
  }
}

// The attributes of the stage; bounds of a Clip that are constant inputs become attributes. Nothing
// when a bound is known only in a run.
std::optional<graph::Attributes> StageAttributes(const graph::Graph& graph,
                                                 const graph::Node& node) {
  graph::Attributes attributes = node.attributes;
  if (!IsClip(node)) return attributes;
  constexpr std::string_view kBounds[] = {"min", "max"};
  for (size_t port = 1; port < node.inputs.size(); ++port) {
    if (node.inputs[port] == kNoValue) continue;
    const std::optional<float> bound = BoundOf(graph.constant_input(node, static_cast<int>(port)));
    if (!bound) return std::nullopt;
    attributes[std::string(kBounds[port - 1])] = *bound;
  }
  return attributes;
}

// Inputs of the anchor that carry elements: of a Clip the first, else all.
size_t DataInputs(const graph::Node& node) { return IsClip(node) ? 1 : node.inputs.size(); }

// Producers of the anchor's inputs: products before element-wise nodes, which read all of memory
// anyhow; of either kind the deepest first.
std::vector<Candidate> CandidatesOf(const graph::Graph& graph, const graph::Node& node,
                                    const PassContext& context) {
  std::vector<Candidate> candidates;
  for (size_t port = 0; port < DataInputs(node); ++port) {
    if (node.inputs[port] == kNoValue) continue;
    const graph::NodeId def = graph.value(node.inputs[port]).def;
    if (def != graph::kNoNode) candidates.push_back({def, static_cast<int>(port)});
  }
  std::ranges::stable_sort(candidates, std::greater<>(), [&](const Candidate& candidate) {
    const bool product = !ops::OpOf(graph.node(candidate.producer)).traits().elementwise;
    return std::pair(product, context.depth(candidate.producer));
  });
  return candidates;
}

// True when an operand of these extents is broadcast to `result` and never the other way.
bool BroadcastsTo(const graph::DimVector& operand, const graph::DimVector& result) {
  if (operand.size() > result.size()) return false;
  const size_t offset = result.size() - operand.size();
  for (size_t axis = 0; axis < operand.size(); ++axis) {
    const graph::Dim& extent = operand[axis];
    if (extent.is_number() && extent.number() == 1) continue;
    if (!extent.SameAs(result[offset + axis])) return false;
  }
  return true;
}

ops::Decision CheckGuards(const graph::Graph& graph, const graph::Node& node,
                          const Candidate& candidate, const ops::EpilogueRequest& request) {
  if (request.is_output) return ops::Decision::Decline("the result is a graph output");
  if (request.readers != 1) {
    return ops::Decision::Decline("the result has other readers",
                                  fmt::format("readers={}", request.readers));
  }
  for (const graph::ValueId output : graph.node(candidate.producer).outputs) {
    if (output == kNoValue || output == node.inputs[static_cast<size_t>(candidate.port)]) continue;
    if (!graph.value(output).uses.empty()) {
      return ops::Decision::Decline("another output of the producer is read",
                                    graph.value(output).name);
    }
  }
  if (request.operand == nullptr) return ops::Decision::Accept();
  if (request.result == nullptr || !BroadcastsTo(*request.operand, *request.result)) {
    return ops::Decision::Decline(
        "the operand is not known to be broadcast to the result",
        fmt::format("{} to {}", graph::ToString(*request.operand),
                    request.result ? graph::ToString(*request.result) : "[...]"));
  }
  return ops::Decision::Accept();
}

// Input of the anchor that is the second operand, or -1.
int OperandPort(const graph::Node& node, const Candidate& candidate) {
  return DataInputs(node) == 2 ? 1 - candidate.port : -1;
}

ops::Decision Ask(const graph::Graph& graph, const graph::Node& node, const Candidate& candidate,
                  const graph::Attributes& attributes) {
  const graph::Value& result = graph.value(node.inputs[static_cast<size_t>(candidate.port)]);
  const graph::Node& producer = graph.node(candidate.producer);
  ops::EpilogueRequest request;
  request.op = node.op_type;
  request.resolved = node.op.get();
  request.attributes = &attributes;
  request.dtype = result.type.dtype;
  request.result = result.type.dims ? &*result.type.dims : nullptr;
  request.stages = producer.epilogue;
  const std::vector<const graph::DimVector*> inputs = InputDims(graph, producer);
  request.inputs = inputs;
  request.readers = static_cast<int>(result.uses.size()) - result.output_uses;
  request.is_output = result.output_uses > 0;
  const int operand = OperandPort(node, candidate);
  if (operand >= 0) {
    const graph::Value& value = graph.value(node.inputs[static_cast<size_t>(operand)]);
    request.operand = value.type.dims ? &*value.type.dims : nullptr;
    request.operand_is_constant = value.constant != nullptr;
    request.operand_is_first = operand == 0;
  }
  ops::Decision decision = ops::OpOf(producer).TryFuseEpilogue(request);
  if (!decision.accepted) return decision;
  if (operand >= 0 && request.operand == nullptr) {
    return ops::Decision::Decline("the rank of the operand is unknown");
  }
  return CheckGuards(graph, node, candidate, request);
}

// The producer with one more stage, standing where the anchor stood.
graph::Patch Fuse(const graph::Graph& graph, graph::NodeId anchor, const Candidate& candidate,
                  graph::Attributes attributes) {
  const graph::Node& node = graph.node(anchor);
  graph::Node fused = graph.node(candidate.producer);
  graph::EpilogueStage stage;
  stage.op = node.op_type;
  stage.resolved = node.op;
  stage.attributes = std::move(attributes);
  const int operand = OperandPort(node, candidate);
  if (operand >= 0) {
    PadInputs(fused);
    stage.operand = static_cast<int>(fused.inputs.size());
    stage.operand_is_first = operand == 0;
    fused.inputs.push_back(node.inputs[static_cast<size_t>(operand)]);
  }
  fused.epilogue.push_back(std::move(stage));
  const graph::ValueId result = node.inputs[static_cast<size_t>(candidate.port)];
  std::ranges::replace(fused.outputs, result, node.outputs[0]);
  return FusePair(graph, candidate.producer, anchor, std::move(fused));
}

}  // namespace

std::optional<graph::Patch> FuseEpilogue(const graph::Graph& graph, graph::NodeId anchor,
                                         PassContext& context) {
  const graph::Node& node = graph.node(anchor);
  if (!node.domain.empty() || !node.epilogue.empty() || node.outputs.size() != 1 ||
      node.outputs[0] == kNoValue) {
    return std::nullopt;
  }
  const ops::Traits traits = ops::OpOf(node).traits();
  if (!traits.elementwise || traits.view) return std::nullopt;
  if (DataInputs(node) < 1 || DataInputs(node) > 2) return std::nullopt;
  const std::optional<graph::Attributes> attributes = StageAttributes(graph, node);
  if (!attributes) return std::nullopt;
  for (const Candidate& candidate : CandidatesOf(graph, node, context)) {
    const ops::Decision decision = Ask(graph, node, candidate, *attributes);
    if (decision.accepted) return Fuse(graph, anchor, candidate, *attributes);
    // An empty rule: no kernel with an epilogue at all.
    if (!decision.rule.empty()) {
      context.Refuse(graph, candidate.producer, "epilogue " + node.op_type, decision.rule,
                     decision.numbers);
    }
  }
  return std::nullopt;
}

}  // namespace tandem::optimizer
