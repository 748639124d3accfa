#include "engine/optimizer/constant_view.h"

#include <algorithm>
#include <limits>

#include "engine/optimizer/rewrite.h"

namespace tandem::optimizer {
namespace {

using graph::kNoValue;

std::vector<graph::ConstantRef> ConstantsOf(const graph::Graph& graph, const graph::Node& node) {
  std::vector<graph::ConstantRef> constants;
  for (const graph::ValueId id : node.inputs) {
    constants.push_back(id == kNoValue ? nullptr : graph.value(id).constant);
  }
  return constants;
}

bool AllReadersPack(const graph::Graph& graph, const graph::Value& value, DType dtype, int views);

// Looks through as many views.
bool Packs(const graph::Graph& graph, const graph::Use& use, DType dtype, int views) {
  if (use.node == graph::kGraphOutput) return false;
  const graph::Node& reader = graph.node(use.node);
  switch (ops::OpOf(reader).UseOfConstant(use.port, dtype)) {
    case ops::ConstantUse::kPacked:
      return true;
    case ops::ConstantUse::kViewed: {
      const graph::Value& view = graph.value(reader.outputs[0]);
      return views > 0 && AllReadersPack(graph, view, view.type.dtype, views - 1);
    }
    default:
      return false;
  }
}

bool AllReadersPack(const graph::Graph& graph, const graph::Value& value, DType dtype, int views) {
  return std::ranges::all_of(
      value.uses, [&](const graph::Use& use) { return Packs(graph, use, dtype, views); });
}

constexpr int kViewsOfViews = 3;

}  // namespace

bool IsSmall(const StridedTensor& view) {
  constexpr size_t kSmall = 4096;  // bytes
  return view.shape.elements() <= static_cast<int64_t>(kSmall / DTypeBytes(view.dtype, 1));
}

bool Packs(const graph::Graph& graph, const graph::Use& use, DType dtype) {
  return Packs(graph, use, dtype, kViewsOfViews);
}

bool AllReadersPack(const graph::Graph& graph, const graph::Node& node, DType dtype) {
  return AllReadersPack(graph, graph.value(node.outputs[0]), dtype, kViewsOfViews);
}

std::optional<StridedTensor> ConstantViewOf(const graph::Graph& graph, const graph::Node& node,
                                            const PassContext& context) {
  const std::optional<Shape> shape = context.inferred()[0].shape();
  if (!shape) return std::nullopt;
  const std::optional<int64_t> elements = CheckedElements(shape->dims());
  if (!elements) return std::nullopt;
  std::optional<StridedTensor> view = ops::OpOf(node).ViewOf(ConstantsOf(graph, node), *shape);
  if (!view || DTypeBits(view->dtype) % 8 != 0 || view->dtype == DType::kString) {
    return std::nullopt;
  }
  return view;
}

bool ChargeView(const graph::Graph& graph, graph::NodeId anchor, const StridedTensor& view,
                PassContext& context) {
  FoldCost cost{.nodes = {OriginOf(graph, anchor)}};
  if (view.repeats()) {
    const auto bytes =
        CheckedMul(view.shape.elements(), static_cast<int64_t>(DTypeBytes(view.dtype, 1)));
    cost.view_bytes = bytes ? static_cast<size_t>(*bytes) : std::numeric_limits<size_t>::max() / 2;
  }
  const ops::Decision decision = context.ledger().Check(cost);
  if (!decision.accepted) {
    context.Refuse(graph, anchor, "outputs", decision.rule, decision.numbers);
    return false;
  }
  context.Charge(cost);
  return true;
}

std::optional<graph::Patch> MakeView(const graph::Graph& graph, graph::NodeId anchor,
                                     StridedTensor view, PassContext& context) {
  if (!ChargeView(graph, anchor, view, context)) return std::nullopt;
  graph::Patch patch(graph);
  patch.SetConstant(graph.node(anchor).outputs[0], context.constants().InternView(std::move(view)));
  patch.RemoveNode(anchor);
  return patch;
}

}  // namespace tandem::optimizer
