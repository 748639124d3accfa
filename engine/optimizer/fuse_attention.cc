// Scaled dot-product attention as exporters write it out:
//
//   MatMul(Softmax(scale * MatMul(q, Transpose(k)) + mask), v)      -> Attention(q, k, v, mask)
//
// where the scale may be spread over the product, q and k, as multiplications and divisions by
// scalars, and mask and scale may be absent. The transpose may be part of a longer permutation.
// Source: ONNX operator Attention; Vaswani et al., Attention Is All You Need, 2017. Guards:
// float32; q, k and v have 3 or 4 axes and the same leading ones; softmax runs along the keys; the
// mask has the extent of the keys; nothing outside reads what is computed on the way. A query to
// which the mask hides every key by -infinity answers zeros here, where the written form answers
// NaN.
#include <algorithm>
#include <numeric>

#include "engine/optimizer/match.h"
#include "engine/optimizer/rewrite.h"

namespace tandem::optimizer {
namespace {

using graph::DimVector;
using graph::kNoNode;
using graph::kNoValue;
using graph::NodeId;
using graph::ValueId;

// Walks the formula from its end to q, k, v and mask and collects the nodes that compute it.
class Matcher {
 public:
  explicit Matcher(const graph::Graph& graph) : graph_(graph) {}

  bool Match(NodeId root) {
    nodes_ = {root};
    v = graph_.node(root).inputs[1];
    const NodeId softmax = Maker(graph_, graph_.node(root).inputs[0], "Softmax");
    if (softmax == kNoNode || !RunsAlongLastAxis(softmax)) return false;
    nodes_.push_back(softmax);
    const ValueId masked = graph_.node(softmax).inputs[0];
    if (MatchScores(masked)) return true;
    const NodeId add = Maker(graph_, masked, "Add");
    if (add == kNoNode) return false;
    for (const size_t port : {0, 1}) {
      nodes_ = {root, softmax, add};
      mask = graph_.node(add).inputs[1 - port];
      if (MatchScores(graph_.node(add).inputs[port])) return true;
    }
    return false;
  }

  ValueId q = kNoValue;
  ValueId k = kNoValue;  // still to be transposed by `order`
  ValueId v = kNoValue;
  ValueId mask = kNoValue;
  double scale = 1;
  std::vector<int64_t> order;

  const std::vector<NodeId>& nodes() const { return nodes_; }

 private:
  bool RunsAlongLastAxis(NodeId softmax) const {
    const graph::Node& node = graph_.node(softmax);
    const auto& dims = graph_.value(node.inputs[0]).type.dims;
    if (!dims) return false;
    const auto rank = static_cast<int64_t>(dims->size());
    const int64_t axis = IntAttribute(node, "axis", node.opset >= 13 ? -1 : 1);
    return axis == -1 || axis == rank - 1;
  }

  // scale * MatMul(scale * q, scale * Transpose(scale * k))
  bool MatchScores(ValueId id) {
    scale = 1;
    const NodeId product = Maker(graph_, Unscaled(id), "MatMul");
    if (product == kNoNode) return false;
    nodes_.push_back(product);
    q = Unscaled(graph_.node(product).inputs[0]);
    const NodeId transpose = Maker(graph_, Unscaled(graph_.node(product).inputs[1]), "Transpose");
    if (transpose == kNoNode) return false;
    const auto perm = graph_.node(transpose).attributes.find("perm");
    if (perm == graph_.node(transpose).attributes.end()) return false;
    const auto* axes = perm->second.get_if<std::vector<int64_t>>();
    if (axes == nullptr || axes->size() < 3) return false;
    order = *axes;
    std::swap(order[order.size() - 2], order[order.size() - 1]);
    nodes_.push_back(transpose);
    k = Unscaled(graph_.node(transpose).inputs[0]);
    return true;
  }

  // What `id` is a multiple of; the factors go to scale. A multiple that others read stays.
  ValueId Unscaled(ValueId id) {
    while (true) {
      NodeId maker = Maker(graph_, id, "Mul");
      if (maker == kNoNode) maker = Maker(graph_, id, "Div");
      if (maker == kNoNode || !SoleReader(graph_, id)) return id;
      const graph::Node& node = graph_.node(maker);
      const std::optional<ScalarOperand> operands = WithScalar(graph_, node);
      if (!operands) return id;
      if (node.op_type == "Mul") {
        scale *= operands->scalar;
      } else if (operands->port == 1) {
        scale /= operands->scalar;
      } else {
        return id;
      }
      nodes_.push_back(maker);
      id = operands->other;
    }
  }

