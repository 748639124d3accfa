#include "tests/engine/optimizer/rewrite_testing.h"

#include <gtest/gtest.h>

#include "engine/graph/dump.h"
#include "tests/support/interpreter.h"
#include "tests/support/random_tensor.h"

namespace tandem::optimizer::test {

PassOutcome RunRewrite(const Rewrite& rewrite, tandem::test::GraphBuilder& builder,
                       tandem::test::Tolerance tolerance) {
  PassOutcome outcome{builder.Build(), {}, false};
  const std::string dump = graph::Dump(outcome.graph);
  tandem::test::NamedTensors inputs;
  for (const graph::ValueId id : outcome.graph.inputs()) {
    const graph::Value& value = outcome.graph.value(id);
    inputs[value.name] =
        tandem::test::RandomFloats(*graph::ToShape(*value.type.dims), 9, -3.0F, 3.0F);
  }
  const auto before = tandem::test::Interpret(outcome.graph, inputs);
  const auto report = rewrite(outcome.graph, builder.constants());
  EXPECT_TRUE(report.ok()) << Message(report.status());
  const auto after = tandem::test::Interpret(outcome.graph, inputs);
  EXPECT_TRUE(before.ok()) << before.status();
  EXPECT_TRUE(after.ok()) << after.status();
  if (!before.ok() || !after.ok() || !report.ok()) return outcome;
  EXPECT_EQ(before->size(), after->size());
  for (const auto& [name, tensor] : *before) {
    if (!after->contains(name)) {
      ADD_FAILURE() << "output '" << name << "' is missing";
      continue;
    }
    EXPECT_TRUE(tandem::test::Close(after->at(name), tensor, tolerance))
        << "output '" << name << "'";
  }
  outcome.report = *report;
  outcome.unchanged = graph::Dump(outcome.graph) == dump;
  return outcome;
}

}  // namespace tandem::optimizer::test
