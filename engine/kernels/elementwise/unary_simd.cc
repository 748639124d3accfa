#include "engine/kernels/elementwise/unary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/elementwise/unary_simd.cc"
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

// Applies Op::F to whole vectors; the rest goes through a padded buffer, so that every element sees
// the same instructions.
template <class Op>
void VectorRow(const RowArgs& args, const RowParams& params) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* HWY_RESTRICT x = static_cast<const float*>(args.operands[0]);
  float* y = static_cast<float*>(args.output);
  if (args.steps[0] == 0) {
    const float value = hn::GetLane(Op::F(d, hn::Set(d, x[0]), params));
    std::fill(y, y + args.n, value);
    return;
  }
  int64_t i = 0;
  for (; i + lanes <= args.n; i += lanes) {
    hn::StoreU(Op::F(d, hn::LoadU(d, x + i), params), d, y + i);
  }
  if (i == args.n) return;
  HWY_ALIGN float rest[HWY_MAX_BYTES / sizeof(float)] = {};
  std::copy(x + i, x + args.n, rest);
  hn::Store(Op::F(d, hn::Load(d, rest), params), d, rest);
  std::copy(rest, rest + (args.n - i), y + i);
}

#define TANDEM_VECTOR_OP(Name, expression)                \
  struct Name##Op {                                       \
    static HWY_INLINE V F(D d, V x, const RowParams& p) { \
      (void)d;                                            \
      (void)p;                                            \
      return expression;                                  \
    }                                                     \
  }

HWY_INLINE V SignOf(D d, V x) {
  const V zero = hn::Zero(d);
  const V one = hn::Set(d, 1.0f);
  return hn::IfThenElse(hn::Gt(x, zero), one, hn::IfThenElse(hn::Lt(x, zero), hn::Neg(one), x));
}

HWY_INLINE V SoftsignOf(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V y = hn::Div(x, hn::Add(one, hn::Abs(x)));
  const auto infinite = hn::Eq(hn::Abs(x), hn::Set(d, std::numeric_limits<float>::infinity()));
  return hn::IfThenElse(infinite, hn::CopySign(one, x), y);
}

HWY_INLINE V ThresholdedOf(D d, V x, float alpha) {
  return hn::IfThenElse(hn::Le(x, hn::Set(d, alpha)), hn::Zero(d), x);
}

TANDEM_VECTOR_OP(Abs, hn::Abs(x));
TANDEM_VECTOR_OP(Neg, hn::Neg(x));
TANDEM_VECTOR_OP(Sign, SignOf(d, x));
TANDEM_VECTOR_OP(Relu, Relu(d, x));
// The portable target drops the sign of a zero.
TANDEM_VECTOR_OP(Ceil, hn::CopySign(hn::Ceil(x), x));
TANDEM_VECTOR_OP(Floor, hn::CopySign(hn::Floor(x), x));
TANDEM_VECTOR_OP(Round, hn::CopySign(hn::Round(x), x));
TANDEM_VECTOR_OP(Sqrt, hn::Sqrt(x));
TANDEM_VECTOR_OP(Reciprocal, hn::Div(hn::Set(d, 1.0f), x));
TANDEM_VECTOR_OP(Exp, Exp(d, x));
TANDEM_VECTOR_OP(Erf, Erf(d, x));
TANDEM_VECTOR_OP(Tanh, Tanh(d, x));
TANDEM_VECTOR_OP(Sigmoid, Sigmoid(d, x));
TANDEM_VECTOR_OP(Softsign, SoftsignOf(d, x));
TANDEM_VECTOR_OP(LeakyRelu, LeakyRelu(d, x, p.alpha));
TANDEM_VECTOR_OP(ThresholdedRelu, ThresholdedOf(d, x, p.alpha));
TANDEM_VECTOR_OP(HardSigmoid, HardSigmoid(d, x, p.alpha, p.beta));
TANDEM_VECTOR_OP(HardSwish, HardSwish(d, x));
TANDEM_VECTOR_OP(Mish, Mish(d, x));
TANDEM_VECTOR_OP(GeluErf, GeluErf(d, x));
TANDEM_VECTOR_OP(GeluTanh, GeluTanh(d, x));
// With alpha = 1 the bits of Silu.
TANDEM_VECTOR_OP(Silu, hn::Mul(x, Sigmoid(d, hn::Mul(hn::Set(d, p.alpha), x))));

#undef TANDEM_VECTOR_OP

template <class Op>
RowFunction For(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return VectorRow<Op>;
    case DType::kFloat16:
      return ThroughFloat<VectorRow<Op>, Float16>;
    case DType::kBfloat16:
      return ThroughFloat<VectorRow<Op>, Bfloat16>;
    default:
      return nullptr;
  }
}

#define TANDEM_CASE(Name) \
  case UnaryOp::k##Name:  \
    return For<Name##Op>(dtype)

RowFunction Find(UnaryOp op, DType dtype) {
  switch (op) {
    TANDEM_CASE(Abs);
    TANDEM_CASE(Neg);
    TANDEM_CASE(Sign);
    TANDEM_CASE(Relu);
    TANDEM_CASE(Ceil);
    TANDEM_CASE(Floor);
    TANDEM_CASE(Round);
    TANDEM_CASE(Sqrt);
    TANDEM_CASE(Reciprocal);
    TANDEM_CASE(Exp);
    TANDEM_CASE(Erf);
    TANDEM_CASE(Tanh);
    TANDEM_CASE(Sigmoid);
    TANDEM_CASE(Softsign);
    TANDEM_CASE(LeakyRelu);
    TANDEM_CASE(ThresholdedRelu);
    TANDEM_CASE(HardSigmoid);
    TANDEM_CASE(HardSwish);
    TANDEM_CASE(Mish);
    TANDEM_CASE(GeluErf);
    TANDEM_CASE(GeluTanh);
    TANDEM_CASE(Silu);
    default:
      return nullptr;
  }
}

#undef TANDEM_CASE

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels {
HWY_EXPORT(Find);

RowFunction FindUnarySimd(UnaryOp op, DType dtype, Isa isa) {
  return TANDEM_DISPATCH(isa, Find)(op, dtype);
}

}  // namespace tandem::kernels
#endif  // HWY_ONCE
