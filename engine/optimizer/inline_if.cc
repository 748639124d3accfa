// An If whose condition is known is the branch it takes:
//
//   y = If(constant) {then: g(x), else: h(x)}   -> y = Identity(g(x))
//
// The nodes of the branch come into the graph; the other branch and what only it reads go. Guard:
// the condition is a constant that no request may override.
#include "engine/optimizer/rewrite.h"

namespace tandem::optimizer {
namespace {

using graph::kNoValue;

// Values of a body as values of the graph that a patch puts it into.
class Inliner {
 public:
  Inliner(const graph::Graph& body, graph::Patch& patch)
      : body_(body), patch_(patch), values_(static_cast<size_t>(body.value_limit()), kNoValue) {}

  void BindInput(size_t input, graph::ValueId outer) {
    values_[static_cast<size_t>(body_.inputs()[input])] = outer;
  }

  void AddNodes() {
    for (const graph::NodeId id : body_.order()) {
      graph::Node node = body_.node(id);
      for (graph::ValueId& input : node.inputs) input = Outer(input);
      for (graph::ValueId& output : node.outputs) output = Outer(output);
      patch_.AddNode(std::move(node));
    }
  }

  // The value outside that stands for value `id` of the body.
  graph::ValueId Outer(graph::ValueId id) {
    if (id == kNoValue) return kNoValue;
    graph::ValueId& outer = values_[static_cast<size_t>(id)];
    if (outer == kNoValue) {
      const graph::Value& value = body_.value(id);
      outer = value.constant != nullptr ? patch_.NewConstant(value.name, value.constant)
                                        : patch_.NewValue(value.name, value.type);
    }
    return outer;
  }

 private:
  const graph::Graph& body_;
  graph::Patch& patch_;
  std::vector<graph::ValueId> values_;  // by value of the body
};

}  // namespace

std::optional<graph::Patch> InlineIf(const graph::Graph& graph, graph::NodeId anchor,
                                     PassContext&) {
  const graph::Node& node = graph.node(anchor);
  if (!node.domain.empty() || node.op_type != "If") return std::nullopt;
  const graph::ConstantRef condition = graph.constant_input(node, 0);
  if (condition == nullptr || condition->view().elements() != 1) return std::nullopt;
  const std::string taken = *condition->view().data<bool>() ? "then_branch" : "else_branch";
  graph::Patch patch(graph);
  size_t capture = node.inputs.size() - static_cast<size_t>(node.captures);
  for (const graph::Body& body : graph::BodiesOf(node)) {
    const auto captures = static_cast<size_t>(body.graph->captures());
    if (body.attribute == taken) {
      Inliner inliner(*body.graph, patch);
      for (size_t i = 0; i < captures; ++i) inliner.BindInput(i, node.inputs[capture + i]);
      inliner.AddNodes();
      for (size_t port = 0; port < node.outputs.size(); ++port) {
        if (node.outputs[port] == kNoValue) continue;
        graph::Node result;
        result.op_type = "Identity";
        result.opset = node.opset;
        result.inputs = {inliner.Outer(body.graph->outputs()[port])};
        result.outputs = {node.outputs[port]};
        result.origin = OriginOf(graph, anchor);
        patch.AddNode(std::move(result));
      }
    }
    capture += captures;
  }
  patch.RemoveNode(anchor);
  return patch;
}

}  // namespace tandem::optimizer
