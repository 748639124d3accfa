#include "engine/optimizer/constant_cone.h"

#include <algorithm>
#include <map>

#include "engine/ops/evaluate.h"
#include "engine/optimizer/rewrite.h"

namespace tandem::optimizer {
namespace {

using graph::kNoValue;

// Chains of exporters are shorter; the bound keeps the search linear in the nodes of a graph.
constexpr size_t kMostNodes = 16;

bool Contains(const std::vector<graph::NodeId>& nodes, graph::NodeId id) {
  return std::ranges::find(nodes, id) != nodes.end();
}

// Adds `id` behind what it needs; false when it is not in a cone.
bool Collect(const graph::Graph& graph, graph::NodeId id, const PassContext& context,
             std::vector<graph::NodeId>& nodes) {
  const graph::Node& node = graph.node(id);
  for (const graph::ValueId input : node.inputs) {
    if (input == kNoValue) continue;
    const graph::Value& value = graph.value(input);
    if (value.constant != nullptr) continue;
    if (value.def == graph::kNoNode || !context.postponed(value.def)) return false;
    if (!Contains(nodes, value.def) && !Collect(graph, value.def, context, nodes)) return false;
  }
  nodes.push_back(id);
  return nodes.size() <= kMostNodes;
}

// Nodes of the cone that nobody else reads, readers first.
std::vector<graph::NodeId> DyingNodes(const graph::Graph& graph,
                                      const std::vector<graph::NodeId>& nodes) {
  std::vector<graph::NodeId> dying = {nodes.back()};
  for (auto id = nodes.rbegin() + 1; id != nodes.rend(); ++id) {
    const bool dies = std::ranges::all_of(graph.node(*id).outputs, [&](graph::ValueId output) {
      return output == kNoValue ||
             std::ranges::all_of(graph.value(output).uses,
                                 [&](const graph::Use& use) { return Contains(dying, use.node); });
    });
    if (dies) dying.push_back(*id);
  }
  return dying;
}

// Values that the nodes read and do not make, each once.
std::vector<graph::ValueId> Sources(const graph::Graph& graph,
                                    const std::vector<graph::NodeId>& nodes) {
  std::vector<graph::ValueId> sources;
  for (const graph::NodeId id : nodes) {
    for (const graph::ValueId input : graph.node(id).inputs) {
      if (input == kNoValue || graph.value(input).constant == nullptr) continue;
      if (std::ranges::find(sources, input) == sources.end()) sources.push_back(input);
    }
  }
  return sources;
}

// Bytes of the constants that go with the dying nodes.
size_t FreedBytes(const graph::Graph& graph, const ConstantCone& cone) {
  size_t bytes = 0;
  for (const graph::ValueId id : Sources(graph, cone.dying)) {
    const graph::Value& value = graph.value(id);
    // The memory of a reordered weight may be the weight's still.
    const bool shares = value.constant->is_view() && !value.constant->strided().repeats();
    if (value.is_input || shares) continue;
    const bool read_by_others = std::ranges::any_of(
        value.uses, [&](const graph::Use& use) { return !Contains(cone.dying, use.node); });
    if (!read_by_others) bytes += value.constant->held_bytes();
  }
  return bytes;
}

// Bytes of the views that evaluating the nodes writes out.
size_t SpelledBytes(const graph::Graph& graph, const std::vector<graph::NodeId>& nodes) {
  size_t bytes = 0;
  for (const graph::ValueId id : Sources(graph, nodes)) {
    const graph::Constant& constant = *graph.value(id).constant;
    if (constant.is_view()) bytes += constant.byte_size();
  }
  return bytes;
}

// How many times each value that a cone makes is read in it.
std::map<graph::ValueId, int> ReadsOf(const graph::Graph& graph, const ConstantCone& cone) {
  std::map<graph::ValueId, int> reads;
  for (const graph::NodeId id : cone.nodes) {
    for (const graph::ValueId input : graph.node(id).inputs) {
      if (input != kNoValue && graph.value(input).constant == nullptr) ++reads[input];
    }
  }
  return reads;
}

Shape ShapeOf(const graph::Graph& graph, graph::ValueId id) {
  const graph::Value& value = graph.value(id);
  return value.constant != nullptr ? value.constant->shape() : *graph::ToShape(*value.type.dims);
}

// The account of a cone, node by node.
class Accountant {
 public:
  Accountant(const graph::Graph& graph, const ConstantCone& cone)
      : graph_(graph), reads_(ReadsOf(graph, cone)) {
    for (const graph::NodeId id : cone.dying) cost_.nodes.push_back(OriginOf(graph, id));
    cost_.freed_bytes = FreedBytes(graph, cone);
  }

  // A node whose outputs are used up within the cone.
  bool AddInner(graph::NodeId id) {
    const graph::Node& node = graph_.node(id);
    std::vector<std::optional<Shape>> shapes;
    for (const graph::ValueId output : node.outputs) {
      if (output == kNoValue) {
        shapes.emplace_back(Shape());
        continue;
      }
      const graph::ValueType& type = graph_.value(output).type;
      shapes.push_back(type.dims ? graph::ToShape(*type.dims) : std::nullopt);
      if (!shapes.back() || !Countable(*shapes.back())) return false;
      if (reads_.contains(output)) live_ += DTypeBytes(type.dtype, shapes.back()->elements());
    }
    AddWork(node, shapes);
    most_live_ = std::max(most_live_, live_);
    for (const graph::ValueId input : node.inputs) Release(input);
    return true;
  }

