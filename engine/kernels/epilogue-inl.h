// Loads of epilogue operands as vectors, whole or in part. Include in the per-target part of a file
// that uses hwy/foreach_target.h.
#if defined(TANDEM_KERNELS_EPILOGUE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_EPILOGUE_INL_H_
#undef TANDEM_KERNELS_EPILOGUE_INL_H_
#else
#define TANDEM_KERNELS_EPILOGUE_INL_H_
#endif

#include "engine/kernels/epilogue.h"
#include "engine/kernels/math-inl.h"
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

// The operand of `stage` for the elements of `row` from `column` on.
template <class Access>
HWY_INLINE FloatVec LoadOperand(const EpilogueStage& stage, const EpilogueOperand& operand,
                                int64_t row, int64_t column, Access access) {
  switch (stage.kind) {
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

}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#endif  // TANDEM_KERNELS_EPILOGUE_INL_H_
