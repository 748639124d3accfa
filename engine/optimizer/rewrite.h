// What several passes do.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/graph/patch.h"
#include "engine/optimizer/pass.h"

namespace tandem::optimizer {

// Node `anchor` goes and the readers of its first output read `to` instead, which has the same
// elements. Declines when the output is a graph output and `to` is an input, a constant or another
// graph output: each graph output has a value of its own that a node or folding makes.
std::optional<graph::Patch> Forward(const graph::Graph& graph, graph::NodeId anchor,
                                    graph::ValueId to, PassContext& context);

// The only node input that reads `id`, or nothing: when it is a graph output or has another number
// of readers.
std::optional<graph::Use> SoleReader(const graph::Graph& graph, graph::ValueId id);

// `fused` in place of a formula: of all `nodes` that compute it, the one whose first output is the
// result first, then what they read. `fused` takes over that output; `patch` may bring what it
// reads. Declines when others read a value on the way.
std::optional<graph::Patch> FuseFormula(graph::Patch patch, const graph::Graph& graph,
                                        const std::vector<graph::NodeId>& nodes, graph::Node fused,
                                        PassContext& context);

// `fused` in place of `producer` and of `reader`, which reads what it makes.
graph::Patch FusePair(const graph::Graph& graph, graph::NodeId producer, graph::NodeId reader,
                      graph::Node fused);

// What a person calls the node: its origin, its name, or its operator and output.
std::string OriginOf(const graph::Graph& graph, graph::NodeId id);
// The same of all `nodes`.
std::string OriginOf(const graph::Graph& graph, const std::vector<graph::NodeId>& nodes);

// Integer attribute of a node, or the fallback.
int64_t IntAttribute(const graph::Node& node, std::string_view name, int64_t fallback);
float FloatAttribute(const graph::Node& node, std::string_view name, float fallback);

// The extents of the inputs of a node, by port: null where omitted or of unknown rank.
std::vector<const graph::DimVector*> InputDims(const graph::Graph& graph, const graph::Node& node);

// Input ports behind all that the operator itself could have are filled with omitted inputs.
void PadInputs(graph::Node& node);

// True when the extents are known to be the same for every request.
bool SameDims(const graph::DimVector& a, const graph::DimVector& b);

}  // namespace tandem::optimizer
