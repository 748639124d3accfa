#include "engine/kernels/elementwise/chain.h"

#include <algorithm>
#include <array>

namespace tandem::kernels {
namespace {

// With a few operands a piece stays in 32 KiB.
constexpr int64_t kPieceElements = 1024;

}  // namespace

void RunStage(const ChainStage& stage, const ChainOperand& operand, const ChainRun& run) {
  std::array<const void*, 2> operands = {run.x, operand.data};
  std::array<int64_t, 2> steps = {1, operand.step};
  if (stage.operand >= 0 && stage.operand_is_first) {
    std::swap(operands[0], operands[1]);
    std::swap(steps[0], steps[1]);
  }
  const int count = stage.operand >= 0 ? 2 : 1;
  stage.kernel.function({operands.data(), steps.data(), count, run.y, run.n}, stage.kernel.params);
}

void RunChain(const RowKernel& first, int own, std::span<const ChainStage> stages,
              size_t element_bytes, const RowArgs& row) {
  std::array<const void*, kMaxRowOperands> at;
  auto* output = static_cast<std::byte*>(row.output);
  for (int64_t begin = 0; begin < row.n; begin += kPieceElements) {
    const int64_t n = std::min(kPieceElements, row.n - begin);
    for (int i = 0; i < row.count; ++i) {
      at[static_cast<size_t>(i)] = static_cast<const std::byte*>(row.operands[i]) +
                                   static_cast<size_t>(begin * row.steps[i]) * element_bytes;
    }
    std::byte* piece = output + static_cast<size_t>(begin) * element_bytes;
    first.function({at.data(), row.steps, own, piece, n}, first.params);
    for (const ChainStage& stage : stages) {
      ChainOperand operand;
      if (stage.operand >= 0) {
        operand = {at[static_cast<size_t>(stage.operand)], row.steps[stage.operand]};
      }
      RunStage(stage, operand, {piece, piece, n});
    }
  }
}

}  // namespace tandem::kernels
