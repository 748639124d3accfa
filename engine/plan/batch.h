// Which axis of each value carries the batch, and whether items of different requests may share a
// run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/graph/defaults.h"
#include "engine/graph/graph.h"

namespace tandem::plan {

struct BatchAnalysis {
  // Every input of items and every output has the batch as axis 0 and no operator on the way mixes
  // items.
  bool joinable = false;
  std::string reason;  // why not
  // Every input of items and every output has extent 1 on axis 0: a batch is as many runs.
  bool fixed_at_one = false;
  // By value of the graph: the batch axis, or nothing for what all items share.
  std::vector<std::optional<int>> axes;
};

// `graph` must be resolved and inferred. Inputs that have one of the `defaults` hold no items: all
// items of a request share them.
BatchAnalysis AnalyzeBatch(const graph::Graph& graph, const graph::Defaults& defaults);

}  // namespace tandem::plan
