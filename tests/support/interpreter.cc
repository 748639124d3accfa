#include "tests/support/interpreter.h"

#include <vector>

#include "engine/ops/evaluate.h"

namespace tandem::test {
namespace {

Status Start(const graph::Graph& graph, const NamedTensors& inputs, std::vector<Tensor>& values) {
  for (graph::ValueId id = 0; id < graph.value_limit(); ++id) {
    const graph::Value& value = graph.value(id);
    if (value.constant != nullptr) values[static_cast<size_t>(id)] = value.constant->tensor();
  }
  for (const graph::ValueId id : graph.inputs()) {
    const graph::Value& value = graph.value(id);
    const auto found = inputs.find(value.name);
    if (found != inputs.end()) values[static_cast<size_t>(id)] = found->second;
    if (!values[static_cast<size_t>(id)].valid()) {
      return InvalidArgument("input '{}' is missing", value.name);
    }
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<NamedTensors> Interpret(const graph::Graph& graph, const NamedTensors& inputs) {
  std::vector<Tensor> values(static_cast<size_t>(graph.value_limit()));
  RETURN_IF_ERROR(Start(graph, inputs, values));
  const SequentialParallel parallel;
  for (const graph::NodeId id : graph.order()) {
    const graph::Node& node = graph.node(id);
    std::vector<Tensor> arguments;
    for (const graph::ValueId input : node.inputs) {
      arguments.push_back(input == graph::kNoValue ? Tensor() : values[static_cast<size_t>(input)]);
    }
    StatusOr<std::vector<Tensor>> results = ops::Evaluate(node, arguments, DetectIsa(), parallel);
    if (!results.ok()) return Annotate(results.status(), graph::Describe(graph, id));
    for (size_t port = 0; port < node.outputs.size(); ++port) {
      if (node.outputs[port] == graph::kNoValue) continue;
      values[static_cast<size_t>(node.outputs[port])] = (*results)[port];
    }
  }
  NamedTensors outputs;
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    outputs[graph.output_names()[i]] = values[static_cast<size_t>(graph.outputs()[i])];
  }
  return outputs;
}

}  // namespace tandem::test
