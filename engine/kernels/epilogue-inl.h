// Epilogues on vectors: loads of operands, whole or in part, and stages on blocks of sums. Include
// in the per-target part of a file that uses hwy/foreach_target.h.
#if defined(TANDEM_KERNELS_EPILOGUE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_EPILOGUE_INL_H_
#undef TANDEM_KERNELS_EPILOGUE_INL_H_
#else
#define TANDEM_KERNELS_EPILOGUE_INL_H_
#endif

#include "engine/kernels/epilogue.h"
#include "engine/kernels/math-inl.h"
#include "engine/kernels/simd.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;

// Access to whole vectors, or to the first `count` lanes.
struct Whole {
  HWY_INLINE FloatVec Load(const float* p) const { return hn::LoadU(FloatTag(), p); }
  HWY_INLINE void Store(FloatVec v, float* p) const { hn::StoreU(v, FloatTag(), p); }
};
struct First {
  int64_t count;
  HWY_INLINE FloatVec Load(const float* p) const {
    return hn::MaskedLoad(hn::FirstN(FloatTag(), static_cast<size_t>(count)), FloatTag(), p);
  }
  HWY_INLINE void Store(FloatVec v, float* p) const {
    hn::BlendedStore(v, hn::FirstN(FloatTag(), static_cast<size_t>(count)), FloatTag(), p);
  }
};

// The operand of a stage for the elements of `row` from `column` on.
template <class Access>
HWY_INLINE FloatVec LoadOperand(OperandKind kind, const EpilogueOperand& operand, int64_t row,
                                int64_t column, Access access) {
  switch (kind) {
    case OperandKind::kNone:
      break;
    case OperandKind::kScalar:
      return hn::Set(FloatTag(), operand.data[0]);
    case OperandKind::kColumn:
      return access.Load(operand.data + column);
    case OperandKind::kFull:
      return access.Load(operand.data + row * operand.row_stride + column);
  }
  return hn::Zero(FloatTag());
}

// Applies a stage to every sum of a block, if it is one of the frequent ones that take little code;
// false otherwise. `for_sums(function)` replaces each sum x by function(row, vector, x);
// operand(kind, row, vector) loads the operand of a sum.
template <class ForSums, class Operand>
HWY_INLINE bool ApplySimpleStage(const EpilogueStage& stage, const ForSums& for_sums,
                                 const Operand& operand) {
  const FloatTag d;
  switch (stage.op) {
    case EpilogueOp::kAdd: {
      const auto add = [&](OperandKind kind) TANDEM_INLINE_LAMBDA {
        for_sums([&](int r, int j, FloatVec x)
                     TANDEM_INLINE_LAMBDA { return hn::Add(x, operand(kind, r, j)); });
      };
      if (stage.kind == OperandKind::kColumn) {
        add(OperandKind::kColumn);
      } else if (stage.kind == OperandKind::kFull) {
        add(OperandKind::kFull);
      } else {
        add(OperandKind::kScalar);
      }
      return true;
    }
    case EpilogueOp::kRelu:
      for_sums([&](int, int, FloatVec x) TANDEM_INLINE_LAMBDA { return Relu(d, x); });
      return true;
    case EpilogueOp::kClip:
      for_sums([&](int, int, FloatVec x)
                   TANDEM_INLINE_LAMBDA { return Clip(d, x, stage.alpha, stage.beta); });
      return true;
    case EpilogueOp::kHardSwish:
      for_sums([&](int, int, FloatVec x) TANDEM_INLINE_LAMBDA { return HardSwish(d, x); });
      return true;
    default:
      return false;
  }
}

// The stage kOp on `count` vectors from `x` on; a stage with an operand has as many `operands`.
template <EpilogueOp kOp>
void ApplyStageInMemory(EpilogueStage stage, const float* operands, int count, float* x) {
  const FloatTag d;
  stage.op = kOp;  // of the code for all stages, that of this one is left
  constexpr int64_t kStep = HWY_LANES(float);
  for (int i = 0; i < count; ++i, x += kStep) {
    FloatVec operand = hn::Zero(d);
    if constexpr (kOp <= kLastBinaryOp) operand = hn::Load(d, operands + i * kStep);
    hn::Store(ApplyStage(d, stage, hn::Load(d, x), operand), d, x);
  }
}

