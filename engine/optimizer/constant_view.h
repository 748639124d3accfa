// Constants that are views of others (tensor/strided.h), in the place of nodes that would write
// them out.
#pragma once

#include <optional>

#include "engine/optimizer/pass.h"

namespace tandem::optimizer {

// What output 0 of a node whose inputs are constant is a view of; nothing where the operator
// computes.
std::optional<StridedTensor> ConstantViewOf(const graph::Graph& graph, const graph::Node& node,
                                            const PassContext& context);

// True when writing the view out costs next to nothing.
bool IsSmall(const StridedTensor& view);

// True when nobody needs the bytes of output 0, of this dtype, in their order: all readers pack it.
bool AllReadersPack(const graph::Graph& graph, const graph::Node& node, DType dtype);

// Puts `view` in the place of the node, within the budget.
std::optional<graph::Patch> MakeView(const graph::Graph& graph, graph::NodeId anchor,
                                     StridedTensor view, PassContext& context);

}  // namespace tandem::optimizer
