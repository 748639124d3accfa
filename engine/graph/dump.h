// A graph as text, for people and for tests that compare graphs.
#pragma once

#include <string>

#include "engine/graph/graph.h"

namespace tandem::graph {

// One line a node in order: outputs with types, operator with version, inputs, attributes,
// prologue and epilogue, and the names of the nodes it was made of.
std::string Dump(const Graph& graph);

// "3", "[1,2,3]", "\"text\"", "tensor float[2,3]", "graph 'body' (7 nodes)".
std::string ToString(const Attribute& attribute);

}  // namespace tandem::graph
