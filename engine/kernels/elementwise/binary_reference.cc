#include <cmath>
#include <concepts>
#include <string>

#include "engine/kernels/elementwise/binary.h"
#include "engine/kernels/elementwise/integer.h"

namespace tandem::kernels {
namespace {

// name(a, b): `floating` for floating types, `integer` for integers.
#define TANDEM_OP(Name, floating, integer)    \
  struct Name {                               \
    template <typename T>                     \
    static T F(T a, T b) {                    \
      if constexpr (std::floating_point<T>) { \
        return static_cast<T>(floating);      \
      } else {                                \
        return static_cast<T>(integer);       \
      }                                       \
    }                                         \
  }

TANDEM_OP(Add, a + b, WrapAdd(a, b));
TANDEM_OP(Sub, a - b, WrapSub(a, b));
TANDEM_OP(Mul, a* b, WrapMul(a, b));
TANDEM_OP(Div, a / b, SafeDiv(a, b));
TANDEM_OP(Fmod, std::fmod(a, b), SafeRem(a, b));
TANDEM_OP(PRelu, a < 0 ? b * a : a, a < 0 ? WrapMul(b, a) : a);
// The sum of two numbers of which one is NaN is NaN.
TANDEM_OP(Max, a > b ? a : (b >= a ? b : a + b), a > b ? a : b);
TANDEM_OP(Min, a < b ? a : (b <= a ? b : a + b), a < b ? a : b);

#undef TANDEM_OP

#define TANDEM_INTEGER_OP(Name, expression) \
  struct Name {                             \
    template <std::integral T>              \
    static T F(T a, T b) {                  \
      return static_cast<T>(expression);    \
    }                                       \
  }

TANDEM_INTEGER_OP(Mod, SafeMod(a, b));
TANDEM_INTEGER_OP(BitwiseAnd, a& b);
TANDEM_INTEGER_OP(BitwiseOr, a | b);
TANDEM_INTEGER_OP(BitwiseXor, a ^ b);
TANDEM_INTEGER_OP(ShiftLeft, b < sizeof(T) * 8 ? static_cast<uint64_t>(a) << b : 0);
TANDEM_INTEGER_OP(ShiftRight, b < sizeof(T) * 8 ? static_cast<uint64_t>(a) >> b : 0);

#undef TANDEM_INTEGER_OP

#define TANDEM_COMPARE_OP(Name, sign)       \
  struct Name {                             \
    template <typename T>                   \
    static bool F(const T& a, const T& b) { \
      return a sign b;                      \
    }                                       \
  }

TANDEM_COMPARE_OP(Equal, ==);
TANDEM_COMPARE_OP(Greater, >);
TANDEM_COMPARE_OP(Less, <);
TANDEM_COMPARE_OP(GreaterOrEqual, >=);
TANDEM_COMPARE_OP(LessOrEqual, <=);

#undef TANDEM_COMPARE_OP

template <typename Op, typename T, typename Out = T>
void Row(const RowArgs& args, const RowParams&) {
  const T* a = static_cast<const T*>(args.operands[0]);
  const T* b = static_cast<const T*>(args.operands[1]);
  Out* y = static_cast<Out*>(args.output);
  const int64_t a_step = args.steps[0];
  const int64_t b_step = args.steps[1];
  if (a_step == 1 && b_step == 1) {
    for (int64_t i = 0; i < args.n; ++i) y[i] = Op::F(a[i], b[i]);
    return;
  }
  for (int64_t i = 0; i < args.n; ++i) y[i] = Op::F(a[i * a_step], b[i * b_step]);
}

template <typename Op>
RowFunction Floating(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return Row<Op, float>;
    case DType::kDouble:
      return Row<Op, double>;
    case DType::kFloat16:
      return ThroughFloat<Row<Op, float>, Float16>;
    case DType::kBfloat16:
      return ThroughFloat<Row<Op, float>, Bfloat16>;
    default:
      return nullptr;
  }
}

template <typename Op>
RowFunction Unsigned(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
      return Row<Op, uint8_t>;
    case DType::kUint16:
      return Row<Op, uint16_t>;
    case DType::kUint32:
      return Row<Op, uint32_t>;
    case DType::kUint64:
      return Row<Op, uint64_t>;
    default:
      return nullptr;
  }
}

