#include "engine/optimizer/match.h"

#include <algorithm>
#include <cmath>

#include "engine/optimizer/rewrite.h"

namespace tandem::optimizer {
namespace {

using graph::kNoNode;
using graph::kNoValue;
using graph::NodeId;
using graph::ValueId;

// Products of more nodes are no formula that anybody recognises.
constexpr size_t kMaxProductNodes = 8;

bool IsOp(const graph::Node& node, std::string_view op) {
  return node.domain.empty() && node.op_type == op && node.prologue.empty() &&
         node.epilogue.empty();
}

// Multiplies `product` by `id`, which has no other reader unless it is the root.
void Multiply(const graph::Graph& graph, ValueId id, Product& product) {
  const bool is_root = product.nodes.empty() && product.factors.empty();
  NodeId maker = Maker(graph, id, "Mul");
  if (maker == kNoNode) maker = Maker(graph, id, "Div");
  const bool opens = maker != kNoNode && (is_root || SoleReader(graph, id)) &&
                     product.nodes.size() < kMaxProductNodes;
  if (!opens) {
    product.factors.push_back(id);
    return;
  }
  const graph::Node& node = graph.node(maker);
  const bool divides = node.op_type == "Div";
  const std::optional<ScalarOperand> scaled = WithScalar(graph, node);
  if (divides && (!scaled || scaled->port != 1)) {
    product.factors.push_back(id);
    return;
  }
  product.nodes.push_back(maker);
  if (scaled) {
    product.scale = divides ? product.scale / scaled->scalar : product.scale * scaled->scalar;
    Multiply(graph, scaled->other, product);
    return;
  }
  for (const ValueId input : node.inputs) Multiply(graph, input, product);
}

// From the attribute, or since opset 18 from input 1; empty when they are not known.
std::vector<int64_t> ReduceAxes(const graph::Graph& graph, const graph::Node& node) {
  const auto found = node.attributes.find("axes");
  if (found != node.attributes.end()) {
    const auto* axes = found->second.get_if<std::vector<int64_t>>();
    return axes == nullptr ? std::vector<int64_t>() : *axes;
  }
  const graph::ConstantRef axes = graph.constant_input(node, 1);
  if (axes == nullptr || axes->view().dtype() != DType::kInt64) return {};
  const auto span = axes->view().span<int64_t>();
  return {span.begin(), span.end()};
}

// The first of `axes` of `rank`, counted from the end, when they are the last ones.
std::optional<int64_t> FirstOfLast(std::vector<int64_t> axes, int64_t rank) {
  for (int64_t& axis : axes) axis = axis < 0 ? axis : axis - rank;
  std::ranges::sort(axes);
  const auto count = static_cast<int64_t>(axes.size());
  for (int64_t i = 0; i < count; ++i) {
    if (axes[static_cast<size_t>(i)] != i - count) return std::nullopt;
  }
  return axes.empty() ? std::nullopt : std::optional(axes.front());
}

}  // namespace

NodeId Maker(const graph::Graph& graph, ValueId id, std::string_view op) {
  if (id == kNoValue) return kNoNode;
  const graph::Value& value = graph.value(id);
  if (value.def == kNoNode || value.def_port != 0) return kNoNode;
  return IsOp(graph.node(value.def), op) ? value.def : kNoNode;
}

std::optional<double> Scalar(const graph::Graph& graph, ValueId id, size_t max_rank) {
  if (id == kNoValue) return std::nullopt;
  const graph::Value& value = graph.value(id);
  if (value.constant == nullptr) {
    return std::nullopt;
  }
  const TensorView& view = value.constant->view();
  if (view.dtype() != DType::kFloat || view.elements() != 1 ||
      static_cast<size_t>(view.shape().rank()) > max_rank) {
    return std::nullopt;
  }
  return view.data<float>()[0];
}

std::optional<ScalarOperand> WithScalar(const graph::Graph& graph, const graph::Node& node) {
  if (node.inputs.size() != 2) return std::nullopt;
  for (const int port : {1, 0}) {
    const ValueId other = node.inputs[static_cast<size_t>(1 - port)];
    if (other == kNoValue || !graph.value(other).type.dims) continue;
    const size_t rank = graph.value(other).type.dims->size();
    const std::optional<double> scalar =
        Scalar(graph, node.inputs[static_cast<size_t>(port)], rank);
    if (scalar) return ScalarOperand{*scalar, other, port};
  }
  return std::nullopt;
}

Product ProductOf(const graph::Graph& graph, ValueId id) {
  Product product;
  Multiply(graph, id, product);
  return product;
}

std::optional<LastAxesMean> LastAxesMeanOf(const graph::Graph& graph, ValueId id) {
  const NodeId maker = Maker(graph, id, "ReduceMean");
  if (maker == kNoNode) return std::nullopt;
  const graph::Node& node = graph.node(maker);
  const auto& dims = graph.value(node.inputs[0]).type.dims;
  if (!dims || IntAttribute(node, "keepdims", 1) != 1) return std::nullopt;
  const std::optional<int64_t> axis =
      FirstOfLast(ReduceAxes(graph, node), static_cast<int64_t>(dims->size()));
  if (!axis) return std::nullopt;
  return LastAxesMean{maker, node.inputs[0], *axis};
}

std::optional<Square> SquareOf(const graph::Graph& graph, ValueId id) {
  if (const NodeId mul = Maker(graph, id, "Mul"); mul != kNoNode) {
    const graph::Node& node = graph.node(mul);
    if (node.inputs[0] != node.inputs[1]) return std::nullopt;
    return Square{mul, node.inputs[0]};
  }
  const NodeId pow = Maker(graph, id, "Pow");
  if (pow == kNoNode) return std::nullopt;
  const std::optional<ScalarOperand> operands = WithScalar(graph, graph.node(pow));
  if (!operands || operands->port != 1 || operands->scalar != 2) return std::nullopt;
  return Square{pow, operands->other};
}

bool CoversLastAxes(const graph::Graph& graph, ValueId id, ValueId x, int64_t axis) {
  const auto& dims = graph.value(id).type.dims;
  const auto& of_x = graph.value(x).type.dims;
  const auto count = static_cast<size_t>(-axis);
  return dims && of_x && dims->size() == count &&
         std::equal(dims->begin(), dims->end(), of_x->end() - static_cast<std::ptrdiff_t>(count),
                    [](const graph::Dim& a, const graph::Dim& b) { return a.SameAs(b); });
}

bool IsAbout(double value, double expected) {
  return std::abs(value - expected) <= 1e-5 * std::abs(expected);
}

bool SameExtents(const graph::Graph& graph, ValueId id, ValueId other) {
  const auto& a = graph.value(id).type.dims;
  const auto& b = graph.value(other).type.dims;
  return a && b && SameDims(*a, *b);
}

std::optional<std::string> ReadOutside(const graph::Graph& graph, const std::vector<NodeId>& nodes,
                                       NodeId root) {
  for (const NodeId id : nodes) {
    if (id == root) continue;
    for (const ValueId output : graph.node(id).outputs) {
      if (output == kNoValue) continue;
      const graph::Value& value = graph.value(output);
      if (value.output_uses > 0) return fmt::format("'{}' is a graph output", value.name);
      for (const graph::Use& use : value.uses) {
        if (std::ranges::find(nodes, use.node) != nodes.end()) continue;
        return fmt::format("{} reads '{}'", graph::Describe(graph, use.node), value.name);
      }
    }
  }
  return std::nullopt;
}

}  // namespace tandem::optimizer
