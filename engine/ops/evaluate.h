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

}  // namespace tandem::ops
