// Matrix product in float32 with a packed right side and an epilogue:
//   C[m,n] = epilogue(sum over k of prologue(A[m,k]) * B[k,n])
//
// Every element of C is summed over k in an order that k, n and the arithmetic decide, whatever m,
// the tile it falls in or the number of threads: a row has the same bits alone and inside any
// batch. The plain kernels sum over k = 0, 1, ... one by one; sums of bfloat16 products are
// described in amx.h. k = 0 gives epilogue(0). Functions cannot fail, never allocate and may run
// from several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "engine/base/parallel.h"
#include "engine/base/precision.h"
#include "engine/kernels/epilogue.h"
#include "engine/kernels/gemm/prologue.h"
#include "engine/kernels/reduce/reduce.h"

namespace tandem::kernels {

// A matrix in memory: element (i, j) at data[i * row_stride + j * column_stride].
struct MatrixView {
  const float* data = nullptr;
  int64_t row_stride = 0;
  int64_t column_stride = 1;
};

// What the columns of quantised weights mean: (integer - zero point) * scale. Integers and zero
// points are whole numbers from -128 to 127. Null for weights that are no integers.
struct ColumnScales {
  const float* scales = nullptr;
  const float* zero_points = nullptr;
  int64_t step = 1;  // from one column to the next; 0: one for all
};

// B as it comes, to be packed.
struct PackSource {
  int64_t k = 0;
  int64_t n = 0;
  MatrixView b;          // of the integers, for Weights::kBytes
  float scale = 1;       // every element is multiplied by it
  ColumnScales columns;  // for Weights::kBytes
};

// Packed B is a row of panels, each of so many columns; the last one is filled up with zeros. Conv,
// Gemm and MatMul share the formats. None is for Isa::kReference.

// The format of packed B, for people and keys: equal matrices are packed alike in equal formats.
std::string PackFormat(Arithmetic arithmetic, int64_t k, int64_t n);
// Floats that packed B takes.
int64_t PackedFloats(Arithmetic arithmetic, int64_t k, int64_t n);
// Writes PackedFloats(arithmetic, k, n) floats, aligned to kBufferAlignment.
void PackB(Arithmetic arithmetic, const PackSource& source, float* packed,
           const Parallel& parallel);

struct GemmProblem {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  const float* a = nullptr;  // rows of k neighbours
  int64_t a_row_stride = 0;
  float* c = nullptr;  // rows of n neighbours; overlaps neither A, B nor an operand
  int64_t c_row_stride = 0;
  const Epilogue* epilogue = nullptr;         // null: none
  const EpilogueOperand* operands = nullptr;  // one for each stage
  int64_t row = 0;                            // of row 0 in the operands
  const Prologue* prologue = nullptr;         // null: none
};

// `packed_b` was made by PackB for the same arithmetic (not kReference), k and n.
void Gemm(Arithmetic arithmetic, const GemmProblem& problem, const float* packed_b,
          const Parallel& parallel);

// The same product on B as it comes, in plain loops.
void GemmReference(const GemmProblem& problem, const MatrixView& b, float scale);

// A product whose rows are reduced as they are made: one row of n columns is left of the m rows of
// each item.
struct ReducedGemm {
  int64_t items = 1;
  int64_t joined = 1;   // so many items read one B and lie one after the other in A: all or 1
  GemmProblem problem;  // of the first item; C has a row for each item, c_row_stride apart
  ReduceOp op = ReduceOp::kSum;
  // A and packed B of an item.
  struct Operands {
    const float* a = nullptr;
    const float* packed_b = nullptr;
  };
};

// The reductions that ReduceGemm has.
bool HasRowReduction(ReduceOp op);
// Floats of scratch for as many threads. The m x n elements of no item are ever there at once,
// beyond a block of them for each thread.
int64_t ReducedGemmScratchFloats(Arithmetic arithmetic, const ReducedGemm& product, int threads);
// Rows are reduced in blocks, whatever the number of items and threads: up to a block of rows the
// bits are those of the product and the reduction one after the other.
void ReduceGemm(Arithmetic arithmetic, const ReducedGemm& product,
                absl::FunctionRef<ReducedGemm::Operands(int64_t item)> operands, float* scratch,
                const Parallel& parallel);

// Applies the stages to the row at `row` of n finished sums, one by one with ApplyStage.
void ApplyEpilogueReference(const GemmProblem& problem, int64_t row);

}  // namespace tandem::kernels
