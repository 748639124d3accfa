// One change of a graph, by a pass of the pipeline or by anything else, with the graph's answers
// before and after.
#pragma once

#include <functional>

#include "tests/engine/optimizer/pass_testing.h"

namespace tandem::optimizer::test {

// What changes a graph whose constants are in the store.
using Rewrite = std::function<StatusOr<OptimizeReport>(graph::Graph&, graph::ConstantStore&)>;

// Rewrites the graph and expects of the outputs what RunPass does.
PassOutcome RunRewrite(const Rewrite& rewrite, tandem::test::GraphBuilder& builder,
                       tandem::test::Tolerance tolerance);

}  // namespace tandem::optimizer::test
