#include "engine/optimizer/rewrite.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "engine/ops/registry.h"
#include "engine/optimizer/match.h"

namespace tandem::optimizer {

std::optional<graph::Patch> Forward(const graph::Graph& graph, graph::NodeId anchor,
                                    graph::ValueId to, PassContext& context) {
  const graph::Node& node = graph.node(anchor);
  const graph::ValueId from = node.outputs[0];
  const graph::Value& target = graph.value(to);
  if (graph.is_output(from)) {
    std::string_view what;
    if (target.is_input) what = "a graph input";
    if (target.constant != nullptr) what = "a constant";
    if (target.output_uses > 0) what = "another graph output";
    if (!what.empty()) {
      context.Refuse(graph, anchor, "output 0", "a graph output has a value of its own",
                     fmt::format("'{}' is {}", target.name, what));
      return std::nullopt;
    }
  }
  graph::Patch patch(graph);
  patch.ReplaceUses(from, to);
  patch.RemoveNode(anchor);
  return patch;
}

std::optional<graph::Use> SoleReader(const graph::Graph& graph, graph::ValueId id) {
  const graph::Value& value = graph.value(id);
  if (value.uses.size() != 1 || value.output_uses > 0) return std::nullopt;
  return value.uses.front();
}

std::optional<graph::Patch> FuseFormula(graph::Patch patch, const graph::Graph& graph,
                                        const std::vector<graph::NodeId>& nodes, graph::Node fused,
                                        PassContext& context) {
  const graph::NodeId root = nodes.front();
  if (std::optional<std::string> reader = ReadOutside(graph, nodes, root)) {
    context.Refuse(graph, root, "fuse into " + fused.op_type,
                   "a value on the way has another reader", *std::move(reader));
    return std::nullopt;
  }
  fused.outputs = {graph.node(root).outputs[0]};
  fused.origin = OriginOf(graph, {nodes.rbegin(), nodes.rend()});
  patch.AddNode(std::move(fused));
  for (const graph::NodeId node : nodes) patch.RemoveNode(node);
  return patch;
}

graph::Patch FusePair(const graph::Graph& graph, graph::NodeId producer, graph::NodeId reader,
                      graph::Node fused) {
  fused.origin = OriginOf(graph, {producer, reader});
  graph::Patch patch(graph);
  patch.AddNode(std::move(fused));
  patch.RemoveNode(reader);
  patch.RemoveNode(producer);
  return patch;
}

std::string OriginOf(const graph::Graph& graph, graph::NodeId id) {
  const graph::Node& node = graph.node(id);
  if (!node.origin.empty()) return node.origin;
  if (!node.name.empty()) return node.name;
  for (const graph::ValueId output : node.outputs) {
    if (output != graph::kNoValue) {
      return fmt::format("{} -> '{}'", node.op_type, graph.value(output).name);
    }
  }
  return node.op_type;
}

std::string OriginOf(const graph::Graph& graph, const std::vector<graph::NodeId>& nodes) {
  // Several nodes may have been made of the same ones.
  std::vector<std::string> parts;
  for (const graph::NodeId id : nodes) {
    std::string part = OriginOf(graph, id);
    if (std::ranges::find(parts, part) == parts.end()) parts.push_back(std::move(part));
  }
  return fmt::format("{}", fmt::join(parts, " + "));
}

float FloatAttribute(const graph::Node& node, std::string_view name, float fallback) {
  const auto found = node.attributes.find(name);
  if (found == node.attributes.end()) return fallback;
  const auto* value = found->second.get_if<float>();
  return value != nullptr ? *value : fallback;
}

int64_t IntAttribute(const graph::Node& node, std::string_view name, int64_t fallback) {
  const auto found = node.attributes.find(name);
  if (found == node.attributes.end()) return fallback;
  const auto* value = found->second.get_if<int64_t>();
  return value != nullptr ? *value : fallback;
}

std::vector<const graph::DimVector*> InputDims(const graph::Graph& graph, const graph::Node& node) {
  std::vector<const graph::DimVector*> dims;
  for (const graph::ValueId input : node.inputs) {
    const bool known = input != graph::kNoValue && graph.value(input).type.dims.has_value();
    dims.push_back(known ? &*graph.value(input).type.dims : nullptr);
  }
  return dims;
}

void PadInputs(graph::Node& node) {
  const ops::OpEntry* entry = ops::Operators().Find(node.domain, node.op_type);
  if (entry == nullptr) return;
  node.inputs.resize(std::max(node.inputs.size(), static_cast<size_t>(entry->max_inputs)),
                     graph::kNoValue);
}

bool SameDims(const graph::DimVector& a, const graph::DimVector& b) {
  return std::ranges::equal(a, b,
                            [](const graph::Dim& x, const graph::Dim& y) { return x.SameAs(y); });
}

}  // namespace tandem::optimizer
