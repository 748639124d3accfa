// What a GEMM-like kernel does to a result before it stores it: a short list of stages, applied in
// order to the finished sum, so that a fused result has the bits of the unfused one.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"

namespace tandem::kernels {

// x is the value so far, o the operand's element of the same output element.
enum class EpilogueOp : uint8_t {
  kAdd,         // x + o
  kSub,         // x - o
  kReverseSub,  // o - x
  kMul,         // x * o
  kPRelu,       // x < 0 ? o * x : x
  kRelu,        // x < 0 ? 0 : x (keeps NaN)
  kClip,        // min(max(x, alpha), beta)
  kLeakyRelu,   // x < 0 ? alpha * x : x
  kSigmoid,
  kTanh,
  kHardSigmoid,  // max(0, min(1, alpha * x + beta))
  kHardSwish,    // x * max(0, min(1, x / 6 + 0.5))
  kSilu,         // x * sigmoid(x)
  kGeluErf,      // 0.5 * x * (1 + erf(x / sqrt(2)))
  kGeluTanh,     // 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
  kMish,         // x * tanh(log(1 + e^x))
};
// Operations up to this one have an operand.
inline constexpr EpilogueOp kLastBinaryOp = EpilogueOp::kPRelu;

// How the operand of an output element at (row, column) is found.
enum class OperandKind : uint8_t {
  kNone,
  kScalar,  // one element
  kColumn,  // one element per column: a bias
  kFull,    // one element per output element, row stride given with the operand
};

struct EpilogueStage {
  EpilogueOp op = EpilogueOp::kAdd;
  OperandKind kind = OperandKind::kNone;
  float alpha = 0;
  float beta = 0;
};

using Epilogue = absl::InlinedVector<EpilogueStage, 4>;

// Operand of the stage with the same index; null for stages without one. `row_stride` counts
// elements and is used by kFull only.
struct EpilogueOperand {
  const float* data = nullptr;
  int64_t row_stride = 0;
};

// One stage on one value, in plain scalar arithmetic: what every kernel's epilogue is compared
// with.
float ApplyStage(const EpilogueStage& stage, float x, float operand);

}  // namespace tandem::kernels
