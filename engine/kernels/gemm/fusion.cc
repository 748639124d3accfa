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

}  // namespace tandem::kernels
