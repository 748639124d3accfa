#include "tests/support/interpreter.h"

#include <vector>

#include "engine/ops/evaluate.h"

namespace tandem::test {

StatusOr<NamedTensors> Interpret(const graph::Graph& graph, const NamedTensors& inputs) {
  std::vector<Tensor> given;
  for (const graph::ValueId id : graph.inputs()) {
    const auto found = inputs.find(graph.value(id).name);
    given.push_back(found == inputs.end() ? Tensor() : found->second);
  }
  ASSIGN_OR_RETURN(const std::vector<Tensor> results,
                   ops::EvaluateGraph(graph, std::move(given), DetectIsa(), SequentialParallel()));
  NamedTensors outputs;
  for (size_t i = 0; i < results.size(); ++i) outputs[graph.output_names()[i]] = results[i];
  return outputs;
}

}  // namespace tandem::test
