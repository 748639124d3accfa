// BatchNormalization into the convolution before it (ONNX BatchNormalization, inference):
//
//   y = (conv(x, W) + B - mean) / sqrt(var + epsilon) * scale + bias
//     = conv(x, W * s) + (B - mean) * s + bias          with s[m] = scale / sqrt(var + epsilon)
//
// s scales the m-th output channel, axis 0 of W, whatever the number of groups. Constants are never
// changed: a weight that another Conv reads, too, stays what it is there.
#include <array>
#include <cmath>

#include "engine/optimizer/match.h"
#include "engine/optimizer/rewrite.h"

namespace tandem::optimizer {
namespace {

// Inputs and attributes of one match.
struct Match {
  graph::NodeId conv = graph::kNoNode;
  graph::ConstantRef weight;
  graph::ConstantRef conv_bias;            // null when omitted
  std::array<graph::ConstantRef, 4> norm;  // scale, bias, mean, variance
  double epsilon = 1e-5;
};

// The reason why the normalization is not a plain inference one, or nothing.
std::optional<std::string> Unusual(const graph::Graph& graph, const graph::Node& norm) {
  if (norm.opset < 7) return "its opset is older than 7";
  if (IntAttribute(norm, "training_mode", 0) != 0) return "training_mode is set";
  if (IntAttribute(norm, "spatial", 1) != 1) return "spatial is 0";
  for (size_t port = 1; port < norm.outputs.size(); ++port) {
    if (norm.outputs[port] != graph::kNoValue && !graph.value(norm.outputs[port]).uses.empty()) {
      return "its statistics are read";
    }
  }
  return std::nullopt;
}

bool IsFloatVector(const graph::ConstantRef& constant, int64_t extent) {
  return constant != nullptr && constant->dtype() == DType::kFloat &&
         constant->shape() == Shape{extent};
}

// Conv's constants; the reason why they are none, or nothing.
std::optional<std::string> MatchConv(const graph::Graph& graph, graph::NodeId anchor,
                                     Match& match) {
  const graph::Node& conv = graph.node(match.conv);
  if (!conv.epilogue.empty()) return "the Conv has an epilogue already";
  if (!conv.prologue.empty()) return "the Conv has a prologue already";
  if (!SoleReader(graph, conv.outputs[0])) {
    return "the result of the Conv has another reader: " +
           ReadOutside(graph, {anchor, match.conv}, anchor).value_or("it is read twice");
  }
  match.weight = graph.constant_input(conv, 1);
  if (match.weight == nullptr || match.weight->dtype() != DType::kFloat ||
      match.weight->shape().rank() < 2) {
    return "the weight of the Conv is no float constant";
  }
  const StridedTensor& strided = match.weight->strided();
  if (strided.quantised != nullptr && strided.quantised->scales.size() > 1 &&
      strided.quantised_axis != 0) {
    return "the scales of the quantised weight are not those of output channels";
  }
  const int64_t channels = match.weight->shape()[0];
  if (conv.inputs.size() > 2 && conv.inputs[2] != graph::kNoValue) {
    match.conv_bias = graph.constant_input(conv, 2);
    if (!IsFloatVector(match.conv_bias, channels)) return "the bias of the Conv is no constant";
  }
  return std::nullopt;
}

std::optional<std::string> MatchNorm(const graph::Graph& graph, const graph::Node& norm,
                                     Match& match) {
  const int64_t channels = match.weight->shape()[0];
  for (int i = 0; i < 4; ++i) {
    match.norm[static_cast<size_t>(i)] = graph.constant_input(norm, i + 1);
    if (!IsFloatVector(match.norm[static_cast<size_t>(i)], channels)) {
      return fmt::format("input {} is no float constant with an element per channel", i + 1);
    }
  }
  const auto epsilon = norm.attributes.find("epsilon");
  if (epsilon != norm.attributes.end()) {
    const auto* value = epsilon->second.get_if<float>();
    if (value == nullptr) return "epsilon is no float";
    match.epsilon = *value;
  }
  return std::nullopt;
}

struct Folded {
  StridedTensor weight;
  Tensor bias;
};

// The weight with each output channel times its factor.
StatusOr<StridedTensor> Scaled(const graph::Constant& constant, std::span<const double> factors) {
  ASSIGN_OR_RETURN(const Tensor weight, constant.SpellOut());
  ASSIGN_OR_RETURN(const Tensor scaled, Tensor::Allocate(DType::kFloat, weight.shape()));
  const int64_t per_channel = weight.shape().Product(1, weight.shape().rank());
  const float* from = weight.data<float>();
  float* to = scaled.mutable_data<float>();
  for (const double factor : factors) {
    for (int64_t i = 0; i < per_channel; ++i) {
      *to++ = static_cast<float>(static_cast<double>(*from++) * factor);
    }
  }
  return StridedTensor::Of(scaled);
}

// The same of a quantised weight: its scales take the factors.
StridedTensor ScaledBytes(const graph::Constant& constant, std::span<const double> factors) {
  StridedTensor weight = constant.strided();
  Quantised quantised;
  for (size_t m = 0; m < factors.size(); ++m) {
    const size_t at = weight.quantised->scales.size() == 1 ? 0 : m;
    quantised.zero_points.push_back(weight.quantised->zero_points[at]);
    quantised.scales.push_back(
        static_cast<float>(static_cast<double>(weight.quantised->scales[at]) * factors[m]));
  }
  weight.quantised = std::make_shared<const Quantised>(std::move(quantised));
  weight.quantised_axis = 0;
  return weight;
}

StatusOr<Folded> Fold(const Match& match) {
  const int64_t channels = match.weight->shape()[0];
  Folded folded;
  ASSIGN_OR_RETURN(folded.bias, Tensor::Allocate(DType::kFloat, Shape{channels}));
  const auto at = [&](int i, int64_t m) {
    return static_cast<double>(match.norm[static_cast<size_t>(i)]->view().data<float>()[m]);
  };
  std::vector<double> factors;
  for (int64_t m = 0; m < channels; ++m) {
    const double factor = at(0, m) / std::sqrt(at(3, m) + match.epsilon);
    const double bias = match.conv_bias != nullptr ? match.conv_bias->view().data<float>()[m] : 0.0;
    folded.bias.mutable_data<float>()[m] =
        static_cast<float>((bias - at(2, m)) * factor + at(1, m));
    factors.push_back(factor);
  }
  if (match.weight->strided().quantised != nullptr) {
    folded.weight = ScaledBytes(*match.weight, factors);
  } else {
    ASSIGN_OR_RETURN(folded.weight, Scaled(*match.weight, factors));
  }
  return folded;
}

// Bytes of the constant at `port` that go with its only reader.
size_t FreedBytes(const graph::Graph& graph, const graph::Node& node, size_t port) {
  if (port >= node.inputs.size() || node.inputs[port] == graph::kNoValue) return 0;
  const graph::Value& value = graph.value(node.inputs[port]);
  const bool freed = value.constant != nullptr && value.uses.size() == 1 && !value.is_input;
  return freed ? value.constant->held_bytes() : 0;
}

FoldCost CostOf(const graph::Graph& graph, graph::NodeId anchor, const Match& match) {
  const graph::Node& norm = graph.node(anchor);
  const graph::Node& conv = graph.node(match.conv);
  FoldCost cost{.nodes = {OriginOf(graph, anchor)}};
  const graph::Constant& weight = *match.weight;
  cost.made_bytes = DTypeBytes(DType::kFloat, weight.shape()[0]);
  // The bytes of a quantised weight stay.
  if (weight.strided().quantised == nullptr) {
    cost.made_bytes += weight.byte_size();
    cost.spelled_bytes = weight.is_view() ? weight.byte_size() : 0;
    cost.freed_bytes += FreedBytes(graph, conv, 1);
  }
  cost.freed_bytes += FreedBytes(graph, conv, 2);
  for (const size_t port : {1, 2, 3, 4}) cost.freed_bytes += FreedBytes(graph, norm, port);
  cost.elements = weight.elements();
  return cost;
}

graph::Patch MakePatch(const graph::Graph& graph, graph::NodeId anchor, const Match& match,
                       PassContext& context, Folded folded) {
  const graph::Node& norm = graph.node(anchor);
  graph::Node fused = graph.node(match.conv);
  graph::Patch patch(graph);
  const graph::ValueId weight = patch.NewConstant(
      graph.value(fused.inputs[1]).name, context.constants().InternView(std::move(folded.weight)));
  const graph::ValueId bias = patch.NewConstant(graph.value(norm.inputs[2]).name,
                                                context.constants().Intern(std::move(folded.bias)));
  fused.inputs.resize(3, graph::kNoValue);
  fused.inputs[1] = weight;
  fused.inputs[2] = bias;
  fused.outputs = {norm.outputs[0]};
  fused.origin = OriginOf(graph, {match.conv, anchor});
  fused.op = nullptr;
  patch.AddNode(std::move(fused));
  patch.RemoveNode(anchor);
  patch.RemoveNode(match.conv);
  return patch;
}

}  // namespace

std::optional<graph::Patch> FoldBatchNorm(const graph::Graph& graph, graph::NodeId anchor,
                                          PassContext& context) {
  const graph::Node& norm = graph.node(anchor);
  if (!norm.domain.empty() || norm.op_type != "BatchNormalization" || !norm.epilogue.empty()) {
    return std::nullopt;
  }
  Match match;
  match.conv = graph.value(norm.inputs[0]).def;
  if (match.conv == graph::kNoNode || norm.outputs[0] == graph::kNoValue) return std::nullopt;
  const graph::Node& conv = graph.node(match.conv);
  if (!conv.domain.empty() || conv.op_type != "Conv") return std::nullopt;
  std::optional<std::string> reason = Unusual(graph, norm);
  if (!reason) reason = MatchConv(graph, anchor, match);
  if (!reason) reason = MatchNorm(graph, norm, match);
  if (reason) {
    context.Refuse(graph, anchor, "fold into " + graph::Describe(graph, match.conv), *reason);
    return std::nullopt;
  }
  const FoldCost cost = CostOf(graph, anchor, match);
  const ops::Decision decision = context.ledger().Check(cost);
  if (!decision.accepted) {
    context.Refuse(graph, anchor, "fold into " + graph::Describe(graph, match.conv), decision.rule,
                   decision.numbers);
    return std::nullopt;
  }
  StatusOr<Folded> folded = Fold(match);
  if (!folded.ok()) {
    context.Refuse(graph, anchor, "fold into " + graph::Describe(graph, match.conv),
                   "its evaluation fails", std::string(Message(folded.status())));
    return std::nullopt;
  }
  context.Charge(cost);
  return MakePatch(graph, anchor, match, context, *std::move(folded));
}

}  // namespace tandem::optimizer
