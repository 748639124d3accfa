#include "engine/kernels/gemm/fusion.h"

#include <fmt/format.h>

namespace tandem::kernels {

FusionAnswer TryFuseStage(const FusionRequest& request) {
  if (!request.known_stage) return {false, "the epilogue has no such stage", ""};
  if (!request.is_float32) return {false, "the epilogue computes in float32 only", ""};
  if (request.is_output) return {false, "the result is a graph output", ""};
  if (request.readers != 1) {
    return {false, "the result has other readers", fmt::format("readers={}", request.readers)};
  }
  if (request.operand == OperandForm::kOther) {
    return {
        false,
        "the operand is neither a scalar, nor one element a column, nor of the result's extents",
        request.operand_text};
  }
  if (request.stages >= kMostStages) {
    return {false, "the epilogue is full",
            fmt::format("stages={} limit={}", request.stages, kMostStages)};
  }
  return {true, "", ""};
}

FusionAnswer TryFuseReduction(const ReductionRequest& request) {
  if (!request.known_reduction) return {false, "gemm: the epilogue has no such reduction", ""};
  if (!request.is_float32) return {false, "gemm: the epilogue reduces float32 only", ""};
  if (!request.has_matrices) {
    return {false, "gemm: a side is a vector, or its rank is unknown", request.axes_text};
  }
  if (!request.reduces_rows) {
    return {false, "gemm: only the rows (axis -2) are reduced as they are made", request.axes_text};
  }
  if (request.is_output) return {false, "the result is a graph output", ""};
  if (request.readers != 1) {
    return {false, "the result has other readers", fmt::format("readers={}", request.readers)};
  }
  return {true, "", ""};
}

FusionAnswer TryFusePrologue(const PrologueQuery& query) {
  if (!query.has_kernels) return {false, "gemm: a stage has no kernel on rows", ""};
  if (!query.is_float32) return {false, "gemm: the prologue computes in float32 only", ""};
  if (query.is_transposed) return {false, "gemm: A is transposed before it is read", ""};
  if (!query.fits_columns) {
    return {false, "gemm: an operand is neither a scalar nor one element a column of A", ""};
  }
  if (query.columns < 0 || query.columns > kMostPrologueColumns) {
    return {false, "gemm: A would be computed again for every group of columns",
            fmt::format("columns={} limit={}", query.columns, kMostPrologueColumns)};
  }
  return {true, "", ""};
}

}  // namespace tandem::kernels
