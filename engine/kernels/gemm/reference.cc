#include "engine/kernels/gemm/gemm.h"

namespace tandem::kernels {
namespace {

float OperandAt(const EpilogueStage& stage, const EpilogueOperand& operand, int64_t row,
                int64_t column) {
  switch (stage.kind) {
    case OperandKind::kNone:
      return 0;
    case OperandKind::kScalar:
      return operand.data[0];
    case OperandKind::kColumn:
      return operand.data[column];
    case OperandKind::kFull:
      return operand.data[row * operand.row_stride + column];
  }
  return 0;
}

}  // namespace

void ApplyEpilogueReference(const GemmProblem& problem, int64_t row) {
  if (problem.epilogue == nullptr) return;
  float* c = problem.c + row * problem.c_row_stride;
  for (size_t i = 0; i < problem.epilogue->size(); ++i) {
    const EpilogueStage& stage = (*problem.epilogue)[i];
    for (int64_t column = 0; column < problem.n; ++column) {
      c[column] = ApplyStage(stage, c[column],
                             OperandAt(stage, problem.operands[i], problem.row + row, column));
    }
  }
}

void GemmReference(const GemmProblem& problem, const MatrixView& b, float scale) {
  for (int64_t row = 0; row < problem.m; ++row) {
    const float* a = problem.a + row * problem.a_row_stride;
    float* c = problem.c + row * problem.c_row_stride;
    for (int64_t column = 0; column < problem.n; ++column) {
      float sum = 0;
      for (int64_t k = 0; k < problem.k; ++k) {
        sum += a[k] * (scale * b.data[k * b.row_stride + column * b.column_stride]);
      }
      c[column] = sum;
    }
    ApplyEpilogueReference(problem, row);
  }
}

}  // namespace tandem::kernels
