#include <cmath>
#include <concepts>

#include "engine/kernels/elementwise/integer.h"
#include "engine/kernels/elementwise/unary.h"

namespace tandem::kernels {
namespace {

// Operators: f(x, params) for one element.

struct Abs {
  template <typename T>
  static T F(T x, const RowParams&) {
    if constexpr (std::floating_point<T>) return std::fabs(x);
    if constexpr (std::unsigned_integral<T>) return x;
    if constexpr (std::signed_integral<T>) return x < 0 ? WrapNeg(x) : x;
  }
};

struct Neg {
  template <typename T>
  static T F(T x, const RowParams&) {
    if constexpr (std::floating_point<T>) {
      return -x;
    } else {
      return WrapNeg(x);
    }
  }
};

struct Sign {
  template <typename T>
  static T F(T x, const RowParams&) {
    if (x > 0) return 1;
    if constexpr (!std::unsigned_integral<T>) {
      if (x < 0) return static_cast<T>(-1);
    }
    return x;  // zero keeps its sign, NaN stays
  }
};

struct Relu {
  template <typename T>
  static T F(T x, const RowParams&) {
    return x < 0 ? 0 : x;
  }
};

struct BitwiseNot {
  template <typename T>
  static T F(T x, const RowParams&) {
    return static_cast<T>(~x);
  }
};

struct Not {
  static bool F(bool x, const RowParams&) { return !x; }
};

#define TANDEM_FLOATING_OP(Name, expression)   \
  struct Name {                                \
    template <std::floating_point T>           \
    static T F(T x, const RowParams& params) { \
      (void)params;                            \
      return expression;                       \
    }                                          \
  }

// The attributes, in the element's type.
#define ALPHA static_cast<T>(params.alpha)
#define BETA static_cast<T>(params.beta)

template <typename T>
T SigmoidOf(T x) {
  // exp of a value <= 0 on both sides: no overflow, and the small tail keeps its relative
  // precision.
  const T e = std::exp(-std::fabs(x));
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

template <typename T>
T SoftplusOf(T x) {
  return std::isnan(x) ? x : std::fmax(x, T{0}) + std::log1p(std::exp(-std::fabs(x)));
}

template <typename T>
T Clamp01(T x) {
  return x < 0 ? 0 : (x > 1 ? 1 : x);
}

// 1 + erf(x / sqrt(2)) without cancellation for x < 0.
template <typename T>
T GeluErfOf(T x) {
  constexpr T kSqrtHalf = static_cast<T>(0.70710678118654752440);
  const T scaled = x * kSqrtHalf;
  return T{0.5} * x * (x < 0 ? std::erfc(-scaled) : 1 + std::erf(scaled));
}

// 0.5 * (1 + tanh(u)) = sigmoid(2 u), which does not cancel for u < 0.
template <typename T>
T GeluTanhOf(T x) {
  constexpr T kSqrtTwoOverPi = static_cast<T>(0.79788456080286535588);
  const T inner = kSqrtTwoOverPi * (x + static_cast<T>(0.044715) * x * x * x);
  return x * SigmoidOf(2 * inner);
}

TANDEM_FLOATING_OP(Ceil, std::ceil(x));
TANDEM_FLOATING_OP(Floor, std::floor(x));
TANDEM_FLOATING_OP(Round, std::nearbyint(x));
TANDEM_FLOATING_OP(Sqrt, std::sqrt(x));
TANDEM_FLOATING_OP(Reciprocal, 1 / x);
TANDEM_FLOATING_OP(Exp, std::exp(x));
TANDEM_FLOATING_OP(Log, std::log(x));
TANDEM_FLOATING_OP(Erf, std::erf(x));
TANDEM_FLOATING_OP(Sin, std::sin(x));
TANDEM_FLOATING_OP(Cos, std::cos(x));
TANDEM_FLOATING_OP(Tan, std::tan(x));
TANDEM_FLOATING_OP(Asin, std::asin(x));
TANDEM_FLOATING_OP(Acos, std::acos(x));
TANDEM_FLOATING_OP(Atan, std::atan(x));
TANDEM_FLOATING_OP(Sinh, std::sinh(x));
TANDEM_FLOATING_OP(Cosh, std::cosh(x));
TANDEM_FLOATING_OP(Tanh, std::tanh(x));
TANDEM_FLOATING_OP(Asinh, std::asinh(x));
TANDEM_FLOATING_OP(Acosh, std::acosh(x));
TANDEM_FLOATING_OP(Atanh, std::atanh(x));
TANDEM_FLOATING_OP(Sigmoid, SigmoidOf(x));
TANDEM_FLOATING_OP(Softplus, SoftplusOf(x));
TANDEM_FLOATING_OP(Softsign, std::isinf(x) ? std::copysign(T{1}, x) : x / (1 + std::fabs(x)));
TANDEM_FLOATING_OP(Elu, x < 0 ? ALPHA * std::expm1(x) : x);
TANDEM_FLOATING_OP(Selu, BETA*(x <= 0 ? ALPHA * std::expm1(x) : x));
TANDEM_FLOATING_OP(Celu, x < 0 ? ALPHA * std::expm1(x / ALPHA) : x);
TANDEM_FLOATING_OP(LeakyRelu, x < 0 ? ALPHA * x : x);
TANDEM_FLOATING_OP(ThresholdedRelu, x <= ALPHA ? 0 : x);
TANDEM_FLOATING_OP(HardSigmoid, Clamp01(ALPHA* x + BETA));
TANDEM_FLOATING_OP(HardSwish, x* Clamp01(x / 6 + T{0.5}));
TANDEM_FLOATING_OP(Mish, x* std::tanh(SoftplusOf(x)));
TANDEM_FLOATING_OP(GeluErf, GeluErfOf(x));
TANDEM_FLOATING_OP(GeluTanh, GeluTanhOf(x));
TANDEM_FLOATING_OP(Silu, x* SigmoidOf(ALPHA* x));

struct Shrink {
  template <typename T>
  static T F(T x, const RowParams& params) {
    if constexpr (std::floating_point<T>) {
      return x < -ALPHA ? x + BETA : (x > ALPHA ? x - BETA : (std::isnan(x) ? x : 0));
    } else {
      const auto wide = static_cast<double>(x);
      if (wide < -params.alpha) return SaturateTo<T>(wide + params.beta);
      if (wide > params.alpha) return SaturateTo<T>(wide - params.beta);
      return 0;
    }
  }
};

#undef ALPHA
#undef BETA
#undef TANDEM_FLOATING_OP

struct IsNan {
  template <std::floating_point T>
  static bool F(T x, const RowParams&) {
    return std::isnan(x);
  }
};

struct IsInf {
  template <std::floating_point T>
  static bool F(T x, const RowParams& params) {
    return std::isinf(x) && (x > 0 ? params.alpha : params.beta) != 0;
  }
};

template <typename Op, typename T, typename Out>
void Row(const RowArgs& args, const RowParams& params) {
  const T* x = static_cast<const T*>(args.operands[0]);
  Out* y = static_cast<Out*>(args.output);
  for (int64_t i = 0; i < args.n; ++i) y[i] = Op::F(x[i * args.steps[0]], params);
}

// kBool marks predicates, whose output is bool.
template <typename Op, bool kBool = false>
RowFunction Floating(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return Row<Op, float, std::conditional_t<kBool, bool, float>>;
    case DType::kDouble:
      return Row<Op, double, std::conditional_t<kBool, bool, double>>;
    case DType::kFloat16:
      if constexpr (kBool) return ThroughFloat<Row<Op, float, bool>, Float16, bool>;
      return ThroughFloat<Row<Op, float, float>, Float16>;
    case DType::kBfloat16:
      if constexpr (kBool) return ThroughFloat<Row<Op, float, bool>, Bfloat16, bool>;
      return ThroughFloat<Row<Op, float, float>, Bfloat16>;
    default:
      return nullptr;
  }
}

template <typename Op>
RowFunction Integers(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return Row<Op, int8_t, int8_t>;
    case DType::kInt16:
      return Row<Op, int16_t, int16_t>;
    case DType::kInt32:
      return Row<Op, int32_t, int32_t>;
    case DType::kInt64:
      return Row<Op, int64_t, int64_t>;
    case DType::kUint8:
      return Row<Op, uint8_t, uint8_t>;
    case DType::kUint16:
      return Row<Op, uint16_t, uint16_t>;
    case DType::kUint32:
      return Row<Op, uint32_t, uint32_t>;
    case DType::kUint64:
      return Row<Op, uint64_t, uint64_t>;
    default:
      return nullptr;
  }
}

template <typename Op>
RowFunction Numbers(DType dtype) {
  const RowFunction row = Floating<Op>(dtype);
  return row != nullptr ? row : Integers<Op>(dtype);
}

}  // namespace

