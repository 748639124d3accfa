#include "engine/kernels/gemm/prologue.h"

namespace tandem::kernels {

void ApplyPrologue(const Prologue& prologue, const PrologueRun& run, float* to) {
  if (run.n == 0) return;  // row kernels take at least one element
  const float* from = run.a;
  for (const ChainStage& stage : prologue.stages) {
    ChainOperand other;
    if (stage.operand >= 0) {
      const PrologueOperand& operand = prologue.operands[static_cast<size_t>(stage.operand)];
      other = {operand.data + run.k * operand.step, operand.step};
    }
    RunStage(stage, other, {from, to, run.n});
    from = to;
  }
}

}  // namespace tandem::kernels
