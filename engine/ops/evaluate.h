// Runs one node on tensors, outside of any plan: constant folding, shape arithmetic, tests.
#pragma once

#include <vector>

#include "engine/base/cpu.h"
#include "engine/base/parallel.h"
#include "engine/ops/operator.h"

namespace tandem::ops {

// Outputs of `node` (whose operator is resolved) for `inputs`, by port; inputs with !valid() are
// omitted. Packs are made for this call alone. The outputs of omitted ports are not valid.
StatusOr<std::vector<Tensor>> Evaluate(const graph::Node& node, const std::vector<Tensor>& inputs,
                                       Isa isa, const Parallel& parallel);

// Outputs of `graph`, whose operators are resolved, node by node. `inputs` are those of the graph,
// in order; one that is not valid takes its default. Errors name the node.
StatusOr<std::vector<Tensor>> EvaluateGraph(const graph::Graph& graph, std::vector<Tensor> inputs,
                                            Isa isa, const Parallel& parallel);

}  // namespace tandem::ops
