// The invariants of a graph, checked before and after every pass.
#pragma once

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace tandem::graph {

// Internal names the first broken invariant: uses and definitions agree in both directions, every
// value that is read has a definition, is an input or a constant, the order is topological, graph
// outputs exist and keep their number and names.
Status Verify(const Graph& graph);

}  // namespace tandem::graph
