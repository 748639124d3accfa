#include "engine/ops/operator.h"

#include "engine/base/check.h"

namespace tandem::ops {

StatusOr<std::vector<ValueFacts>> Operator::BodyInputs(const InferContext& context, int) const {
  return Internal("operator {} has no bodies", context.node().op_type);
}

StatusOr<std::unique_ptr<Step>> Operator::Bind(BindContext& context) const {
  return Internal("operator {} has no kernel of its own", context.node().op_type);
}

// One element that repeats does so under any shape.
std::optional<StridedTensor> Operator::ViewOf(std::span<const graph::ConstantRef> inputs,
                                              const Shape& shape) const {
  if (!traits().view || inputs.empty() || inputs[0] == nullptr) return std::nullopt;
  const bool one_element = inputs[0]->is_view() && inputs[0]->held().elements() == 1;
  if (!one_element) return std::nullopt;
  StridedTensor element = inputs[0]->strided();
  element.shape = {};
  element.strides.clear();
  return element.BroadcastTo(shape);
}

Decision Operator::TryFuseEpilogue(const EpilogueRequest&) const {
  return Decision();  // no kernel with an epilogue
}

Decision Operator::TryFusePrologue(const PrologueRequest&) const {
  return Decision();  // no kernel with a prologue
}

BatchAnswer Operator::Batch(const BatchQuery& query) const {
  return BatchAnswer::Decline(fmt::format("{} may mix the items of a batch", query.node.op_type));
}

BatchAnswer BatchAnswer::All(const BatchQuery& query, std::optional<int> axis) {
  return {std::nullopt, std::vector<std::optional<int>>(query.node.outputs.size(), axis),
          query.rounds};
}

const Operator& OpOf(const graph::Node& node) {
  CHECK(node.op != nullptr, "operator of node '{}' ({}) is not resolved", node.name, node.op_type);
  return static_cast<const Operator&>(*node.op);
}

}  // namespace tandem::ops
