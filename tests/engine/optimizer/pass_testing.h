// One pass alone on a graph, with the graph's answers before and after.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/optimizer/optimizer.h"
#include "tests/support/compare.h"
#include "tests/support/op_runner.h"

namespace tandem::optimizer::test {

struct PassOutcome {
  graph::Graph graph;
  OptimizeReport report;
  bool unchanged = false;
};

// Runs the pass of this name alone and expects the outputs to keep their names and, within
// `tolerance`, their values for random floats in [-3, 3) at every input, whose extents are numbers.
PassOutcome RunPass(std::string_view pass, tandem::test::GraphBuilder& builder,
                    tandem::test::Tolerance tolerance, OptimizeOptions options = {});

// The pass changed nothing and gave one reason, which contains `rule`.
void ExpectDeclined(const PassOutcome& outcome, const std::string& rule);

// `fuse` builds the formula with a value on its way that is an output, too, and runs the pass: none
// of `values` lets it fire.
void ExpectOutputsOnTheWayStopIt(const std::vector<std::string>& values,
                                 const std::function<PassOutcome(const std::string&)>& fuse);

}  // namespace tandem::optimizer::test
