// Nodes that give back their input:
//
//   y = Identity(x)            readers of y read x
//   y = Dropout(x)             likewise, in inference: no training_mode, mask unread
#include "engine/optimizer/rewrite.h"

namespace tandem::optimizer {
namespace {

// Opset 12 made training a (constant) input; opset 7 dropped is_test, which was 0 by default.
bool TrainingIsOff(const graph::Graph& graph, graph::NodeId anchor) {
  const graph::Node& node = graph.node(anchor);
  if (node.opset < 7) return IntAttribute(node, "is_test", 0) == 1;
  if (node.inputs.size() < 3 || node.inputs[2] == graph::kNoValue) return true;
  const graph::ConstantRef mode = graph.constant_input(node, 2);
  if (mode == nullptr || mode->view().dtype() != DType::kBool || mode->view().elements() != 1) {
    return false;
  }
  return !mode->view().span<bool>()[0];
}

}  // namespace

std::optional<graph::Patch> DropIdentity(const graph::Graph& graph, graph::NodeId anchor,
                                         PassContext& context) {
  const graph::Node& node = graph.node(anchor);
  if (!node.domain.empty() || !node.epilogue.empty()) return std::nullopt;
  if (node.op_type != "Identity" && node.op_type != "Dropout") return std::nullopt;
  if (node.outputs.empty() || node.outputs[0] == graph::kNoValue) return std::nullopt;
  if (node.op_type == "Dropout") {
    if (node.outputs.size() > 1 && node.outputs[1] != graph::kNoValue &&
        !graph.value(node.outputs[1]).uses.empty()) {
      context.Refuse(graph, anchor, "output 1 (mask)", "the mask is read");
      return std::nullopt;
    }
    if (!TrainingIsOff(graph, anchor)) {
      context.Refuse(graph, anchor, "input 2 (training_mode)",
                     "it is not known to be off in every run");
      return std::nullopt;
    }
  }
  return Forward(graph, anchor, node.inputs[0], context);
}

}  // namespace tandem::optimizer