  bool AddLast(graph::NodeId id, std::span<const ops::ValueFacts> results) {
    const graph::Node& node = graph_.node(id);
    std::vector<std::optional<Shape>> shapes;
    for (size_t port = 0; port < node.outputs.size(); ++port) {
      const bool omitted = node.outputs[port] == kNoValue;
      shapes.push_back(omitted ? Shape() : results[port].shape());
      if (omitted || !shapes.back()) continue;
      if (!Countable(*shapes.back())) return false;
      if (!IsRead(graph_, node.outputs[port])) continue;
      cost_.made_bytes += DTypeBytes(results[port].dtype, shapes.back()->elements());
    }
    AddWork(node, shapes);
    most_live_ = std::max(most_live_, live_ + cost_.made_bytes) - cost_.made_bytes;
    return true;
  }

  FoldCost Total(size_t views) const {
    FoldCost total = cost_;
    total.spelled_bytes = views + most_live_;
    return total;
  }

 private:
  static bool Countable(const Shape& shape) {
    const std::optional<int64_t> elements = CheckedElements(shape.dims());
    return elements && *elements <= (int64_t{1} << 56);
  }

  void Release(graph::ValueId id) {
    const auto found = reads_.find(id);
    if (found == reads_.end() || --found->second > 0) return;
    live_ -= DTypeBytes(graph_.value(id).type.dtype, ShapeOf(graph_, id).elements());
  }

  // Elements read or written, whichever is more, or the multiply-adds that the operator estimates
  // if those are more and all shapes are known.
  void AddWork(const graph::Node& node, const std::vector<std::optional<Shape>>& results) {
    std::vector<Shape> inputs, outputs;
    int64_t read = 0;
    int64_t written = 0;
    DType dtype = DType::kFloat;
    for (const graph::ValueId id : node.inputs) {
      inputs.push_back(id == kNoValue ? Shape() : ShapeOf(graph_, id));
      if (id == kNoValue) continue;
      read += inputs.back().elements();
      if (inputs.size() == 1) dtype = graph_.value(id).type.dtype;
    }
    bool all_known = true;
    for (size_t port = 0; port < results.size(); ++port) {
      all_known &= results[port].has_value();
      outputs.push_back(results[port].value_or(Shape()));
      if (results[port] && node.outputs[port] != kNoValue) written += outputs.back().elements();
    }
    int64_t work = std::max(read, written);
    if (all_known) {
      constexpr double kMost = 1e18;
      const ops::StepShapes shapes{inputs, outputs, 1};
      const double adds = ops::OpOf(node).EstimateCost(shapes, dtype).multiply_adds;
      work = std::max(work, static_cast<int64_t>(std::min(adds, kMost)));
    }
    cost_.elements += work;
  }

  const graph::Graph& graph_;
  std::map<graph::ValueId, int> reads_;
  FoldCost cost_;
  size_t live_ = 0;
  size_t most_live_ = 0;
};

}  // namespace

bool IsRead(const graph::Graph& graph, graph::ValueId output) {
  return output != kNoValue && !graph.value(output).uses.empty();
}

std::optional<ConstantCone> FindCone(const graph::Graph& graph, graph::NodeId anchor,
                                     const PassContext& context) {
  ConstantCone cone;
  if (!Collect(graph, anchor, context, cone.nodes)) return std::nullopt;
  cone.dying = DyingNodes(graph, cone.nodes);
  return cone;
}

std::optional<FoldCost> CostOf(const graph::Graph& graph, const ConstantCone& cone,
                               std::span<const ops::ValueFacts> results) {
  Accountant accountant(graph, cone);
  for (const graph::NodeId id : cone.nodes) {
    const bool counted =
        id == cone.nodes.back() ? accountant.AddLast(id, results) : accountant.AddInner(id);
    if (!counted) return std::nullopt;
  }
  return accountant.Total(SpelledBytes(graph, cone.nodes));
}

StatusOr<std::vector<Tensor>> Evaluate(const graph::Graph& graph, const ConstantCone& cone,
                                       const PassContext& context) {
  std::map<graph::ValueId, int> reads = ReadsOf(graph, cone);
  std::map<graph::ValueId, Tensor> made;
  std::vector<Tensor> outputs;
  for (const graph::NodeId id : cone.nodes) {
    const graph::Node& node = graph.node(id);
    std::vector<Tensor> inputs;
    for (const graph::ValueId input : node.inputs) {
      inputs.emplace_back();
      if (input == kNoValue) continue;
      if (const graph::ConstantRef& constant = graph.value(input).constant) {
        ASSIGN_OR_RETURN(inputs.back(), constant->SpellOut());
        continue;
      }
      inputs.back() = made.at(input);
      if (--reads.at(input) == 0) made.erase(input);
    }
    ASSIGN_OR_RETURN(outputs,
                     ops::Evaluate(node, inputs, context.options().isa, context.parallel()));
    for (size_t port = 0; port < node.outputs.size(); ++port) {
      if (reads.contains(node.outputs[port])) made[node.outputs[port]] = outputs[port];
    }
  }
  return outputs;
}

}  // namespace tandem::optimizer
