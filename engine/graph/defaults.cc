#include "engine/graph/defaults.h"

#include <utility>

namespace tandem::graph {

Defaults TakeDefaults(Graph& graph) {
  Defaults defaults;
  for (const ValueId id : graph.inputs()) {
    if (graph.value(id).constant == nullptr) continue;
    defaults[id] = std::exchange(graph.mutable_value(id).constant, nullptr);
  }
  return defaults;
}

}  // namespace tandem::graph
