// Operators that are made of simpler ones are replaced by these; each operator says how.
#include "engine/ops/operator.h"
#include "engine/optimizer/pass.h"

namespace tandem::optimizer {

std::optional<graph::Patch> Lower(const graph::Graph& graph, graph::NodeId anchor, PassContext&) {
  return ops::OpOf(graph.node(anchor)).Lower(graph, anchor);
}

}  // namespace tandem::optimizer
