#include "engine/graph/dump.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/graph/attribute_value.h"

namespace tandem::graph {
namespace {

struct AttributeText {
  std::string operator()(float value) const { return fmt::format("{}", value); }
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(const std::string& value) const { return fmt::format("\"{}\"", value); }
  std::string operator()(const ConstantRef& value) const {
    return fmt::format("tensor {}{}", DTypeName(value->dtype()), tandem::ToString(value->shape()));
  }
  std::string operator()(const std::shared_ptr<const Graph>& value) const {
    return fmt::format("graph '{}' ({} nodes)", value->name(), value->order().size());
  }
  std::string operator()(const ValueType& value) const { return ToString(value); }
  template <typename T>
  std::string operator()(const std::vector<T>& values) const {
    std::string text = "[";
    for (size_t i = 0; i < values.size(); ++i) text += (i > 0 ? "," : "") + (*this)(values[i]);
    return text + "]";
  }
};

std::string ValueName(const Graph& graph, ValueId id) {
  return id == kNoValue ? "-" : "'" + graph.value(id).name + "'";
}

std::string AttributesText(const Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, ToString(value));
  }
  return text.empty() ? "" : " {" + text + "}";
}

std::string StageText(const Graph& graph, const Node& node, const EpilogueStage& stage) {
  std::string text = stage.op + AttributesText(stage.attributes);
  if (stage.operand < 0) return text;
  return text + fmt::format("({}{})",
                            ValueName(graph, node.inputs[static_cast<size_t>(stage.operand)]),
                            stage.operand_is_first ? " first" : "");
}

std::string NodeLine(const Graph& graph, const Node& node) {
  std::string line;
  for (const ValueId output : node.outputs) {
    if (!line.empty()) line += ", ";
    line += ValueName(graph, output);
    if (output != kNoValue) line += ": " + ToString(graph.value(output).type);
  }
  line += fmt::format(" = {}{}{}-{}(", node.domain, node.domain.empty() ? "" : ".", node.op_type,
                      node.opset);
  for (size_t port = 0; port < node.inputs.size(); ++port) {
    line += (port > 0 ? ", " : "") + ValueName(graph, node.inputs[port]);
  }
  line += ")" + AttributesText(node.attributes);
  for (const EpilogueStage& stage : node.prologue)
    line += " " + StageText(graph, node, stage) + "+";
  for (const EpilogueStage& stage : node.epilogue) line += " +" + StageText(graph, node, stage);
  if (!node.origin.empty()) line += "  // " + node.origin;
  return line + "\n";
}

}  // namespace

std::string ToString(const Attribute& attribute) {
  return std::visit(AttributeText(), attribute.value().of);
}

std::string Dump(const Graph& graph) {
  std::string text = fmt::format("graph '{}'\n", graph.name());
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    text += fmt::format("input '{}': {}{}\n", value.name, ToString(value.type),
                        value.constant != nullptr ? " (has a default)" : "");
  }
  for (const NodeId id : graph.order()) text += NodeLine(graph, graph.node(id));
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    text += fmt::format("output '{}' <- {}\n", graph.output_names()[i],
                        ValueName(graph, graph.outputs()[i]));
  }
  return text;
}

}  // namespace tandem::graph
