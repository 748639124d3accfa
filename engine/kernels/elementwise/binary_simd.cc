#include "engine/kernels/elementwise/binary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/elementwise/binary_simd.cc"
// First of all.
#include "hwy/foreach_target.h"
// After it.
#include "engine/kernels/math-inl.h"
#include "engine/kernels/simd.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Reads an operand that advances, or one element for all lanes. Next() takes whole vectors, Rest()
// the last n < lanes elements.
class Source {
 public:
  Source(D d, const void* data, int64_t step)
      : data_(static_cast<const float*>(data)), step_(step) {
    (void)d;
  }
  HWY_INLINE V At(D d, int64_t i) const {
    return step_ == 0 ? hn::Set(d, data_[0]) : hn::LoadU(d, data_ + i);
  }
  HWY_INLINE V Rest(D d, int64_t i, int64_t n) const {
    HWY_ALIGN float buffer[HWY_MAX_BYTES / sizeof(float)] = {};
    for (int64_t k = 0; k < n; ++k) buffer[k] = data_[(i + k) * step_];
    return hn::Load(d, buffer);
  }

 private:
  const float* data_;
  int64_t step_;
};

HWY_INLINE void StoreRest(D d, V y, float* output, int64_t n) {
  HWY_ALIGN float buffer[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(y, d, buffer);
  std::copy(buffer, buffer + n, output);
}

template <class Op, class A, class B>
HWY_INLINE void Loop(const RowArgs& args, const A& load_a, const B& load_b) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float* y = static_cast<float*>(args.output);
  int64_t i = 0;
  for (; i + lanes <= args.n; i += lanes) hn::StoreU(Op::F(d, load_a(i), load_b(i)), d, y + i);
  if (i == args.n) return;
  const int64_t n = args.n - i;
  const V a = Source(d, args.operands[0], args.steps[0]).Rest(d, i, n);
  const V b = Source(d, args.operands[1], args.steps[1]).Rest(d, i, n);
  StoreRest(d, Op::F(d, a, b), y + i, n);
}

template <class Op>
void VectorRow(const RowArgs& args, const RowParams&) {
  const D d;
  const float* a = static_cast<const float*>(args.operands[0]);
  const float* b = static_cast<const float*>(args.operands[1]);
  const auto next_a = [&](int64_t i) HWY_ATTR { return hn::LoadU(d, a + i); };
  const auto next_b = [&](int64_t i) HWY_ATTR { return hn::LoadU(d, b + i); };
  const V first_a = hn::Set(d, a[0]);
  const V first_b = hn::Set(d, b[0]);
  const auto same_a = [&](int64_t) HWY_ATTR { return first_a; };
  const auto same_b = [&](int64_t) HWY_ATTR { return first_b; };
  if (args.steps[0] == 1 && args.steps[1] == 1) {
    Loop<Op>(args, next_a, next_b);
  } else if (args.steps[0] == 1) {
    Loop<Op>(args, next_a, same_b);
  } else if (args.steps[1] == 1) {
    Loop<Op>(args, same_a, next_b);
  } else {
    Loop<Op>(args, same_a, same_b);
  }
}

void ClipVectorRow(const RowArgs& args, const RowParams&) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Source x(d, args.operands[0], args.steps[0]);
  const Source low(d, args.operands[1], args.steps[1]);
  const Source high(d, args.operands[2], args.steps[2]);
  float* y = static_cast<float*>(args.output);
  int64_t i = 0;
  for (; i + lanes <= args.n; i += lanes) {
    hn::StoreU(AtMost(AtLeast(x.At(d, i), low.At(d, i)), high.At(d, i)), d, y + i);
  }
  if (i == args.n) return;
  const int64_t n = args.n - i;
  StoreRest(d, AtMost(AtLeast(x.Rest(d, i, n), low.Rest(d, i, n)), high.Rest(d, i, n)), y + i, n);
}

#define TANDEM_VECTOR_OP(Name, expression) \
  struct Name {                            \
    static HWY_INLINE V F(D d, V a, V b) { \
      (void)d;                             \
      return expression;                   \
    }                                      \
  }

TANDEM_VECTOR_OP(AddOp, hn::Add(a, b));
TANDEM_VECTOR_OP(SubOp, hn::Sub(a, b));
TANDEM_VECTOR_OP(MulOp, hn::Mul(a, b));
TANDEM_VECTOR_OP(DivOp, hn::Div(a, b));
// a > b ? a : b >= a ? b : a + b: the last is NaN.
TANDEM_VECTOR_OP(MaxOp,
                 hn::IfThenElse(hn::Gt(a, b), a, hn::IfThenElse(hn::Ge(b, a), b, hn::Add(a, b))));
TANDEM_VECTOR_OP(MinOp,
                 hn::IfThenElse(hn::Lt(a, b), a, hn::IfThenElse(hn::Le(b, a), b, hn::Add(a, b))));
TANDEM_VECTOR_OP(PReluOp, hn::IfThenElse(hn::Lt(a, hn::Zero(d)), hn::Mul(b, a), a));

#undef TANDEM_VECTOR_OP

template <RowFunction Row>
RowFunction For(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return Row;
    case DType::kFloat16:
      return ThroughFloat<Row, Float16>;
    case DType::kBfloat16:
      return ThroughFloat<Row, Bfloat16>;
    default:
      return nullptr;
  }
}

RowFunction FindPair(BinaryOp op, DType dtype) {
  switch (op) {
    case BinaryOp::kAdd:
      return For<VectorRow<AddOp>>(dtype);
    case BinaryOp::kSub:
      return For<VectorRow<SubOp>>(dtype);
    case BinaryOp::kMul:
      return For<VectorRow<MulOp>>(dtype);
    case BinaryOp::kDiv:
      return For<VectorRow<DivOp>>(dtype);
    case BinaryOp::kMax:
      return For<VectorRow<MaxOp>>(dtype);
    case BinaryOp::kMin:
      return For<VectorRow<MinOp>>(dtype);
    case BinaryOp::kPRelu:
      return For<VectorRow<PReluOp>>(dtype);
    default:
      return nullptr;
  }
}

RowFunction FindClipRow(DType dtype) { return For<ClipVectorRow>(dtype); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels {
HWY_EXPORT(FindPair);
HWY_EXPORT(FindClipRow);

RowFunction FindBinarySimd(BinaryOp op, DType dtype, Isa isa) {
  return TANDEM_DISPATCH(isa, FindPair)(op, dtype);
}

RowFunction FindClipSimd(DType dtype, Isa isa) { return TANDEM_DISPATCH(isa, FindClipRow)(dtype); }

}  // namespace tandem::kernels
#endif  // HWY_ONCE
