#include "engine/graph/verify.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"

namespace tandem::graph {
namespace {

struct CaptureCount {
  int operator()(const std::shared_ptr<const Graph>& body) const { return body->captures(); }
  int operator()(const std::vector<std::shared_ptr<const Graph>>& bodies) const {
    int sum = 0;
    for (const std::shared_ptr<const Graph>& body : bodies) sum += body->captures();
    return sum;
  }
  template <typename T>
  int operator()(const T&) const {
    return 0;
  }
};

Status VerifyCaptures(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  int captures = 0;
  for (const auto& [name, value] : node.attributes) captures += std::visit(CaptureCount(), value);
  if (node.captures == captures && captures <= static_cast<int>(node.inputs.size())) {
    return absl::OkStatus();
  }
  return Internal("{} hands over {} values where its bodies read {}", Describe(graph, id),
                  node.captures, captures);
}

Status VerifyNode(const Graph& graph, NodeId id, const absl::flat_hash_set<ValueId>& defined) {
  RETURN_IF_ERROR(VerifyCaptures(graph, id));
  const Node& node = graph.node(id);
  for (size_t port = 0; port < node.inputs.size(); ++port) {
    const ValueId input = node.inputs[port];
    if (input == kNoValue) continue;
    const Value& value = graph.value(input);
    const Use use{id, static_cast<int>(port)};
    if (std::ranges::count(value.uses, use) != 1) {
      return Internal("{} reads '{}', which does not list that use once", Describe(graph, id),
                      value.name);
    }
    if (!value.is_input && value.constant == nullptr && !defined.contains(input)) {
      return Internal("{} reads '{}' before it is defined", Describe(graph, id), value.name);
    }
  }
  for (size_t port = 0; port < node.outputs.size(); ++port) {
    const ValueId output = node.outputs[port];
    if (output == kNoValue) continue;
    const Value& value = graph.value(output);
    if (value.def != id || value.def_port != static_cast<int>(port)) {
      return Internal("{} defines '{}', which names another definition", Describe(graph, id),
                      value.name);
    }
    if (value.is_input || value.constant != nullptr) {
      return Internal("{} defines '{}', which is an input or constant", Describe(graph, id),
                      value.name);
    }
  }
  for (const EpilogueStage& stage : node.epilogue) {
    if (stage.operand >= static_cast<int>(node.inputs.size())) {
      return Internal("{} has an epilogue stage {} on input {} of {}", Describe(graph, id),
                      stage.op, stage.operand, node.inputs.size());
    }
  }
  return absl::OkStatus();
}

Status VerifyUses(const Graph& graph, const Value& value, ValueId id) {
  for (const Use& use : value.uses) {
    const auto port = static_cast<size_t>(use.port);
    if (use.node == kGraphOutput) {
      if (port >= graph.outputs().size() || graph.outputs()[port] != id) {
        return Internal("'{}' is listed as graph output {}, which is another value", value.name,
                        use.port);
      }
    } else if (!graph.has_node(use.node) || port >= graph.node(use.node).inputs.size() ||
               graph.node(use.node).inputs[port] != id) {
      return Internal("'{}' lists a use by input {} of node {}, which reads another value",
                      value.name, use.port, use.node);
    }
  }
  return absl::OkStatus();
}

}  // namespace

Status Verify(const Graph& graph) {
  absl::flat_hash_set<ValueId> defined;
  for (const NodeId id : graph.order()) {
    RETURN_IF_ERROR(VerifyNode(graph, id, defined));
    for (const ValueId output : graph.node(id).outputs) {
      if (output != kNoValue) defined.insert(output);
    }
  }
  for (ValueId id = 0; id < graph.value_limit(); ++id) {
    RETURN_IF_ERROR(VerifyUses(graph, graph.value(id), id));
  }
  if (graph.outputs().size() != graph.output_names().size()) {
    return Internal("{} graph outputs have {} names", graph.outputs().size(),
                    graph.output_names().size());
  }
  for (const ValueId id : graph.outputs()) {
    const Value& value = graph.value(id);
    if (!value.is_input && value.constant == nullptr && !defined.contains(id)) {
      return Internal("graph output '{}' is not defined", value.name);
    }
  }
  return absl::OkStatus();
}

}  // namespace tandem::graph
