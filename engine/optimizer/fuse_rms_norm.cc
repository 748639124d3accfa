// Root mean square normalization as exporters write it out:
//
//   y = x / Sqrt(ReduceMean(x^2, axes) + epsilon) * scale      -> RMSNormalization(x, scale)
//
// where x^2 is Pow(x, 2) or x * x, and the division may be a product with Reciprocal(Sqrt(...)) or
// with 1 / Sqrt(...). Source: ONNX operator RMSNormalization; Zhang and Sennrich, Root Mean Square
// Layer Normalization, 2019. Guards: the axes are the last ones and kept; scale has no extents but
// those axes'; nothing outside reads what is computed on the way.
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

  // y = n * scale
  bool Match(NodeId mul) {
    for (const size_t port : {0, 1}) {
      nodes_ = {mul};
      scale = graph_.node(mul).inputs[1 - port];
      if (MatchNormalized(graph_.node(mul).inputs[port])) return true;
    }
    return false;
  }

  ValueId x = kNoValue;
  ValueId scale = kNoValue;
  int64_t axis = 0;
  double epsilon = 0;

  const std::vector<NodeId>& nodes() const { return nodes_; }

 private:
  // n = x / root, or x times 1 / root
  bool MatchNormalized(ValueId id) {
    if (const NodeId div = Maker(graph_, id, "Div"); div != kNoNode) {
      nodes_.push_back(div);
      x = graph_.node(div).inputs[0];
      return MatchRoot(graph_.node(div).inputs[1]);
    }
    const NodeId mul = Maker(graph_, id, "Mul");
    if (mul == kNoNode) return false;
    for (const size_t port : {0, 1}) {
      nodes_.resize(1);
      nodes_.push_back(mul);
      x = graph_.node(mul).inputs[1 - port];
      if (MatchInverse(graph_.node(mul).inputs[port])) return true;
    }
    return false;
  }

  bool MatchInverse(ValueId id) {
    if (const NodeId inverse = Maker(graph_, id, "Reciprocal"); inverse != kNoNode) {
      nodes_.push_back(inverse);
      return MatchRoot(graph_.node(inverse).inputs[0]);
    }
    const NodeId div = Maker(graph_, id, "Div");
    if (div == kNoNode) return false;
    const std::optional<ScalarOperand> operands = WithScalar(graph_, graph_.node(div));
    if (!operands || operands->port != 0 || operands->scalar != 1) return false;
    nodes_.push_back(div);
    return MatchRoot(operands->other);
  }

  // Sqrt(ReduceMean(x^2) + epsilon)
  bool MatchRoot(ValueId id) {
    const NodeId root = Maker(graph_, id, "Sqrt");
    if (root == kNoNode) return false;
    const NodeId sum = Maker(graph_, graph_.node(root).inputs[0], "Add");
    if (sum == kNoNode) return false;
    const std::optional<ScalarOperand> operands = WithScalar(graph_, graph_.node(sum));
    if (!operands) return false;
    const std::optional<LastAxesMean> mean = LastAxesMeanOf(graph_, operands->other);
    if (!mean) return false;
    const std::optional<Square> square = SquareOf(graph_, mean->of);
    if (!square || square->of != x) return false;
    epsilon = operands->scalar;
    axis = mean->axis;
    nodes_.insert(nodes_.end(), {root, sum, mean->node, square->node});
    return true;
  }

  const graph::Graph& graph_;
  std::vector<NodeId> nodes_;
};

}  // namespace

std::optional<graph::Patch> FuseRmsNorm(const graph::Graph& graph, NodeId anchor,
                                        PassContext& context) {
  const graph::Node& root = graph.node(anchor);
  if (root.outputs[0] == kNoValue || Maker(graph, root.outputs[0], "Mul") != anchor) {
    return std::nullopt;
  }
  Matcher match(graph);
  if (!match.Match(anchor)) return std::nullopt;
  constexpr std::string_view kRole = "fuse into RMSNormalization";
  if (!CoversLastAxes(graph, match.scale, match.x, match.axis)) {
    const auto& dims = graph.value(match.scale).type.dims;
    context.Refuse(graph, anchor, std::string(kRole),
                   "scale needs the extents of the normalized axes",
                   fmt::format("'{}' has {}", graph.value(match.scale).name,
                               dims ? graph::ToString(*dims) : "[...]"));
    return std::nullopt;
  }
  graph::Node fused;
  fused.op_type = "RMSNormalization";
  fused.opset = 23;
  fused.attributes["axis"] = match.axis;
  fused.attributes["epsilon"] = static_cast<float>(match.epsilon);
  fused.inputs = {match.x, match.scale};
  return FuseFormula(graph::Patch(graph), graph, match.nodes(), std::move(fused), context);
}

}  // namespace tandem::optimizer
