#include "engine/kernels/epilogue.h"

#include <algorithm>
#include <cmath>

namespace tandem::kernels {
namespace {

// min(max(x, low), high), keeping a NaN x; the upper bound wins where low > high.
float Clip(float x, float low, float high) {
  const float raised = x < low ? low : x;
  return raised > high ? high : raised;
}

}  // namespace

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
    case EpilogueOp::kPRelu:
      return x < 0 ? o * x : x;
    case EpilogueOp::kRelu:
      return x < 0 ? 0 : x;
    case EpilogueOp::kClip:
      return Clip(x, stage.alpha, stage.beta);
    case EpilogueOp::kLeakyRelu:
      return x < 0 ? stage.alpha * x : x;
    case EpilogueOp::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case EpilogueOp::kTanh:
      return std::tanh(x);
    case EpilogueOp::kHardSigmoid:
      return Clip(stage.alpha * x + stage.beta, 0, 1);
    case EpilogueOp::kHardSwish:
      return x * Clip(x / 6 + 0.5f, 0, 1);
    case EpilogueOp::kSilu:
      return x / (1 + std::exp(-x));
    case EpilogueOp::kGeluErf:
      return 0.5f * x * (1 + std::erf(x * 0.70710678f));
    case EpilogueOp::kGeluTanh:
      return 0.5f * x * (1 + std::tanh(0.79788456f * (x + 0.044715f * x * x * x)));
    case EpilogueOp::kMish:
      return x * std::tanh(std::max(x, 0.0f) + std::log1p(std::exp(-std::abs(x))));
  }
  return x;
}

}  // namespace tandem::kernels
