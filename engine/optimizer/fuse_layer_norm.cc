// Layer normalization as exporters write it out:
//
//   d = x - ReduceMean(x, axes)      v = ReduceMean(d^2, axes)
//   y = d / Sqrt(v + epsilon) * scale + bias         -> LayerNormalization(x, scale, bias)
//
// where d^2 is Pow(d, 2) or d * d, and d may be computed twice. Source: ONNX operator
// LayerNormalization; Ba, Kiros and Hinton, Layer Normalization, 2016. Guards: the axes are the
// last ones and kept; scale and bias have no extents but those axes'; nothing outside reads what is
// computed on the way.
#include "engine/optimizer/match.h"
#include "engine/optimizer/rewrite.h"

namespace tandem::optimizer {
namespace {

using graph::kNoNode;
using graph::kNoValue;
using graph::NodeId;
using graph::ValueId;

// Walks the formula from its end to x and collects the nodes that compute it, readers first.
class Matcher {
 public:
  explicit Matcher(const graph::Graph& graph) : graph_(graph) {}

  // y = d / Sqrt(v + epsilon) * scale + bias.
  bool Match(ValueId y) {
    const NodeId add = Maker(graph_, y, "Add");
    if (add == kNoNode) return false;
    for (const size_t port : {0, 1}) {
      nodes_ = {add};
      bias = graph_.node(add).inputs[1 - port];
      if (MatchScaled(graph_.node(add).inputs[port])) return true;
    }
    return false;
  }

  ValueId x = kNoValue;
  ValueId scale = kNoValue;
  ValueId bias = kNoValue;
  int64_t axis = 0;  // the first of the normalized ones, counted from the end: -1 is the last
  double epsilon = 0;

  const std::vector<NodeId>& nodes() const { return nodes_; }

 private:
  bool MatchScaled(ValueId id) {
    const NodeId mul = Maker(graph_, id, "Mul");
    if (mul == kNoNode) return false;
    for (const size_t port : {0, 1}) {
      nodes_.resize(1);
      nodes_.push_back(mul);
      scale = graph_.node(mul).inputs[1 - port];
      if (MatchNormalized(graph_.node(mul).inputs[port])) return true;
    }
    return false;
  }

  // d / Sqrt(v + epsilon)
  bool MatchNormalized(ValueId id) {
    const NodeId div = Maker(graph_, id, "Div");
    if (div == kNoNode) return false;
    x = kNoValue;
    axis = 0;
    nodes_.push_back(div);
    const ValueId numerator = graph_.node(div).inputs[0];
    const NodeId root = Maker(graph_, graph_.node(div).inputs[1], "Sqrt");
    if (root == kNoNode) return false;
    nodes_.push_back(root);
    const NodeId sum = Maker(graph_, graph_.node(root).inputs[0], "Add");
    if (sum == kNoNode) return false;
    nodes_.push_back(sum);
    const std::optional<ScalarOperand> operands = WithScalar(graph_, graph_.node(sum));
    if (!operands) return false;
    epsilon = operands->scalar;
    const ValueId squares = MeanArgument(operands->other);
    if (squares == kNoValue) return false;
    const ValueId deviation = SquareRoot(squares);
    return deviation != kNoValue && MatchDeviation(deviation) &&
           (numerator == deviation || MatchDeviation(numerator));
  }

  // x - ReduceMean(x)
  bool MatchDeviation(ValueId id) {
    const NodeId sub = Maker(graph_, id, "Sub");
    if (sub == kNoNode) return false;
    nodes_.push_back(sub);
    const ValueId from = graph_.node(sub).inputs[0];
    if (x != kNoValue && x != from) return false;
    x = from;
    return MeanArgument(graph_.node(sub).inputs[1]) == x;
  }

  // d, when `id` is d^2.
  ValueId SquareRoot(ValueId id) {
    const std::optional<Square> square = SquareOf(graph_, id);
    if (!square) return kNoValue;
    nodes_.push_back(square->node);
    return square->of;
  }

  // What `id` is the mean of, over the last axes, which are kept; the same ones every time.
  ValueId MeanArgument(ValueId id) {
    const std::optional<LastAxesMean> mean = LastAxesMeanOf(graph_, id);
    if (!mean || (axis != 0 && axis != mean->axis)) return kNoValue;
    axis = mean->axis;
    std::erase(nodes_, mean->node);  // two deviations may share their mean: it comes behind both
    nodes_.push_back(mean->node);
    return mean->of;
  }

  const graph::Graph& graph_;
  std::vector<NodeId> nodes_;
};

}  // namespace

std::optional<graph::Patch> FuseLayerNorm(const graph::Graph& graph, NodeId anchor,
                                          PassContext& context) {
  const graph::Node& root = graph.node(anchor);
  if (root.op_type != "Add" || root.outputs[0] == kNoValue) return std::nullopt;
  Matcher match(graph);
  if (!match.Match(root.outputs[0])) return std::nullopt;
  constexpr std::string_view kRole = "fuse into LayerNormalization";
  for (const ValueId operand : {match.scale, match.bias}) {
    if (!CoversLastAxes(graph, operand, match.x, match.axis)) {
      const auto& dims = graph.value(operand).type.dims;
      context.Refuse(graph, anchor, std::string(kRole),
                     "scale and bias need the extents of the normalized axes",
                     fmt::format("'{}' has {}", graph.value(operand).name,
                                 dims ? graph::ToString(*dims) : "[...]"));
      return std::nullopt;
    }
  }
  graph::Node fused;
  fused.op_type = "LayerNormalization";
  fused.opset = 17;
  fused.attributes["axis"] = match.axis;
  fused.attributes["epsilon"] = static_cast<float>(match.epsilon);
  fused.inputs = {match.x, match.scale, match.bias};
  return FuseFormula(graph::Patch(graph), graph, match.nodes(), std::move(fused), context);
}

}  // namespace tandem::optimizer
