// Quantised weights: DequantizeLinear of constants becomes a view of them for readers that pack,
// which keep them in 8 bits where their kernel can.
//
//   MatMul(x, DQ(w, scale, zero))            -> MatMul(x, view of w)
//   MatMul(x, Transpose(DQ(w, scale, zero))) -> the same through the Transpose
//
// Where others read it, too, the node stays for them. Guards: the integers have 8 bits; scale and
// result are float32, not in blocks; a reader packs, or the weight is small. A late pass: until
// nothing else changes, products of integers (fuse_qdq.cc) may want the node. A model that is
// written out again keeps it.
#include <algorithm>
#include <map>

#include "engine/optimizer/constant_view.h"

namespace tandem::optimizer {
namespace {

// The readers that pack read the view; nothing where there is none.
std::optional<graph::Patch> ForThoseThatPack(const graph::Graph& graph, graph::NodeId anchor,
                                             const StridedTensor& view, PassContext& context) {
  const graph::Value& value = graph.value(graph.node(anchor).outputs[0]);
  std::map<graph::NodeId, graph::Node> readers;
  for (const graph::Use& use : value.uses) {
    if (!Packs(graph, use, view.dtype)) continue;
    readers.try_emplace(use.node, graph.node(use.node));
  }
  if (readers.empty()) {
    context.Refuse(graph, anchor, "output 0",
                   "what reads it wants floats: it stays in 8 bits and is dequantised for it");
    return std::nullopt;
  }
  if (!ChargeView(graph, anchor, view, context)) return std::nullopt;
  graph::Patch patch(graph);
  const graph::ValueId weight = patch.NewConstant(value.name, context.constants().InternView(view));
  for (const graph::Use& use : value.uses) {
    if (!Packs(graph, use, view.dtype)) continue;
    readers.at(use.node).inputs[static_cast<size_t>(use.port)] = weight;
  }
  for (auto& [id, reader] : readers) patch.AddNode(std::move(reader));
  for (const auto& [id, reader] : readers) patch.RemoveNode(id);
  return patch;
}

}  // namespace

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
        "dequantised as it is read");
    return std::nullopt;
  }
  if (IsSmall(*view) || AllReadersPack(graph, node, view->dtype)) {
    return MakeView(graph, anchor, *view, context);
  }
  return ForThoseThatPack(graph, anchor, *view, context);
}

}  // namespace tandem::optimizer
