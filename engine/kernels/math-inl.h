// Vector versions of the float functions that kernels share: a fused epilogue and the element-wise
// kernel call the same code here, so both give the same bits.
//
// For every D of float lanes. Errors are at most 2 units in the last place over the whole range
// unless a function says otherwise; NaN gives NaN; results stay inside the exact function's range.
// Include in the per-target part of a file that uses hwy/foreach_target.h.
#if defined(TANDEM_KERNELS_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_MATH_INL_H_
#undef TANDEM_KERNELS_MATH_INL_H_
#else
#define TANDEM_KERNELS_MATH_INL_H_
#endif

#include "engine/kernels/epilogue.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Whole numbers, as floats and as integers.
template <class D>
struct WholeNumber {
  hn::Vec<D> n;
  hn::Vec<hn::RebindToSigned<D>> integer;
};

// x times factor, rounded, where that is below 2^22. Floats of the size of `shift` have no
// fraction, so adding it rounds, and their bits count.
template <class D, class V = hn::Vec<D>>
HWY_INLINE WholeNumber<D> RoundOfProduct(D d, V x, V factor) {
  const hn::RebindToSigned<D> di;
  const V shift = hn::Set(d, 12582912.0f);
  const V sum = hn::MulAdd(x, factor, shift);
  return {hn::Sub(sum, shift), hn::Sub(hn::BitCast(di, sum), hn::BitCast(di, shift))};
}

// p 2^n for p in [0.5, 2) and n in [-152, 129].
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Scale(D d, V p, WholeNumber<D> whole) {
#if HWY_TARGET == HWY_AVX3
  (void)d;
  return V{_mm512_scalef_ps(p.raw, whole.n.raw)};
#else
  // In two factors, as n reaches 129 and -152: half of n is added to the exponent of p.
  const hn::RebindToSigned<D> di;
  const auto half = hn::ShiftRight<1>(whole.integer);
  const V scaled = hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(half)));
  const auto rest = hn::Add(hn::Sub(whole.integer, half), hn::Set(di, 127));
  return hn::Mul(scaled, hn::BitCast(d, hn::ShiftLeft<23>(rest)));
#endif
}

// e^x for x in [-105, 89].
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpInRange(D d, V x) {
  // e^x = 2^n e^r, |r| <= ln(2) / 2; ln(2) in two parts keeps r exact.
  const WholeNumber<D> whole = RoundOfProduct(d, x, hn::Set(d, 1.44269504f));
  const V high = hn::NegMulAdd(whole.n, hn::Set(d, 0.693359375f), x);
  const V r = hn::NegMulAdd(whole.n, hn::Set(d, -2.12194440e-4f), high);
  V p = hn::Set(d, 0.00139517116f);
  p = hn::MulAdd(p, r, hn::Set(d, 0.00836959947f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.0416661873f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.166665122f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  return Scale(d, p, whole);
}

// e^x. Overflows to infinity above 88.72, passes through the subnormals and is 0 below -103.97.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  const auto number = hn::Eq(x, x);
  const V c =
      hn::Min(hn::Max(hn::IfThenElseZero(number, x), hn::Set(d, -105.0f)), hn::Set(d, 89.0f));
  return hn::IfThenElse(number, ExpInRange(d, c), x);
}

// tanh(x); |tanh| <= 1, odd.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V t = hn::Abs(x);
  const V z = hn::Mul(x, x);
  V p = hn::Set(d, -0.00571703957f);
  p = hn::MulAdd(p, z, hn::Set(d, 0.0206505824f));
  p = hn::MulAdd(p, z, hn::Set(d, -0.0537434965f));
  p = hn::MulAdd(p, z, hn::Set(d, 0.133314908f));
  p = hn::MulAdd(p, z, hn::Set(d, -0.333332837f));
  const V small = hn::MulAdd(hn::Mul(p, z), x, x);
  const V e = Exp(d, hn::Add(t, t));
  const V large = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one)));
  return hn::IfThenElse(hn::Lt(t, hn::Set(d, 0.625f)), small, hn::CopySign(large, x));
}

// 1 / x within 1 unit, for x in [1, 2].
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Reciprocal(D d, V x) {
#if HWY_TARGET == HWY_AVX3
  // 14 bits, which one step of Newton's doubles: a division takes as long as ten multiplications.
  const V r = hn::ApproximateReciprocal(x);
  return hn::MulAdd(r, hn::NegMulAdd(r, x, hn::Set(d, 1.0f)), r);
#else
  return hn::Div(hn::Set(d, 1.0f), x);
#endif
}

// 1 / (1 + e^-x) for numbers x, within 3 units; between 0 and 1, accurate for negative x, too. NaN
// gives anything.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SigmoidOfNumber(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V negative = hn::Or(x, hn::SignBit(d));
  const V e = ExpInRange(d, hn::Max(negative, hn::Set(d, -105.0f)));
  const V numerator = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one);
  return hn::Mul(numerator, Reciprocal(d, hn::Add(one, e)));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  return hn::IfThenElse(hn::Eq(x, x), SigmoidOfNumber(d, x), x);
}

