// Several row kernels in one pass over memory: the first computes a piece of the output that fits
// the first-level cache, the others change it there. Every element has the bits that the kernels
// give one after the other.
#pragma once

#include <cstddef>
#include <span>

#include "engine/kernels/elementwise/row.h"

namespace tandem::kernels {

// A kernel that is applied to what is there, x.
struct ChainStage {
  RowKernel kernel;
  int operand = -1;               // of the row: the kernel's other operand; -1: a kernel of x alone
  bool operand_is_first = false;  // kernel(operand, x) rather than kernel(x, operand)
};

// The other operand of a stage, which advances with x (step 1) or does not (step 0).
struct ChainOperand {
  const void* data = nullptr;
  int64_t step = 0;
};

// n elements of x, and where the result goes; it may be x itself.
struct ChainRun {
  const void* x = nullptr;
  void* y = nullptr;
  int64_t n = 0;
};

void RunStage(const ChainStage& stage, const ChainOperand& operand, const ChainRun& run);

// Runs `first` on the first `own` operands of `row`, then `stages`. All operands and the output
// have elements of `element_bytes` bytes; the output may be the memory of an operand of `first`
// that no stage reads.
void RunChain(const RowKernel& first, int own, std::span<const ChainStage> stages,
              size_t element_bytes, const RowArgs& row);

}  // namespace tandem::kernels
