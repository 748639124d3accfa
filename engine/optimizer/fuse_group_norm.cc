// Group normalization as exporters write it out for lack of the operator:
//
//   n = Reshape(InstanceNormalization(Reshape(x, [N, G, rest]), ones, zeros), extents of x)
//   y = n * scale + bias                         -> GroupNormalization(x, scale, bias, num_groups =
//   G)
//
// with x [N, C, ...] and scale and bias [C, 1, ...], one per channel. Source: ONNX operator
// GroupNormalization of opset 21; Wu and He, Group Normalization, 2018. Guards: the groups are of
// whole channels and the instance normalization neither scales nor shifts; nothing outside reads
// what is computed on the way.
#include <algorithm>

#include "engine/optimizer/match.h"
#include "engine/optimizer/rewrite.h"

namespace tandem::optimizer {
namespace {

using graph::kNoNode;
using graph::kNoValue;
using graph::NodeId;
using graph::ValueId;

struct Match {
  ValueId x = kNoValue;
  graph::ConstantRef scale;
  graph::ConstantRef bias;
  NodeId norm = kNoNode;
  int64_t groups = 0;
  int64_t channels = 0;
  std::vector<NodeId> nodes;  // readers first
};

// A constant with an element for each of `channels`, aligned to axis 1 of a value of `rank`.
graph::ConstantRef PerChannel(const graph::Graph& graph, const graph::Node& node, int port,
                              int64_t channels) {
  const int64_t rank = static_cast<int64_t>(graph.value(node.outputs[0]).type.dims->size());
  graph::ConstantRef constant = graph.constant_input(node, port);
  if (constant == nullptr || constant->dtype() != DType::kFloat) return nullptr;
  const Shape& shape = constant->shape();
  const int64_t axis = shape.rank() - (rank - 1);  // of the channels
  const bool aligned =
      axis >= 0 && axis < shape.rank() && shape[static_cast<int>(axis)] == channels;
  return aligned && shape.elements() == channels ? constant : nullptr;
}

bool AllAre(const graph::ConstantRef& constant, float value) {
  if (constant == nullptr || constant->dtype() != DType::kFloat) return false;
  const StatusOr<Tensor> elements = constant->SpellOut();
  return elements.ok() && std::ranges::all_of(elements->span<float>(),
                                              [value](float element) { return element == value; });
}

// x of Reshape(InstanceNormalization(Reshape(x))), with its groups.
bool MatchNormalized(const graph::Graph& graph, ValueId id, Match& match) {
  const NodeId back = Maker(graph, id, "Reshape");
  if (back == kNoNode) return false;
  match.norm = Maker(graph, graph.node(back).inputs[0], "InstanceNormalization");
  if (match.norm == kNoNode) return false;
  const NodeId grouped = Maker(graph, graph.node(match.norm).inputs[0], "Reshape");
  if (grouped == kNoNode) return false;
  match.x = graph.node(grouped).inputs[0];
  match.nodes.insert(match.nodes.end(), {back, match.norm, grouped});
  const auto& of_x = graph.value(match.x).type.dims;
  const auto& in_groups = graph.value(graph.node(grouped).outputs[0]).type.dims;
  if (!of_x || !in_groups || of_x->size() < 3 || in_groups->size() < 3) return false;
  if (!(*of_x)[1].is_number() || !(*in_groups)[1].is_number()) return false;
  match.channels = (*of_x)[1].number();
  match.groups = (*in_groups)[1].number();
  return (*in_groups)[0].SameAs((*of_x)[0]) && match.groups > 0 &&
         match.channels % match.groups == 0 && SameExtents(graph, id, match.x);
}

// n * scale + bias, operands in any order.
std::optional<Match> MatchAll(const graph::Graph& graph, NodeId add) {
  for (const int bias_port : {1, 0}) {
    const graph::Node& sum = graph.node(add);
    const NodeId mul = Maker(graph, sum.inputs[static_cast<size_t>(1 - bias_port)], "Mul");
    if (mul == kNoNode) continue;
    for (const int scale_port : {1, 0}) {
      const graph::Node& product = graph.node(mul);
      Match match{.nodes = {add, mul}};
      if (!MatchNormalized(graph, product.inputs[static_cast<size_t>(1 - scale_port)], match)) {
        continue;
      }
      match.scale = PerChannel(graph, product, scale_port, match.channels);
      match.bias = PerChannel(graph, sum, bias_port, match.channels);
      if (match.scale != nullptr && match.bias != nullptr) return match;
    }
  }
  return std::nullopt;
}

// The elements of `constant` as a vector.
StatusOr<graph::ConstantRef> AsVector(const graph::ConstantRef& constant, PassContext& context) {
  ASSIGN_OR_RETURN(const Tensor elements, constant->SpellOut());
  return context.constants().Intern(elements.Reshaped({elements.elements()}));
}

}  // namespace

std::optional<graph::Patch> FuseGroupNorm(const graph::Graph& graph, NodeId anchor,
                                          PassContext& context) {
  const graph::Node& root = graph.node(anchor);
  if (root.outputs[0] == kNoValue || Maker(graph, root.outputs[0], "Add") != anchor ||
      !graph.value(root.outputs[0]).type.dims) {
    return std::nullopt;
  }
  const std::optional<Match> match = MatchAll(graph, anchor);
  if (!match) return std::nullopt;
  const std::string role = "fuse into GroupNormalization";
  const graph::Node& norm = graph.node(match->norm);
  if (!AllAre(graph.constant_input(norm, 1), 1) || !AllAre(graph.constant_input(norm, 2), 0)) {
    context.Refuse(graph, anchor, role, "the InstanceNormalization scales or shifts");
    return std::nullopt;
  }
  const StatusOr<graph::ConstantRef> scale = AsVector(match->scale, context);
  const StatusOr<graph::ConstantRef> bias = AsVector(match->bias, context);
  if (!scale.ok() || !bias.ok()) {
    context.Refuse(graph, anchor, role, "memory is short");
    return std::nullopt;
  }
  graph::Patch patch(graph);
  graph::Node fused;
  fused.op_type = "GroupNormalization";
  fused.opset = 21;
  fused.attributes["num_groups"] = match->groups;
  const auto epsilon = norm.attributes.find("epsilon");
  if (epsilon != norm.attributes.end()) fused.attributes["epsilon"] = epsilon->second;
  fused.inputs = {match->x, patch.NewConstant("scale", *scale), patch.NewConstant("bias", *bias)};
  return FuseFormula(std::move(patch), graph, match->nodes, std::move(fused), context);
}

}  // namespace tandem::optimizer
