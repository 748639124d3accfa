// The layout of every value of a graph: channels-last where an operator asks for it, native
// everywhere else.
#pragma once

#include <vector>

#include "engine/graph/graph.h"

namespace tandem::plan {

struct Layouts {
  // By value of the graph: the layout in which its definition writes it.
  std::vector<Layout> values;
  // By node, then input port: the layout in which the node reads it.
  std::vector<std::vector<Layout>> reads;
};

// Graph inputs and constants are native.
Layouts AssignLayouts(const graph::Graph& graph);

}  // namespace tandem::plan
