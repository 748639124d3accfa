// A convolution into the one that reads it, where one of them is in groups:
//
//   y = Conv(z, W)     z = Conv(x, V, b) +stages     -> y = Conv(V)+ Add(b)+ stages+ Conv(x, W)
//
// z's prologue goes along, so that a pointwise, a depthwise and a pointwise convolution become one
// node. Whether a kernel takes them is the operator's answer (Operator::TryFusePrologue). Guards: z
// has this reader only and is no graph output; W, V, b and what the stages read are constant.
#include <algorithm>

#include "engine/ops/operator.h"
#include "engine/optimizer/rewrite.h"

namespace tandem::optimizer {
namespace {

using graph::kNoValue;
using graph::ValueId;

constexpr int kWeights = 1;  // ports of Conv
constexpr size_t kBias = 2;

bool IsConv(const graph::Node& node) { return node.domain.empty() && node.op_type == "Conv"; }

bool HasGroups(const graph::Node& conv) { return IntAttribute(conv, "group", 1) > 1; }

// The convolution, what is done to its input and to its result as stages; operands are ports of
// `node`.
std::vector<graph::EpilogueStage> StagesOf(const graph::Node& node) {
  std::vector<graph::EpilogueStage> stages = node.prologue;
  graph::EpilogueStage& conv = stages.emplace_back();
  conv.op = node.op_type;
  conv.attributes = node.attributes;
  conv.operand = kWeights;
  conv.resolved = node.op;
  if (node.inputs.size() > kBias && node.inputs[kBias] != kNoValue) {
    graph::EpilogueStage& bias = stages.emplace_back();
    bias.op = "Add";
    bias.operand = kBias;
  }
  stages.insert(stages.end(), node.epilogue.begin(), node.epilogue.end());
  return stages;
}

// Extents [C, 1, ...] in which a bias is an operand of a result of this rank.
std::optional<graph::DimVector> BiasDims(const graph::Graph& graph, const graph::Node& node) {
  const std::optional<graph::DimVector>& result = graph.value(node.outputs[0]).type.dims;
  if (!result || result->size() < 3) return std::nullopt;
  graph::DimVector dims(result->size() - 1, graph::Dim(1));
  dims[0] = (*result)[1];
  return dims;
}

ops::Decision Ask(const graph::Graph& graph, const graph::Node& node, const graph::Node& before,
                  const std::vector<graph::EpilogueStage>& stages) {
  const std::optional<graph::DimVector> bias = BiasDims(graph, before);
  const std::vector<const graph::DimVector*> own = InputDims(graph, before);
  std::vector<const graph::DimVector*> operands;
  for (const graph::EpilogueStage& stage : stages) {
    const graph::DimVector* dims =
        stage.operand < 0 ? nullptr : own[static_cast<size_t>(stage.operand)];
    if (stage.operand == kBias && bias) dims = &*bias;
    operands.push_back(dims);
  }
  const std::vector<const graph::DimVector*> inputs = InputDims(graph, node);
  ops::PrologueRequest request;
  request.stages = stages;
  request.dtype = graph.value(node.inputs[0]).type.dtype;
  request.inputs = inputs;
  request.operands = operands;
  return ops::OpOf(node).TryFusePrologue(request);
}

ops::Decision CheckGuards(const graph::Graph& graph, const graph::Node& node,
                          const graph::Node& before) {
  const graph::Value& between = graph.value(node.inputs[0]);
  if (between.output_uses > 0) {
    return ops::Decision::Decline("the result between the convolutions is a graph output",
                                  between.name);
  }
  if (between.uses.size() != 1) {
    return ops::Decision::Decline("the result between the convolutions has other readers",
                                  fmt::format("readers={}", between.uses.size()));
  }
  // Weights that become constant later may take a BatchNormalization with them first.
  if (graph.value(node.inputs[kWeights]).constant == nullptr) {
    return ops::Decision::Decline("the weights of the convolution are not constant",
                                  graph.value(node.inputs[kWeights]).name);
  }
  for (size_t port = 1; port < before.inputs.size(); ++port) {
    const ValueId input = before.inputs[port];
    if (input == kNoValue) continue;
    if (graph.value(input).constant == nullptr) {
      return ops::Decision::Decline("an operand of the convolution before is not constant",
                                    graph.value(input).name);
    }
  }
  return ops::Decision::Accept();
}

// The bias as an operand of element-wise stages.
StatusOr<ValueId> BiasOperand(const graph::Graph& graph, const graph::Node& conv,
                              PassContext& context, graph::Patch& patch) {
  const graph::Value& bias = graph.value(conv.inputs[kBias]);
  ASSIGN_OR_RETURN(const Tensor tensor, bias.constant->SpellOut());
  Shape shape;
  shape.Append(tensor.elements());
  while (shape.rank() + 1 < static_cast<int>(graph.value(conv.outputs[0]).type.dims->size())) {
    shape.Append(1);
  }
  return patch.NewConstant(bias.name, context.constants().Intern(tensor.Reshaped(shape)));
}

StatusOr<graph::Patch> Fuse(const graph::Graph& graph, graph::NodeId anchor,
                            std::vector<graph::EpilogueStage> stages, PassContext& context) {
  graph::Patch patch(graph);
  graph::Node fused = graph.node(anchor);
  const graph::NodeId def = graph.value(fused.inputs[0]).def;
  const graph::Node& before = graph.node(def);
  fused.inputs[0] = before.inputs[0];
  PadInputs(fused);
  for (graph::EpilogueStage& stage : stages) {
    if (stage.operand < 0) continue;
    ValueId operand = before.inputs[static_cast<size_t>(stage.operand)];
    if (stage.operand == kBias) {
      ASSIGN_OR_RETURN(operand, BiasOperand(graph, before, context, patch));
    }
    stage.operand = static_cast<int>(fused.inputs.size());
    fused.inputs.push_back(operand);
  }
  fused.prologue = std::move(stages);
  fused.op = nullptr;  // it is parsed again, with its prologue
  fused.origin = OriginOf(graph, {def, anchor});
  patch.AddNode(std::move(fused));
  patch.RemoveNode(anchor);
  patch.RemoveNode(def);
  return patch;
}

}  // namespace

std::optional<graph::Patch> FuseDepthwise(const graph::Graph& graph, graph::NodeId anchor,
                                          PassContext& context) {
  const graph::Node& node = graph.node(anchor);
  if (!IsConv(node) || !node.prologue.empty() || node.inputs[0] == kNoValue) return std::nullopt;
  const graph::NodeId def = graph.value(node.inputs[0]).def;
  if (def == graph::kNoNode || !IsConv(graph.node(def))) return std::nullopt;
  const graph::Node& before = graph.node(def);
  if (!HasGroups(before) && !HasGroups(node)) return std::nullopt;  // the question does not arise
  std::vector<graph::EpilogueStage> stages = StagesOf(before);
  ops::Decision decision = Ask(graph, node, before, stages);
  if (decision.accepted) decision = CheckGuards(graph, node, before);
  if (decision.accepted) {
    StatusOr<graph::Patch> patch = Fuse(graph, anchor, std::move(stages), context);
    if (patch.ok()) return *std::move(patch);
    decision = ops::Decision::Decline("the bias cannot be written out",
                                      std::string(Message(patch.status())));
  }
  context.Refuse(graph, anchor, "depthwise prologue", decision.rule, decision.numbers);
  return std::nullopt;
}

}  // namespace tandem::optimizer
