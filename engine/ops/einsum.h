// How Einsum becomes simpler operators.
#pragma once

#include <optional>

#include "engine/graph/graph.h"
#include "engine/graph/patch.h"
#include "engine/ops/einsum_equation.h"

namespace tandem::ops {

// More than two operands: the first two are combined, then the result with the others. Two
// operands of floating types: one MatMul between transposes and reshapes, where the equation is a
// matrix product and the extents are known well enough. Nothing otherwise: the node stays.
std::optional<graph::Patch> LowerEinsum(const graph::Graph& graph, graph::NodeId id,
                                        const Subscripts& subscripts);

}  // namespace tandem::ops
