#include "engine/kernels/epilogue.h"

#include <algorithm>
#include <cmath>

namespace tandem::kernels {

float ApplyStage(const EpilogueStage& stage, float x, float o) {
  switch (stage.op) {
    case EpilogueOp::kAdd:
      return x + o;
    case EpilogueOp::kSub:
      return x - o;
    case EpilogueOp::kReverseSub:
      return o - x;
    case EpilogueOp::kMul:
      return x * o;
    case EpilogueOp::kRelu:
      return x < 0 ? 0 : x;
    case EpilogueOp::kClip:
      return x < stage.alpha ? stage.alpha : (x > stage.beta ? stage.beta : x);
    case EpilogueOp::kLeakyRelu:
      return x < 0 ? stage.alpha * x : x;
    case EpilogueOp::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case EpilogueOp::kTanh:
      return std::tanh(x);
    case EpilogueOp::kHardSigmoid:
      return std::max(0.0f, std::min(1.0f, stage.alpha * x + stage.beta));
    case EpilogueOp::kHardSwish:
      return x * std::max(0.0f, std::min(1.0f, x / 6 + 0.5f));
    case EpilogueOp::kSilu:
      return x / (1 + std::exp(-x));
    case EpilogueOp::kGeluErf:
      return 0.5f * x * (1 + std::erf(x * 0.70710678f));
    case EpilogueOp::kGeluTanh:
      return 0.5f * x * (1 + std::tanh(0.79788456f * (x + 0.044715f * x * x * x)));
  }
  return x;
}

}  // namespace tandem::kernels
