// Runs a graph node by node, outside of any plan: the oracle for whatever rewrites graphs.
#pragma once

#include <map>
#include <string>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/tensor/tensor.h"

namespace tandem::test {

using NamedTensors = std::map<std::string, Tensor>;

// Outputs of the resolved, sorted `graph` by output name. Inputs that are missing take their
// default; InvalidArgument when they have none. Errors name the node.
StatusOr<NamedTensors> Interpret(const graph::Graph& graph, const NamedTensors& inputs);

}  // namespace tandem::test
