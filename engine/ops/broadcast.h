// Multidirectional broadcasting of symbolic extents, and what follows from it for the batch axis.
#pragma once

#include <optional>
#include <span>

#include "engine/base/status.h"
#include "engine/kernels/elementwise/broadcast.h"
#include "engine/ops/operator.h"

namespace tandem::ops {

// The extents to which `operands` broadcast; nothing when the rank of one is unknown. Equal symbols
// stay, 1 gives way, a number other than 1 wins over what is not known yet (a run checks it), two
// different symbols leave the extent unknown. InvalidArgument names the operands that do not fit.
StatusOr<std::optional<graph::DimVector>> BroadcastDims(
    std::span<const graph::DimVector* const> operands);

// The extents to which all inputs of a node broadcast; omitted inputs have no say.
StatusOr<std::optional<graph::DimVector>> BroadcastInputs(const InferContext& context);

// The operand with its strides along the axes of an output, in the output's memory order, whatever
// the layouts of the two are.
kernels::BroadcastOperand OperandOf(const TensorView& view, const MutableTensorView& output);

// The batch rule of operators whose inputs broadcast: all inputs that carry the batch carry it on
// the same axis of the output, and the others have extent 1 there or do not reach it.
BatchAnswer BroadcastBatch(const BatchQuery& query);

}  // namespace tandem::ops