#define TANDEM_CASE(Kind, Name) \
  case UnaryOp::k##Name:        \
    return Kind<Name>(dtype)

RowFunction FindUnaryReference(UnaryOp op, DType dtype) {
  switch (op) {
    TANDEM_CASE(Numbers, Abs);
    TANDEM_CASE(Numbers, Neg);
    TANDEM_CASE(Numbers, Sign);
    TANDEM_CASE(Numbers, Relu);
    TANDEM_CASE(Numbers, Shrink);
    TANDEM_CASE(Integers, BitwiseNot);
    TANDEM_CASE(Floating, Ceil);
    TANDEM_CASE(Floating, Floor);
    TANDEM_CASE(Floating, Round);
    TANDEM_CASE(Floating, Sqrt);
    TANDEM_CASE(Floating, Reciprocal);
    TANDEM_CASE(Floating, Exp);
    TANDEM_CASE(Floating, Log);
    TANDEM_CASE(Floating, Erf);
    TANDEM_CASE(Floating, Sin);
    TANDEM_CASE(Floating, Cos);
    TANDEM_CASE(Floating, Tan);
    TANDEM_CASE(Floating, Asin);
    TANDEM_CASE(Floating, Acos);
    TANDEM_CASE(Floating, Atan);
    TANDEM_CASE(Floating, Sinh);
    TANDEM_CASE(Floating, Cosh);
    TANDEM_CASE(Floating, Tanh);
    TANDEM_CASE(Floating, Asinh);
    TANDEM_CASE(Floating, Acosh);
    TANDEM_CASE(Floating, Atanh);
    TANDEM_CASE(Floating, Sigmoid);
    TANDEM_CASE(Floating, Softplus);
    TANDEM_CASE(Floating, Softsign);
    TANDEM_CASE(Floating, Elu);
    TANDEM_CASE(Floating, Selu);
    TANDEM_CASE(Floating, Celu);
    TANDEM_CASE(Floating, LeakyRelu);
    TANDEM_CASE(Floating, ThresholdedRelu);
    TANDEM_CASE(Floating, HardSigmoid);
    TANDEM_CASE(Floating, HardSwish);
    TANDEM_CASE(Floating, Mish);
    TANDEM_CASE(Floating, GeluErf);
    TANDEM_CASE(Floating, GeluTanh);
    TANDEM_CASE(Floating, Silu);
    case UnaryOp::kNot:
      return dtype == DType::kBool ? Row<Not, bool, bool> : nullptr;
    case UnaryOp::kIsNan:
      return Floating<IsNan, true>(dtype);
    case UnaryOp::kIsInf:
      return Floating<IsInf, true>(dtype);
  }
  return nullptr;
}

#undef TANDEM_CASE

RowFunction FindUnary(UnaryOp op, DType dtype, Isa isa) {
  if (isa != Isa::kReference) {
    const RowFunction row = FindUnarySimd(op, dtype, isa);
    if (row != nullptr) return row;
  }
  return FindUnaryReference(op, dtype);
}

}  // namespace tandem::kernels
