// Activations written as a product with a gate:
//
//   x * Sigmoid(alpha x)                             -> Swish(x, alpha)
//   x * HardSigmoid(x, alpha = 1/6, beta = 1/2)      -> HardSwish(x)
//
// Source: ONNX operators Swish and HardSwish. Guards: nothing else reads the gate or what it is
// computed from, but for x itself.
#include "engine/optimizer/match.h"
#include "engine/optimizer/rewrite.h"

namespace tandem::optimizer {
namespace {

using graph::kNoNode;
using graph::NodeId;
using graph::ValueId;

// The activation without its input and output, and the nodes of its gate, readers first.
struct Match {
  graph::Node fused;
  std::vector<NodeId> gate;
};

std::optional<Match> MatchSwish(const graph::Graph& graph, ValueId gate, ValueId x) {
  const NodeId sigmoid = Maker(graph, gate, "Sigmoid");
  if (sigmoid == kNoNode) return std::nullopt;
  const ValueId argument = graph.node(sigmoid).inputs[0];
  Product product;  // x itself may be a product that others read, too
  if (argument == x) {
    product.factors = {x};
  } else {
    product = ProductOf(graph, argument);
  }
  if (product.factors != std::vector<ValueId>{x}) return std::nullopt;
  Match match;
  match.fused.op_type = "Swish";
  match.fused.opset = 24;
  match.fused.attributes["alpha"] = static_cast<float>(product.scale);
  match.gate = {sigmoid};
  match.gate.insert(match.gate.end(), product.nodes.begin(), product.nodes.end());
  return match;
}

std::optional<Match> MatchHardSwish(const graph::Graph& graph, ValueId gate, ValueId x) {
  const NodeId id = Maker(graph, gate, "HardSigmoid");
  if (id == kNoNode || graph.node(id).inputs[0] != x) return std::nullopt;
  const graph::Node& node = graph.node(id);
  if (!IsAbout(FloatAttribute(node, "alpha", 0.2F), 1.0 / 6) ||
      FloatAttribute(node, "beta", 0.5F) != 0.5F) {
    return std::nullopt;
  }
  Match match;
  match.fused.op_type = "HardSwish";
  match.fused.opset = 14;
  match.gate = {id};
  return match;
}

}  // namespace

std::optional<graph::Patch> FuseSwish(const graph::Graph& graph, NodeId anchor,
                                      PassContext& context) {
  const graph::Node& mul = graph.node(anchor);
  if (!mul.domain.empty() || mul.op_type != "Mul" || !mul.epilogue.empty()) return std::nullopt;
  for (const size_t port : {0, 1}) {
    const ValueId x = mul.inputs[1 - port];
    std::optional<Match> match = MatchSwish(graph, mul.inputs[port], x);
    if (!match) match = MatchHardSwish(graph, mul.inputs[port], x);
    if (!match) continue;
    std::vector<NodeId> nodes = {anchor};
    nodes.insert(nodes.end(), match->gate.begin(), match->gate.end());
    match->fused.inputs = {x};
    std::optional<graph::Patch> patch =
        FuseFormula(graph::Patch(graph), graph, nodes, std::move(match->fused), context);
    if (patch) return patch;
  }
  return std::nullopt;
}

}  // namespace tandem::optimizer