template <typename Op>
RowFunction Integers(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return Row<Op, int8_t>;
    case DType::kInt16:
      return Row<Op, int16_t>;
    case DType::kInt32:
      return Row<Op, int32_t>;
    case DType::kInt64:
      return Row<Op, int64_t>;
    default:
      return Unsigned<Op>(dtype);
  }
}

template <typename Op>
RowFunction Numbers(DType dtype) {
  const RowFunction row = Floating<Op>(dtype);
  return row != nullptr ? row : Integers<Op>(dtype);
}

template <typename Op>
RowFunction Bools(DType dtype) {
  return dtype == DType::kBool ? Row<Op, bool> : nullptr;
}

template <typename Op>
RowFunction Comparing(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return Row<Op, float, bool>;
    case DType::kDouble:
      return Row<Op, double, bool>;
    case DType::kFloat16:
      return ThroughFloat<Row<Op, float, bool>, Float16, bool>;
    case DType::kBfloat16:
      return ThroughFloat<Row<Op, float, bool>, Bfloat16, bool>;
    case DType::kInt8:
      return Row<Op, int8_t, bool>;
    case DType::kInt16:
      return Row<Op, int16_t, bool>;
    case DType::kInt32:
      return Row<Op, int32_t, bool>;
    case DType::kInt64:
      return Row<Op, int64_t, bool>;
    case DType::kUint8:
      return Row<Op, uint8_t, bool>;
    case DType::kUint16:
      return Row<Op, uint16_t, bool>;
    case DType::kUint32:
      return Row<Op, uint32_t, bool>;
    case DType::kUint64:
      return Row<Op, uint64_t, bool>;
    default:
      return nullptr;
  }
}

RowFunction Equality(DType dtype) {
  if (dtype == DType::kBool) return Row<Equal, bool, bool>;
  if (dtype == DType::kString) return Row<Equal, std::string, bool>;
  return Comparing<Equal>(dtype);
}

}  // namespace

#define TANDEM_CASE(Kind, Name) \
  case BinaryOp::k##Name:       \
    return Kind<Name>(dtype)

RowFunction FindBinaryReference(BinaryOp op, DType dtype) {
  switch (op) {
    TANDEM_CASE(Numbers, Add);
    TANDEM_CASE(Numbers, Sub);
    TANDEM_CASE(Numbers, Mul);
    TANDEM_CASE(Numbers, Div);
    TANDEM_CASE(Numbers, Max);
    TANDEM_CASE(Numbers, Min);
    TANDEM_CASE(Numbers, Fmod);
    TANDEM_CASE(Numbers, PRelu);
    TANDEM_CASE(Integers, Mod);
    TANDEM_CASE(Integers, BitwiseAnd);
    TANDEM_CASE(Integers, BitwiseOr);
    TANDEM_CASE(Integers, BitwiseXor);
    TANDEM_CASE(Unsigned, ShiftLeft);
    TANDEM_CASE(Unsigned, ShiftRight);
    TANDEM_CASE(Comparing, Greater);
    TANDEM_CASE(Comparing, Less);
    TANDEM_CASE(Comparing, GreaterOrEqual);
    TANDEM_CASE(Comparing, LessOrEqual);
    case BinaryOp::kAnd:
      return Bools<BitwiseAnd>(dtype);
    case BinaryOp::kOr:
      return Bools<BitwiseOr>(dtype);
    case BinaryOp::kXor:
      return Bools<BitwiseXor>(dtype);
    case BinaryOp::kEqual:
      return Equality(dtype);
  }
  return nullptr;
}

#undef TANDEM_CASE

RowFunction FindBinary(BinaryOp op, DType dtype, Isa isa) {
  if (isa != Isa::kReference) {
    const RowFunction row = FindBinarySimd(op, dtype, isa);
    if (row != nullptr) return row;
  }
  return FindBinaryReference(op, dtype);
}

}  // namespace tandem::kernels
