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

// Out of line, as the code of all stages is long.
template <class Vector>
HWY_NOINLINE Vector ApplyAnyStage(const EpilogueStage& stage, Vector x, Vector operand) {
  return ApplyStage(FloatTag(), stage, x, operand);
}

// Applies all stages to every sum of a block; operand(stage, kind, row, vector) loads the operand
// of a sum.
template <class ForSums, class Operand>
HWY_INLINE void ApplyStages(const Epilogue& epilogue, const ForSums& for_sums,
                            const Operand& operand) {
  for (size_t s = 0; s < epilogue.size(); ++s) {
    const EpilogueStage& stage = epilogue[s];
    const auto of_stage = [&](OperandKind kind, int r, int j)
                              TANDEM_INLINE_LAMBDA { return operand(s, kind, r, j); };
    if (ApplySimpleStage(stage, for_sums, of_stage)) continue;
    for_sums([&](int r, int j, FloatVec x) TANDEM_INLINE_LAMBDA {
      return ApplyAnyStage(stage, x, of_stage(stage.kind, r, j));
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#endif  // TANDEM_KERNELS_EPILOGUE_INL_H_
