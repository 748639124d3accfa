// Inputs with a default, where requests may replace it.
#pragma once

#include <map>

#include "engine/graph/graph.h"

namespace tandem::graph {

// By graph input: what it is for a request that does not name it.
using Defaults = std::map<ValueId, ConstantRef>;

// The defaults of all inputs that have one. The inputs are plain ones from then on, so nothing can
// be computed, packed or known from them before a request.
Defaults TakeDefaults(Graph& graph);

}  // namespace tandem::graph