  const graph::Graph& graph_;
  std::vector<NodeId> nodes_;
};

bool IsFloat(const graph::Graph& graph, ValueId id) {
  return graph.value(id).type.dtype == DType::kFloat && graph.value(id).type.dims.has_value();
}

// The reason why q, k and v are none of the operator, or nothing.
std::optional<std::string> Unfit(const graph::Graph& graph, const Matcher& match) {
  if (!IsFloat(graph, match.q) || !IsFloat(graph, match.k) || !IsFloat(graph, match.v)) {
    return "an operand is no float tensor of known rank";
  }
  const DimVector& q = *graph.value(match.q).type.dims;
  const DimVector& k = *graph.value(match.k).type.dims;
  const DimVector& v = *graph.value(match.v).type.dims;
  const size_t rank = q.size();
  if ((rank != 3 && rank != 4) || match.order.size() != rank || k.size() != rank ||
      v.size() != rank) {
    return "the operands do not have 3 axes each, or 4 each";
  }
  for (size_t axis = 0; axis + 2 < rank; ++axis) {
    const graph::Dim& of_k = k[static_cast<size_t>(match.order[axis])];
    if (!q[axis].SameAs(of_k) || !q[axis].SameAs(v[axis]))
      return "the leading axes are not the same";
  }
  return std::nullopt;
}

// The reason why the mask cannot stay what it is, or nothing.
std::optional<std::string> UnfitMask(const graph::Graph& graph, const Matcher& match,
                                     const DimVector& scores) {
  if (match.mask == kNoValue) return std::nullopt;
  if (!IsFloat(graph, match.mask)) return "the mask is no float tensor of known rank";
  const DimVector& mask = *graph.value(match.mask).type.dims;
  if (mask.size() < 2 || mask.size() > scores.size()) return "the mask has another rank";
  for (size_t i = 1; i <= mask.size(); ++i) {
    const graph::Dim& own = mask[mask.size() - i];
    const bool same = own.SameAs(scores[scores.size() - i]);
    if (!same && (i == 1 || !own.SameAs(1))) return "the mask has not the extents of the scores";
    // Behind 3 axes the operator puts heads, of which there is one.
    if (scores.size() == 3 && i == 3 && !own.SameAs(1)) return "the mask differs between items";
  }
  return std::nullopt;
}

}  // namespace

std::optional<graph::Patch> FuseAttention(const graph::Graph& graph, NodeId anchor,
                                          PassContext& context) {
  const graph::Node& root = graph.node(anchor);
  if (root.outputs[0] == kNoValue || Maker(graph, root.outputs[0], "MatMul") != anchor) {
    return std::nullopt;
  }
  Matcher match(graph);
  if (!match.Match(anchor)) return std::nullopt;
  std::optional<std::string> reason = Unfit(graph, match);
  if (!reason) {
    const graph::Node& softmax = graph.node(match.nodes()[1]);
    reason = UnfitMask(graph, match, *graph.value(softmax.outputs[0]).type.dims);
  }
  if (reason) {
    context.Refuse(graph, anchor, "fuse into Attention", *reason);
    return std::nullopt;
  }
  graph::Patch patch(graph);
  ValueId k = match.k;
  std::vector<int64_t> in_order(match.order.size());
  std::iota(in_order.begin(), in_order.end(), 0);
  if (match.order != in_order) {
    graph::Node transpose;
    transpose.op_type = "Transpose";
    transpose.opset = 13;
    transpose.attributes["perm"] = match.order;
    transpose.inputs = {match.k};
    graph::ValueType type = graph.value(match.k).type;
    for (size_t i = 0; i < match.order.size(); ++i) {
      (*type.dims)[i] = (*graph.value(match.k).type.dims)[static_cast<size_t>(match.order[i])];
    }
    k = patch.NewValue(graph.value(match.k).name + "_by_heads", std::move(type));
    transpose.outputs = {k};
    transpose.origin = OriginOf(graph, anchor);
    patch.AddNode(std::move(transpose));
  }
  graph::Node fused;
  fused.op_type = "Attention";
  fused.opset = 23;
  fused.attributes["scale"] = static_cast<float>(match.scale);
  if (match.order.size() == 3) {
    fused.attributes["q_num_heads"] = int64_t{1};
    fused.attributes["kv_num_heads"] = int64_t{1};
  }
  fused.inputs = {match.q, k, match.v};
  if (match.mask != kNoValue) fused.inputs.push_back(match.mask);
  return FuseFormula(std::move(patch), graph, match.nodes(), std::move(fused), context);
}

}  // namespace tandem::optimizer