// The same of the stage's own operation.
inline HWY_NOINLINE void ApplyStageInMemory(const EpilogueStage& stage, const float* operands,
                                            int count, float* x) {
  switch (stage.op) {
    case EpilogueOp::kSub:
      return ApplyStageInMemory<EpilogueOp::kSub>(stage, operands, count, x);
    case EpilogueOp::kReverseSub:
      return ApplyStageInMemory<EpilogueOp::kReverseSub>(stage, operands, count, x);
    case EpilogueOp::kMul:
      return ApplyStageInMemory<EpilogueOp::kMul>(stage, operands, count, x);
    case EpilogueOp::kPRelu:
      return ApplyStageInMemory<EpilogueOp::kPRelu>(stage, operands, count, x);
    case EpilogueOp::kLeakyRelu:
      return ApplyStageInMemory<EpilogueOp::kLeakyRelu>(stage, operands, count, x);
    case EpilogueOp::kSigmoid:
      return ApplyStageInMemory<EpilogueOp::kSigmoid>(stage, operands, count, x);
    case EpilogueOp::kTanh:
      return ApplyStageInMemory<EpilogueOp::kTanh>(stage, operands, count, x);
    case EpilogueOp::kHardSigmoid:
      return ApplyStageInMemory<EpilogueOp::kHardSigmoid>(stage, operands, count, x);
    case EpilogueOp::kSilu:
      return ApplyStageInMemory<EpilogueOp::kSilu>(stage, operands, count, x);
    case EpilogueOp::kGeluErf:
      return ApplyStageInMemory<EpilogueOp::kGeluErf>(stage, operands, count, x);
    case EpilogueOp::kGeluTanh:
      return ApplyStageInMemory<EpilogueOp::kGeluTanh>(stage, operands, count, x);
    case EpilogueOp::kMish:
      return ApplyStageInMemory<EpilogueOp::kMish>(stage, operands, count, x);
    case EpilogueOp::kAdd:
      return ApplyStageInMemory<EpilogueOp::kAdd>(stage, operands, count, x);
    case EpilogueOp::kRelu:
      return ApplyStageInMemory<EpilogueOp::kRelu>(stage, operands, count, x);
    case EpilogueOp::kClip:
      return ApplyStageInMemory<EpilogueOp::kClip>(stage, operands, count, x);
    case EpilogueOp::kHardSwish:
      return ApplyStageInMemory<EpilogueOp::kHardSwish>(stage, operands, count, x);
  }
}

// Applies all stages to every sum of a block, of which there are kSums at the most;
// operand(stage, kind, row, vector) loads the operand of a sum. Stages that take many registers
// are applied in memory, one after the other.
template <int kSums, class ForSums, class Operand>
HWY_INLINE void ApplyStages(const Epilogue& epilogue, const ForSums& for_sums,
                            const Operand& operand) {
  const FloatTag d;
  constexpr int64_t kStep = HWY_LANES(float);
  for (size_t s = 0; s < epilogue.size(); ++s) {
    const EpilogueStage& stage = epilogue[s];
    const auto of_stage = [&](OperandKind kind, int r, int j)
                              TANDEM_INLINE_LAMBDA { return operand(s, kind, r, j); };
    if (ApplySimpleStage(stage, for_sums, of_stage)) continue;
    HWY_ALIGN float block[kSums * kStep];
    HWY_ALIGN float operands[kSums * kStep];
    int count = 0;
    for_sums([&](int r, int j, FloatVec x) TANDEM_INLINE_LAMBDA {
      hn::Store(x, d, block + count * kStep);
      if (stage.kind != OperandKind::kNone) {
        hn::Store(of_stage(stage.kind, r, j), d, operands + count * kStep);
      }
      ++count;
      return x;
    });
    ApplyStageInMemory(stage, operands, count, block);
    count = 0;
    for_sums([&](int, int, FloatVec)
                 TANDEM_INLINE_LAMBDA { return hn::Load(d, block + count++ * kStep); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#endif  // TANDEM_KERNELS_EPILOGUE_INL_H_
