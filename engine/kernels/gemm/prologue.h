// What a matrix product does to the elements of A as it reads them: a short list of element-wise
// kernels, with the bits that they give one after the other.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "engine/kernels/elementwise/chain.h"

namespace tandem::kernels {

// The other operand of a stage: of each column of A an element (step 1), or one for all (step 0).
struct PrologueOperand {
  const float* data = nullptr;  // null: the stage has none
  int64_t step = 0;
};

// Kernels of float32; ChainStage::operand is an index into `operands`.
struct Prologue {
  absl::InlinedVector<ChainStage, 4> stages;
  absl::InlinedVector<PrologueOperand, 4> operands;
};

// n neighbours of a row of A, the first of column k.
struct PrologueRun {
  const float* a = nullptr;
  int64_t k = 0;
  int64_t n = 0;
};

void ApplyPrologue(const Prologue& prologue, const PrologueRun& run, float* to);

}  // namespace tandem::kernels
