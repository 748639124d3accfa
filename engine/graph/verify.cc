#include "engine/graph/verify.h"

#include <vector>

namespace tandem::graph {
namespace {

Status VerifyCaptures(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  int captures = 0;
  for (const Body& body : BodiesOf(node)) captures += body.graph->captures();
  if (node.captures == captures && captures <= static_cast<int>(node.inputs.size())) {
    return absl::OkStatus();
  }
  return Internal("{} hands over {} values where its bodies read {}", Describe(graph, id),
                  node.captures, captures);
}

// Which reads of node inputs and graph outputs some value lists among its uses.
class ListedUses {
 public:
  explicit ListedUses(const Graph& graph) : begin_(static_cast<size_t>(graph.node_limit()) + 1) {
    for (NodeId id = 0; id < graph.node_limit(); ++id) {
      const size_t inputs = graph.has_node(id) ? graph.node(id).inputs.size() : 0;
      begin_[static_cast<size_t>(id) + 1] = begin_[static_cast<size_t>(id)] + inputs;
    }
    listed_.resize(begin_.back() + graph.outputs().size());
  }

  std::vector<bool>::reference operator[](const Use& use) {
    const size_t node =
        use.node == kGraphOutput ? begin_.size() - 1 : static_cast<size_t>(use.node);
    return listed_[begin_[node] + static_cast<size_t>(use.port)];
  }

 private:
  std::vector<size_t> begin_;
  std::vector<bool> listed_;
};

Status VerifyNode(const Graph& graph, NodeId id, const std::vector<bool>& defined,
                  ListedUses& listed) {
  RETURN_IF_ERROR(VerifyCaptures(graph, id));
  const Node& node = graph.node(id);
  for (size_t port = 0; port < node.inputs.size(); ++port) {
    const ValueId input = node.inputs[port];
    if (input == kNoValue) continue;
    const Value& value = graph.value(input);
    if (!listed[{id, static_cast<int>(port)}]) {
      return Internal("{} reads '{}', which does not list that use", Describe(graph, id),
                      value.name);
    }
    if (!value.is_input && value.constant == nullptr && !defined[static_cast<size_t>(input)]) {
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
  for (const auto* stages : {&node.prologue, &node.epilogue}) {
    for (const EpilogueStage& stage : *stages) {
      if (stage.operand < static_cast<int>(node.inputs.size())) continue;
      return Internal("{} has {} stage {} on input {} of {}", Describe(graph, id),
                      stages == &node.prologue ? "a prologue" : "an epilogue", stage.op,
                      stage.operand, node.inputs.size());
    }
  }
  return absl::OkStatus();
}

Status VerifyUses(const Graph& graph, const Value& value, ValueId id, ListedUses& listed) {
  int outputs = 0;
  for (const Use& use : value.uses) {
    const auto port = static_cast<size_t>(use.port);
    if (use.node == kGraphOutput) {
      ++outputs;
      if (port >= graph.outputs().size() || graph.outputs()[port] != id) {
        return Internal("'{}' is listed as graph output {}, which is another value", value.name,
                        use.port);
      }
    } else if (!graph.has_node(use.node) || port >= graph.node(use.node).inputs.size() ||
               graph.node(use.node).inputs[port] != id) {
      return Internal("'{}' lists a use by input {} of node {}, which reads another value",
                      value.name, use.port, use.node);
    }
    if (listed[use]) return Internal("'{}' lists a use twice", value.name);
    listed[use] = true;
  }
  if (outputs != value.output_uses) {
    return Internal("'{}' counts {} graph outputs among its uses, which are {}", value.name,
                    value.output_uses, outputs);
  }
  return absl::OkStatus();
}

Status VerifyOutputs(const Graph& graph, const std::vector<bool>& defined, ListedUses& listed) {
  if (graph.outputs().size() != graph.output_names().size()) {
    return Internal("{} graph outputs have {} names", graph.outputs().size(),
                    graph.output_names().size());
  }
  for (size_t port = 0; port < graph.outputs().size(); ++port) {
    const ValueId id = graph.outputs()[port];
    const Value& value = graph.value(id);
    if (!value.is_input && value.constant == nullptr && !defined[static_cast<size_t>(id)]) {
      return Internal("graph output '{}' is not defined", value.name);
    }
    if (!listed[{kGraphOutput, static_cast<int>(port)}]) {
      return Internal("graph output '{}' is '{}', which does not list that use",
                      graph.output_names()[port], value.name);
    }
  }
  return absl::OkStatus();
}

}  // namespace

Status Verify(const Graph& graph) {
  ListedUses listed(graph);
  for (ValueId id = 0; id < graph.value_limit(); ++id) {
    RETURN_IF_ERROR(VerifyUses(graph, graph.value(id), id, listed));
  }
  std::vector<bool> defined(static_cast<size_t>(graph.value_limit()));
  for (const NodeId id : graph.order()) {
    RETURN_IF_ERROR(VerifyNode(graph, id, defined, listed));
    for (const ValueId output : graph.node(id).outputs) {
      if (output != kNoValue) defined[static_cast<size_t>(output)] = true;
    }
  }
  return VerifyOutputs(graph, defined, listed);
}

}  // namespace tandem::graph
