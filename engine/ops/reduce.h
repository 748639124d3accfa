// Reductions as parts of other operators.
#pragma once

#include <optional>
#include <string_view>

#include "engine/graph/dim.h"
#include "engine/graph/graph.h"
#include "engine/kernels/reduce/reduce.h"

namespace tandem::ops {

// What the operator ReduceSum, ReduceMax ... computes; nothing for other operators.
std::optional<kernels::ReduceOp> ReduceOpOf(std::string_view op_type);

// The reduction that ends the epilogue of a matrix product, or nothing. Its stage has the axes as
// an attribute, whatever the opset.
std::optional<kernels::ReduceOp> RowReductionOf(const graph::Node& node);

// What is left of the extents of a product by the reduction in the node's epilogue, if any.
graph::DimVector WithRowsReduced(const graph::Node& node, graph::DimVector product);

}  // namespace tandem::ops