// The error function; |erf| <= 1, odd.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Erf(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V t = hn::Abs(x);
  const V z = hn::Mul(x, x);
  V q = hn::Set(d, 7.88912294e-05f);
  q = hn::MulAdd(q, z, hn::Set(d, -0.000802084222f));
  q = hn::MulAdd(q, z, hn::Set(d, 0.00518953567f));
  q = hn::MulAdd(q, z, hn::Set(d, -0.0268544443f));
  q = hn::MulAdd(q, z, hn::Set(d, 0.112836003f));
  q = hn::MulAdd(q, z, hn::Set(d, -0.37612626f));
  q = hn::MulAdd(q, z, hn::Set(d, 0.128379166f));
  const V small = hn::MulAdd(q, x, x);
  // For 1 <= t <= 4: erf(t) = 1 - e^p(t - 1), p close to log(erfc); beyond 4 it rounds to 1.
  const V s = hn::Sub(hn::IfThenElse(hn::Gt(t, hn::Set(d, 4.0f)), hn::Set(d, 4.0f), t), one);
  V p = hn::Set(d, -2.16975277e-05f);
  p = hn::MulAdd(p, s, hn::Set(d, 0.000289588905f));
  p = hn::MulAdd(p, s, hn::Set(d, -0.00201209774f));
  p = hn::MulAdd(p, s, hn::Set(d, 0.0100465883f));
  p = hn::MulAdd(p, s, hn::Set(d, -0.0415635519f));
  p = hn::MulAdd(p, s, hn::Set(d, -0.843107045f));
  p = hn::MulAdd(p, s, hn::Set(d, -2.63896751f));
  p = hn::MulAdd(p, s, hn::Set(d, -1.84960556f));
  const V large = hn::CopySign(hn::Sub(one, Exp(d, p)), x);
  return hn::IfThenElse(hn::Lt(t, one), small, large);
}

// x < low ? low : x, keeping a NaN x.
template <class V>
HWY_INLINE V AtLeast(V x, V low) {
  return hn::IfThenElse(hn::Lt(x, low), low, x);
}
// x > high ? high : x, keeping a NaN x.
template <class V>
HWY_INLINE V AtMost(V x, V high) {
  return hn::IfThenElse(hn::Gt(x, high), high, x);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Relu(D d, V x) {
  return AtLeast(x, hn::Zero(d));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Clip(D d, V x, float low, float high) {
  return AtMost(AtLeast(x, hn::Set(d, low)), hn::Set(d, high));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V LeakyRelu(D d, V x, float alpha) {
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(hn::Set(d, alpha), x), x);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V HardSigmoid(D d, V x, float alpha, float beta) {
  return Clip(d, hn::MulAdd(hn::Set(d, alpha), x, hn::Set(d, beta)), 0.0f, 1.0f);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V HardSwish(D d, V x) {
  return hn::Mul(x, HardSigmoid(d, x, 1.0f / 6, 0.5f));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Silu(D d, V x) {
  return hn::Mul(x, SigmoidOfNumber(d, x));
}
// The two forms of Gelu err relative to |x|, as 1 + erf and 1 + tanh cancel for negative x.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluErf(D d, V x) {
  const V cdf = hn::Add(hn::Set(d, 1.0f), Erf(d, hn::Mul(x, hn::Set(d, 0.70710678f))));
  return hn::Mul(hn::Mul(hn::Set(d, 0.5f), x), cdf);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluTanh(D d, V x) {
  const V cubic = hn::MulAdd(hn::Mul(hn::Mul(hn::Set(d, 0.044715f), x), x), x, x);
  const V cdf = hn::Add(hn::Set(d, 1.0f), Tanh(d, hn::Mul(hn::Set(d, 0.79788456f), cubic)));
  return hn::Mul(hn::Mul(hn::Set(d, 0.5f), x), cdf);
}

// tanh(log(1 + e)) = n / (n + 2) with e = e^x and n = e (e + 2), which is 1 from x = 20 on.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Mish(D d, V x) {
  const V two = hn::Set(d, 2.0f);
  const V e = Exp(d, AtMost(x, hn::Set(d, 20.0f)));
  const V n = hn::Mul(e, hn::Add(e, two));
  return hn::Mul(x, hn::Div(n, hn::Add(n, two)));
}

// One stage on a vector: the vector form of kernels::ApplyStage. `operand` counts only for stages
// that have one.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ApplyStage(D d, const EpilogueStage& stage, V x, V operand) {
  switch (stage.op) {
    case EpilogueOp::kAdd:
      return hn::Add(x, operand);
    case EpilogueOp::kSub:
      return hn::Sub(x, operand);
    case EpilogueOp::kReverseSub:
      return hn::Sub(operand, x);
    case EpilogueOp::kMul:
      return hn::Mul(x, operand);
    case EpilogueOp::kPRelu:
      return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(operand, x), x);
    case EpilogueOp::kRelu:
      return Relu(d, x);
    case EpilogueOp::kClip:
      return Clip(d, x, stage.alpha, stage.beta);
    case EpilogueOp::kLeakyRelu:
      return LeakyRelu(d, x, stage.alpha);
    case EpilogueOp::kSigmoid:
      return Sigmoid(d, x);
    case EpilogueOp::kTanh:
      return Tanh(d, x);
    case EpilogueOp::kHardSigmoid:
      return HardSigmoid(d, x, stage.alpha, stage.beta);
    case EpilogueOp::kHardSwish:
      return HardSwish(d, x);
    case EpilogueOp::kSilu:
      return Silu(d, x);
    case EpilogueOp::kGeluErf:
      return GeluErf(d, x);
    case EpilogueOp::kGeluTanh:
      return GeluTanh(d, x);
    case EpilogueOp::kMish:
      return Mish(d, x);
  }
  return x;
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#endif  // TANDEM_KERNELS_MATH_INL_H_
