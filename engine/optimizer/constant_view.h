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

// True when the reader of a constant of this dtype does not need its bytes in their order: it packs
// it, or is itself such a view for readers that do.
bool Packs(const graph::Graph& graph, const graph::Use& use, DType dtype);

// True of all readers of output 0, which is no graph output.
bool AllReadersPack(const graph::Graph& graph, const graph::Node& node, DType dtype);

// Charges what the view may take once it is written out; false, with the reason recorded, when that
// passes the budget.
bool ChargeView(const graph::Graph& graph, graph::NodeId anchor, const StridedTensor& view,
                PassContext& context);

// Puts `view` in the place of the node, within the budget.
std::optional<graph::Patch> MakeView(const graph::Graph& graph, graph::NodeId anchor,
                                     StridedTensor view, PassContext& context);

}  // namespace tandem::optimizer
