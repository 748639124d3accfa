// Gelu as exporters write it out, factors and scalars in any order:
//
//   0.5 x (1 + Erf(x / sqrt(2)))                            -> Gelu(x)
//   0.5 x (1 + Tanh(sqrt(2 / pi) (x + 0.044715 x^3)))       -> Gelu(x, approximate = "tanh")
//
// where x^3 is Pow(x, 3) or a product, and x + c x^3 may be x (1 + c x^2). Sources: ONNX operator
// Gelu; Hendrycks and Gimpel, Gaussian Error Linear Units, 2016. Guards: nothing outside reads what
// is computed on the way; the result has the extents of x; all scalars agree to five digits.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/optimizer/match.h"
#include "engine/optimizer/rewrite.h"

namespace tandem::optimizer {
namespace {

using graph::kNoNode;
using graph::kNoValue;
using graph::NodeId;
using graph::ValueId;

constexpr double kCubic = 0.044715;

// Follows the formula below one x and collects the nodes that compute it.
class Matcher {
 public:
  Matcher(const graph::Graph& graph, ValueId x) : graph_(graph), x_(x) {}

  // scalar + rest; the rest, or kNoValue.
  ValueId SumWith(ValueId id, double scalar) {
    const NodeId sum = Maker(graph_, id, "Add");
    if (sum == kNoNode) return kNoValue;
    const std::optional<ScalarOperand> operands = WithScalar(graph_, graph_.node(sum));
    if (!operands || !IsAbout(operands->scalar, scalar)) return kNoValue;
    nodes_.push_back(sum);
    return operands->other;
  }

  // The input of the node of type `op` that makes `id`, or kNoValue.
  ValueId Argument(ValueId id, std::string_view op) {
    const NodeId maker = Maker(graph_, id, op);
    if (maker == kNoNode) return kNoValue;
    nodes_.push_back(maker);
    return graph_.node(maker).inputs[0];
  }

  // scale * x^power.
  bool IsPower(ValueId id, double scale, int power) { return IsPower(Expand(id), scale, power); }

  // sqrt(2 / pi) (x + c x^3), or sqrt(2 / pi) x (1 + c x^2).
  bool IsTanhArgument(ValueId id) {
    Product product = Expand(id);
    if (!IsAbout(product.scale, std::sqrt(2 / std::numbers::pi))) return false;
    if (product.factors.size() == 1) return IsCubicSum(product.factors[0]);
    if (product.factors.size() != 2) return false;
    if (product.factors[0] != x_) std::swap(product.factors[0], product.factors[1]);
    if (product.factors[0] != x_) return false;
    const ValueId square = SumWith(product.factors[1], 1);
    return square != kNoValue && IsPower(square, kCubic, 2);
  }

  const std::vector<NodeId>& nodes() const { return nodes_; }

 private:
  Product Expand(ValueId id) {
    Product product = ProductOf(graph_, id);
    nodes_.insert(nodes_.end(), product.nodes.begin(), product.nodes.end());
    return product;
  }

  bool IsPower(const Product& product, double scale, int power) {
    if (!IsAbout(product.scale, scale)) return false;
    int found = 0;
    for (const ValueId factor : product.factors) {
      if (factor == x_) {
        ++found;
        continue;
      }
      const NodeId pow = Maker(graph_, factor, "Pow");
      if (pow == kNoNode || graph_.node(pow).inputs[0] != x_) return false;
      const std::optional<ScalarOperand> operands = WithScalar(graph_, graph_.node(pow));
      if (!operands || operands->port != 1) return false;
      if (operands->scalar != 2 && operands->scalar != 3) return false;
      found += static_cast<int>(operands->scalar);
      nodes_.push_back(pow);
    }
    return found == power;
  }

  // x + c x^3.
  bool IsCubicSum(ValueId id) {
    const NodeId sum = Maker(graph_, id, "Add");
    if (sum == kNoNode) return false;
    nodes_.push_back(sum);
    const graph::Node& node = graph_.node(sum);
    for (const size_t port : {0, 1}) {
      if (node.inputs[port] == x_) return IsPower(node.inputs[1 - port], kCubic, 3);
    }
    return false;
  }

  const graph::Graph& graph_;
  const ValueId x_;
  std::vector<NodeId> nodes_;
};

// "none" or "tanh" when `gate` is 1 + Erf(...) or 1 + Tanh(...) of the matcher's x.
std::optional<std::string> GateOf(Matcher& matcher, ValueId gate) {
  const ValueId bent = matcher.SumWith(gate, 1);
  if (bent == kNoValue) return std::nullopt;
  if (const ValueId argument = matcher.Argument(bent, "Erf"); argument != kNoValue) {
    if (matcher.IsPower(argument, std::numbers::sqrt2 / 2, 1)) return "none";
    return std::nullopt;
  }
  const ValueId argument = matcher.Argument(bent, "Tanh");
  if (argument != kNoValue && matcher.IsTanhArgument(argument)) return "tanh";
  return std::nullopt;
}

}  // namespace

std::optional<graph::Patch> FuseGelu(const graph::Graph& graph, NodeId anchor,
                                     PassContext& context) {
  const graph::Node& root = graph.node(anchor);
  const ValueId y = root.outputs.empty() ? kNoValue : root.outputs[0];
  if (Maker(graph, y, "Mul") == kNoNode && Maker(graph, y, "Div") == kNoNode) return std::nullopt;
  const Product product = ProductOf(graph, y);
  if (product.factors.size() != 2 || !IsAbout(product.scale, 0.5)) return std::nullopt;
  for (const size_t i : {0, 1}) {
    const ValueId x = product.factors[i];
    Matcher matcher(graph, x);
    const std::optional<std::string> form = GateOf(matcher, product.factors[1 - i]);
    if (!form) continue;
    std::vector<NodeId> nodes = product.nodes;
    nodes.insert(nodes.end(), matcher.nodes().begin(), matcher.nodes().end());
    if (!SameExtents(graph, x, y)) {
      context.Refuse(graph, anchor, "fuse into Gelu", "the result has other extents than x");
      continue;
    }
    graph::Node fused;
    fused.op_type = "Gelu";
    fused.opset = 20;
    fused.attributes["approximate"] = *form;
    fused.inputs = {x};
    std::optional<graph::Patch> patch =
        FuseFormula(graph::Patch(graph), graph, nodes, std::move(fused), context);
    if (patch) return patch;
  }
  return std::nullopt;
}

}  // namespace tandem::optimizer
