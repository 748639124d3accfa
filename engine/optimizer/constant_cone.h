// Cones of constant computation: a node and the nodes before it that are the same in every run but
// were too large to keep, as the product of a low-rank update that is then added to its weight.
#pragma once

#include <vector>

#include "engine/optimizer/pass.h"

namespace tandem::optimizer {

// Node `nodes.back()` with what it needs, in dataflow order; everything else they read is constant.
struct ConstantCone {
  std::vector<graph::NodeId> nodes;
  // Those that nobody else reads, readers first. The last node is the first here.
  std::vector<graph::NodeId> dying;
};

// The cone of `anchor`: the node alone when it reads constants only. Nothing when it reads anything
// that is neither constant nor made by nodes that the pass has postponed, or when the cone is
// large.
std::optional<ConstantCone> FindCone(const graph::Graph& graph, graph::NodeId anchor,
                                     const PassContext& context);

// What evaluating the cone costs, before it is evaluated. Outputs of the last node whose size
// depends on data count as nothing. Nothing when a size passes int64, or is unknown further in.
std::optional<FoldCost> CostOf(const graph::Graph& graph, const ConstantCone& cone,
                               std::span<const ops::ValueFacts> results);

// The outputs of the last node; its output ports that nobody reads may be invalid.
StatusOr<std::vector<Tensor>> Evaluate(const graph::Graph& graph, const ConstantCone& cone,
                                       const PassContext& context);

// True when the output exists and something reads it.
bool IsRead(const graph::Graph& graph, graph::ValueId output);

}  // namespace tandem::optimizer
