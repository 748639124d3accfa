#include "tests/engine/optimizer/pass_testing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/optimizer/rewrite_testing.h"

namespace tandem::optimizer::test {

PassOutcome RunPass(std::string_view pass, tandem::test::GraphBuilder& builder,
                    tandem::test::Tolerance tolerance, OptimizeOptions options) {
  for (const std::string& name : PassNames()) {
    if (name != pass) options.disabled_passes.insert(name);
  }
  return RunRewrite(
      [&options](graph::Graph& graph, graph::ConstantStore& constants) {
        return Optimize(graph, constants, options);
      },
      builder, tolerance);
}

void ExpectDeclined(const PassOutcome& outcome, const std::string& rule) {
  EXPECT_TRUE(outcome.unchanged);
  ASSERT_EQ(outcome.report.declines.size(), 1u);
  EXPECT_THAT(outcome.report.declines[0].rule, testing::HasSubstr(rule));
}

void ExpectOutputsOnTheWayStopIt(const std::vector<std::string>& values,
                                 const std::function<PassOutcome(const std::string&)>& fuse) {
  for (const std::string& value : values) {
    SCOPED_TRACE(value);
    const PassOutcome outcome = fuse(value);
    ASSERT_NO_FATAL_FAILURE(ExpectDeclined(outcome, "another reader"));
    EXPECT_EQ(outcome.report.declines[0].numbers, "'" + value + "' is a graph output");
  }
}

}  // namespace tandem::optimizer::test
