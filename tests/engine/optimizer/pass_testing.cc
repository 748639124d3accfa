#include "tests/engine/optimizer/pass_testing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/dump.h"
#include "tests/support/interpreter.h"
#include "tests/support/random_tensor.h"

namespace tandem::optimizer::test {

PassOutcome RunPass(std::string_view pass, tandem::test::GraphBuilder& builder,
                    tandem::test::Tolerance tolerance, OptimizeOptions options) {
  PassOutcome outcome{builder.Build(), {}, false};
  for (const std::string& name : PassNames()) {
    if (name != pass) options.disabled_passes.insert(name);
  }
  const std::string dump = graph::Dump(outcome.graph);
  tandem::test::NamedTensors inputs;
  for (const graph::ValueId id : outcome.graph.inputs()) {
    const graph::Value& value = outcome.graph.value(id);
    inputs[value.name] =
        tandem::test::RandomFloats(*graph::ToShape(*value.type.dims), 9, -3.0F, 3.0F);
  }
  const auto before = tandem::test::Interpret(outcome.graph, inputs);
  const auto report = Optimize(outcome.graph, builder.constants(), options);
  EXPECT_TRUE(report.ok()) << Message(report.status());
  const auto after = tandem::test::Interpret(outcome.graph, inputs);
  EXPECT_TRUE(before.ok()) << before.status();
  EXPECT_TRUE(after.ok()) << after.status();
  if (!before.ok() || !after.ok() || !report.ok()) return outcome;
  EXPECT_EQ(before->size(), after->size());
  for (const auto& [name, tensor] : *before) {
    EXPECT_TRUE(after->contains(name) && tandem::test::Close(after->at(name), tensor, tolerance))
        << name;
  }
  outcome.report = *report;
  outcome.unchanged = graph::Dump(outcome.graph) == dump;
  return outcome;
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
    ExpectDeclined(fuse(value), "another reader");
  }
}

}  // namespace tandem::optimizer::test
