// How each value holds the items of a batch, and whether items of different requests may share a
// run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/graph/defaults.h"
#include "engine/graph/graph.h"

namespace tandem::plan {

// How a value holds the items of a batch.
enum class BatchRole : uint8_t {
  kShared,  // not at all: it is the same for all of them, or follows from shapes
  kRows,    // each as rows of its own of the first axis, in their order
  kInside,  // each as its own part of another axis, or in several pieces of the first
  kMixed,   // what is computed from an item depends on others
};

struct BatchAnalysis {
  // Every input of items and every output has the batch as axis 0 and no operator on the way mixes
  // items.
  bool joinable = false;
  std::string reason;  // why not
  // Every input of items and every output has extent 1 on axis 0: a batch is as many runs.
  bool fixed_at_one = false;
  std::vector<BatchRole> roles;  // by value of the graph
};

// `graph` must be resolved and inferred. Inputs that have one of the `defaults` hold no items: all
// items of a request share them.
BatchAnalysis AnalyzeBatch(const graph::Graph& graph, const graph::Defaults& defaults);

}  // namespace tandem::plan
