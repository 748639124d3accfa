// Epilogues of Conv, Gemm and MatMul: from element-wise operators to the stages of
// kernels/epilogue.h. The kernel sees its result as rows of columns; an operator says which axis of
// its output the columns are.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "engine/kernels/epilogue.h"
#include "engine/kernels/gemm/fusion.h"
#include "engine/ops/operator.h"

namespace tandem::ops {

// Columns of a result: axis 1 of an image, the last axis of a matrix.
enum class ColumnAxis : uint8_t { kChannels, kLast };

// The stage that operator `op` with `attributes` is, its operand left open; nothing when the
// epilogue has none.
std::optional<kernels::EpilogueStage> StageOf(std::string_view op,
                                              const graph::Attributes& attributes);

// How an operand of the extents `operand` lies against `result`.
kernels::OperandForm OperandFormOf(const graph::DimVector& operand, const graph::DimVector& result,
                                   ColumnAxis columns);

// The answer of all operators with this epilogue.
Decision TryFuseStage(const EpilogueRequest& request, ColumnAxis columns);

// A stage and the input port of its operand, or -1.
struct BoundStage {
  kernels::EpilogueStage stage;
  int port = -1;
};
using BoundStages = std::vector<BoundStage>;

// The node's epilogue, a reduction at its end left out (ops/reduce.h). Internal when it holds a
// stage that TryFuseStage would not have taken.
StatusOr<BoundStages> BindStages(const graph::Node& node);
// The same of other stages of the node.
StatusOr<BoundStages> BindStages(const graph::Node& node,
                                 std::span<const graph::EpilogueStage> stages);

// What the kernels take, for the shapes and memories of one run.
struct RunStages {
  kernels::Epilogue stages;
  absl::InlinedVector<kernels::EpilogueOperand, 4> operands;

  void Add(const kernels::EpilogueStage& stage, const kernels::EpilogueOperand& operand) {
    stages.push_back(stage);
    operands.push_back(operand);
  }
};

// The kind of an operand of a concrete shape; kFull where nothing else fits, which the caller may
// have to expand.
kernels::OperandKind OperandKindOf(const Shape& operand, const Shape& result, ColumnAxis columns);

// Writes `operand`, broadcast to `result`, to `out`, row-major and times `scale`.
void ExpandOperand(const TensorView& operand, const Shape& result, float scale, float* out);

// The batch rule of the operands behind the first `own_inputs`: nothing when the batch on output
// axis `axis` of rank `rank` survives them, else why not.
std::optional<std::string> OperandsMixBatch(const BatchQuery& query, int own_inputs, int axis,
                                            int rank);

}  // namespace tandem::ops
