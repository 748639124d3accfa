#include "engine/plan/layouts.h"

#include <algorithm>

#include "engine/ops/operator.h"

namespace tandem::plan {
namespace {

// Packed elements of less than a byte have no other layout.
bool IsImage(const graph::Value& value) {
  return value.type.dims && value.type.dims->size() >= 3 && DTypeBits(value.type.dtype) >= 8;
}

class Assignment {
 public:
  explicit Assignment(const graph::Graph& graph) : graph_(graph) {
    layouts_.values.assign(static_cast<size_t>(graph.value_limit()), Layout::kNative);
    layouts_.reads.resize(static_cast<size_t>(graph.node_limit()));
  }

  Layouts Run() {
    for (const graph::NodeId id : graph_.order()) Assign(id);
    return std::move(layouts_);
  }

 private:
  void Assign(graph::NodeId id) {
    const graph::Node& node = graph_.node(id);
    std::vector<Layout>& reads = layouts_.reads[static_cast<size_t>(id)];
    reads.assign(node.inputs.size(), Layout::kNative);
    const graph::ValueId result = node.outputs.empty() ? graph::kNoValue : node.outputs[0];
    if (result == graph::kNoValue || node.inputs.empty() || node.inputs[0] == graph::kNoValue) {
      return;
    }
    switch (ops::OpOf(node).traits().layout) {
      case ops::LayoutRule::kNative:
        return;
      case ops::LayoutRule::kAny:
        for (size_t port = 0; port < reads.size(); ++port) reads[port] = LayoutOf(node, port);
        return;
      case ops::LayoutRule::kFromChannelsLast:
        reads[0] = LayoutOf(node, 0);
        return;
      case ops::LayoutRule::kToChannelsLast:
        if (!IsImage(graph_.value(result)) || graph_.value(node.inputs[0]).constant != nullptr)
          return;
        break;
      case ops::LayoutRule::kChannelsLast:
        if (!IsImage(graph_.value(node.inputs[0])) || !IsImage(graph_.value(result))) return;
        reads[0] = Layout::kChannelsLast;
        break;
      case ops::LayoutRule::kFollow:
        if (!FollowsChannelsLast(node, reads)) return;
        break;
    }
    layouts_.values[static_cast<size_t>(result)] = Layout::kChannelsLast;
    // A fused operand as large as the result lies as the result does.
    for (const graph::EpilogueStage& stage : node.epilogue) {
      if (stage.operand < 0) continue;
      const auto port = static_cast<size_t>(stage.operand);
      const graph::Value& operand = graph_.value(node.inputs[port]);
      if (IsImage(operand) && operand.type.dims->size() == graph_.value(result).type.dims->size()) {
        reads[port] = Layout::kChannelsLast;
      }
    }
  }

  Layout LayoutOf(const graph::Node& node, size_t port) const {
    const graph::ValueId id = node.inputs[port];
    return id == graph::kNoValue ? Layout::kNative : layouts_.values[static_cast<size_t>(id)];
  }

  // True, with `reads` set, when one operand is channels-last and the result is an image; but not
  // where another one is native and nobody wants the result otherwise. Operands of the result's
  // rank are brought there; lower ones stay native and broadcast as they lie, but for constants of
  // rank 2 and more, which are moved once at load.
  bool FollowsChannelsLast(const graph::Node& node, std::vector<Layout>& reads) const {
    const graph::Value& result = graph_.value(node.outputs[0]);
    if (!IsImage(result)) return false;
    const size_t rank = result.type.dims->size();
    bool wanted = false;
    bool unwanted = false;
    for (size_t port = 0; port < node.inputs.size(); ++port) {
      const graph::ValueId id = node.inputs[port];
      if (id == graph::kNoValue) continue;
      const graph::Value& value = graph_.value(id);
      if (!value.type.dims) return false;
      if (value.type.dims->size() != rank || value.constant != nullptr) continue;
      (LayoutOf(node, port) == Layout::kChannelsLast ? wanted : unwanted) = true;
    }
    if (!wanted || (unwanted && ReadNativeOnly(result))) return false;
    for (size_t port = 0; port < node.inputs.size(); ++port) {
      const graph::ValueId id = node.inputs[port];
      if (id == graph::kNoValue) continue;
      const graph::Value& value = graph_.value(id);
      const size_t own = value.type.dims->size();
      if (own == rank || (value.constant != nullptr && own >= 2)) {
        reads[port] = Layout::kChannelsLast;
      }
    }
    return true;
  }

  // True when no reader, and no graph output, takes `value` channels-last.
  bool ReadNativeOnly(const graph::Value& value) const {
    return std::ranges::all_of(value.uses, [this](const graph::Use& use) {
      if (use.node == graph::kGraphOutput) return true;
      const ops::LayoutRule rule = ops::OpOf(graph_.node(use.node)).traits().layout;
      return rule == ops::LayoutRule::kNative || rule == ops::LayoutRule::kAny;
    });
  }

  const graph::Graph& graph_;
  Layouts layouts_;
};

}  // namespace

Layouts AssignLayouts(const graph::Graph& graph) { return Assignment(graph).Run(); }

}  // namespace tandem::plan
