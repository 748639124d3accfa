// Nodes that change nothing, and pairs that undo each other:
//
//   Cast(x) to the dtype of x                        readers read x
//   Transpose(x), axes in order                      readers read x
//   Transpose(Transpose(x)), axes in order again     readers read x
//   a chain of Reshape, Flatten, Squeeze, Unsqueeze  readers read the value whose extents it
//   returns to
//
// Chains of Cast through another dtype stay: they round or wrap.
#include <algorithm>
#include <numeric>

#include "engine/ops/operator.h"
#include "engine/optimizer/rewrite.h"

namespace tandem::optimizer {
namespace {

constexpr int kLongestChain = 16;  // of views that one anchor looks back

using Permutation = std::vector<int64_t>;

// The axes of a Transpose; nothing when they cannot be known.
std::optional<Permutation> PermutationOf(const graph::Graph& graph, const graph::Node& node) {
  const auto found = node.attributes.find("perm");
  if (found != node.attributes.end()) {
    const auto* perm = found->second.get_if<std::vector<int64_t>>();
    return perm != nullptr ? std::optional(*perm) : std::nullopt;
  }
  const auto& dims = graph.value(node.inputs[0]).type.dims;
  if (!dims) return std::nullopt;
  Permutation perm(dims->size());
  std::iota(perm.rbegin(), perm.rend(), 0);
  return perm;
}

bool InOrder(const Permutation& perm) {
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

bool IsTranspose(const graph::Node& node) {
  return node.domain.empty() && node.op_type == "Transpose" && node.epilogue.empty();
}

// What the Transpose `node` gives back, or kNoValue.
graph::ValueId ThroughTransposes(const graph::Graph& graph, const graph::Node& node) {
  const std::optional<Permutation> outer = PermutationOf(graph, node);
  if (!outer) return graph::kNoValue;
  if (InOrder(*outer)) return node.inputs[0];
  const graph::NodeId def = graph.value(node.inputs[0]).def;
  if (def == graph::kNoNode || !IsTranspose(graph.node(def))) return graph::kNoValue;
  const graph::Node& before = graph.node(def);
  const std::optional<Permutation> inner = PermutationOf(graph, before);
  if (!inner || inner->size() != outer->size()) return graph::kNoValue;
  Permutation both;
  for (const int64_t axis : *outer) {
    if (axis < 0 || axis >= static_cast<int64_t>(inner->size())) return graph::kNoValue;
    both.push_back((*inner)[static_cast<size_t>(axis)]);
  }
  return InOrder(both) ? before.inputs[0] : graph::kNoValue;
}

// The first value up the chain of views that has the extents of the node's output, or kNoValue.
graph::ValueId ThroughViews(const graph::Graph& graph, const graph::Node& node) {
  const auto& dims = graph.value(node.outputs[0]).type.dims;
  if (!dims) return graph::kNoValue;
  graph::ValueId found = graph::kNoValue;
  const graph::Node* view = &node;
  for (int i = 0; i < kLongestChain; ++i) {
    const graph::Value& source = graph.value(view->inputs[0]);
    if (source.type.dims && SameDims(*source.type.dims, *dims)) found = view->inputs[0];
    if (source.def == graph::kNoNode) break;
    view = &graph.node(source.def);
    if (!ops::OpOf(*view).traits().view) break;
  }
  return found;
}

bool KeepsDType(const graph::Graph& graph, const graph::Node& node) {
  const DType from = graph.value(node.inputs[0]).type.dtype;
  return from != DType::kUndefined && from == graph.value(node.outputs[0]).type.dtype;
}

}  // namespace

std::optional<graph::Patch> DropNoop(const graph::Graph& graph, graph::NodeId anchor,
                                     PassContext& context) {
  const graph::Node& node = graph.node(anchor);
  if (node.outputs.size() != 1 || node.outputs[0] == graph::kNoValue || node.inputs.empty() ||
      node.inputs[0] == graph::kNoValue || !node.epilogue.empty()) {
    return std::nullopt;
  }
  if (!KeepsDType(graph, node)) return std::nullopt;
  graph::ValueId to = graph::kNoValue;
  if (IsTranspose(node)) {
    to = ThroughTransposes(graph, node);
  } else if (node.domain.empty() && node.op_type == "Cast") {
    to = node.inputs[0];
  } else if (ops::OpOf(node).traits().view && node.op_type != "Identity") {
    to = ThroughViews(graph, node);
  }
  if (to == graph::kNoValue) return std::nullopt;
  return Forward(graph, anchor, to, context);
}

}  // namespace tandem::optimizer
