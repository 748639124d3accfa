#include "engine/ops/operator.h"

#include "engine/base/check.h"

namespace tandem::ops {

StatusOr<std::unique_ptr<Step>> Operator::Bind(BindContext& context) const {
  return Internal("operator {} has no kernel of its own", context.node().op_type);
}

Decision Operator::TryFuseEpilogue(const EpilogueRequest&) const {
  return Decision();  // no kernel with an epilogue
}

BatchAnswer Operator::Batch(const BatchQuery& query) const {
  return BatchAnswer::Decline(fmt::format("{} may mix the items of a batch", query.node.op_type));
}

BatchAnswer BatchAnswer::All(const BatchQuery& query, std::optional<int> axis) {
  return {std::nullopt, std::vector<std::optional<int>>(query.node.outputs.size(), axis)};
}

const Operator& OpOf(const graph::Node& node) {
  CHECK(node.op != nullptr, "operator of node '{}' ({}) is not resolved", node.name, node.op_type);
  return static_cast<const Operator&>(*node.op);
}

}  // namespace tandem::ops
