// Quantised weights: DequantizeLinear of constants becomes a view of them for readers that pack,
// which keep them in 8 bits where their kernel can.
//
//   MatMul(x, DQ(w, scale, zero))            -> MatMul(x, view of w)
//   MatMul(x, Transpose(DQ(w, scale, zero))) -> the same through the Transpose
//
// Guards: the integers have 8 bits; scale and result are float32, not in blocks; all readers pack,
// or the weight is small. A late pass: until nothing else changes, products of integers
// (fuse_qdq.cc) may want the node. A model that is written out again keeps it.
#include <algorithm>

#include "engine/optimizer/constant_view.h"

namespace tandem::optimizer {

std::optional<graph::Patch> ViewQuantised(const graph::Graph& graph, graph::NodeId anchor,
                                          PassContext& context) {
  const graph::Node& node = graph.node(anchor);
  if (!node.domain.empty() || node.op_type != "DequantizeLinear") return std::nullopt;
  if (context.options().written_opset) return std::nullopt;
  const bool constant = std::ranges::all_of(node.inputs, [&](graph::ValueId input) {
    return input == graph::kNoValue || graph.value(input).constant != nullptr;
  });
  if (!constant || context.inferred().size() != 1) return std::nullopt;
  const std::optional<StridedTensor> view = ConstantViewOf(graph, node, context);
  if (!view) {
    context.Refuse(
        graph, anchor, "input 0",
        "only 8 bits with float scales that are not in blocks are kept for kernels: it is "
        "dequantised in each run");
    return std::nullopt;
  }
  if (!IsSmall(*view) && !AllReadersPack(graph, node, view->dtype)) {
    context.Refuse(
        graph, anchor, "output 0",
        "not all that read it pack weights: it stays in 8 bits and is dequantised in each "
        "run");
    return std::nullopt;
  }
  return MakeView(graph, anchor, *view, context);
}

}  // namespace tandem::optimizer
