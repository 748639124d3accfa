// Prologues of Gemm and MatMul: from element-wise operators to the stages of
// kernels/gemm/prologue.h.
#pragma once

#include <vector>

#include "engine/kernels/gemm/prologue.h"
#include "engine/ops/operator.h"

namespace tandem::ops {

// A stage and the input port of its other operand, or -1.
struct BoundPrologueStage {
  kernels::ChainStage stage;
  int port = -1;
};
using BoundPrologue = std::vector<BoundPrologueStage>;

// The node's prologue, on float32. Internal when it holds a stage that no prologue takes.
StatusOr<BoundPrologue> BindPrologue(const graph::Node& node, Isa isa);

// What the kernel takes, for the memories of one run.
kernels::Prologue RunPrologue(const BoundPrologue& bound, const StepContext& context);

}  // namespace tandem::ops
