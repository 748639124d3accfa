#include "engine/graph/patch.h"

#include <algorithm>

#include "engine/base/check.h"

namespace tandem::graph {

ValueId Patch::NewValue(std::string_view name, ValueType type) {
  values_.push_back({std::string(name), std::move(type), nullptr});
  return next_value_++;
}

ValueId Patch::NewConstant(std::string_view name, ConstantRef constant) {
  values_.push_back({std::string(name), {}, std::move(constant)});
  return next_value_++;
}

void Patch::AddNode(Node node) { nodes_.push_back(std::move(node)); }

void Patch::ReplaceUses(ValueId from, ValueId to) { replacements_.emplace_back(from, to); }

void Patch::SetConstant(ValueId id, ConstantRef constant) {
  constants_.emplace_back(id, std::move(constant));
}

void Patch::RemoveNode(NodeId id) { removed_.push_back(id); }

bool Patch::Defines(ValueId id) const {
  const auto makes = [id](const Node& node) {
    return std::ranges::find(node.outputs, id) != node.outputs.end();
  };
  return std::ranges::any_of(nodes_, makes) ||
         std::ranges::find(constants_, id, [](const auto& row) { return row.first; }) !=
             constants_.end();
}

bool Patch::Reads(ValueId id) const {
  const auto reads = [id](const Node& node) {
    return std::ranges::find(node.inputs, id) != node.inputs.end();
  };
  return std::ranges::any_of(nodes_, reads) ||
         std::ranges::find(replacements_, id, [](const auto& row) { return row.second; }) !=
             replacements_.end();
}

std::optional<ValueId> Patch::FindLostRead(const Graph& graph) const {
  const auto stays = [this](const Use& use) {
    return std::ranges::find(removed_, use.node) == removed_.end();
  };
  for (const NodeId node : removed_) {
    for (const ValueId output : graph.node(node).outputs) {
      if (output == kNoValue || Defines(output)) continue;
      if (Reads(output)) return output;
      const bool replaced = std::ranges::find(replacements_, output, [](const auto& row) {
                              return row.first;
                            }) != replacements_.end();
      if (!replaced && std::ranges::any_of(graph.value(output).uses, stays)) return output;
    }
  }
  return std::nullopt;
}

bool Patch::empty() const {
  return values_.empty() && nodes_.empty() && replacements_.empty() && constants_.empty() &&
         removed_.empty();
}

void Patch::Commit(Graph& graph) const {
  CHECK(graph.value_limit() + static_cast<ValueId>(values_.size()) == next_value_,
        "the graph changed since the patch was made");
  for (const NewValueRow& row : values_) {
    if (row.constant != nullptr) {
      graph.AddConstant(row.name, row.constant);
    } else {
      graph.AddValue(row.name, row.type);
    }
  }
  for (const Node& node : nodes_) {
    for (const ValueId output : node.outputs) {
      if (output != kNoValue) graph.Undefine(output);
    }
    if (removed_.empty()) {
      graph.AddNode(node);
    } else {
      graph.AddNodeAt(node, removed_.front());
    }
  }
  for (const auto& [id, constant] : constants_) graph.SetConstant(id, constant);
  for (const auto& [from, to] : replacements_) graph.ReplaceUses(from, to);
  for (const NodeId id : removed_) graph.RemoveNode(id);
}

}  // namespace tandem::graph
