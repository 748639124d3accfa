// Binary, comparing, selecting and variadic kernels, all as row kernels (row.h): broadcasting is
// the caller's.
//
// Integers wrap as two's complement and never pass through floating point. x / 0, x mod 0 and 0 to
// a negative power are 0; the smallest value / -1 is the smallest value. A shift by the width or
// more gives 0. 16-bit floating types compute in float32 and round to nearest even. Max and Min
// give NaN when an operand is NaN.
#pragma once

#include "engine/base/cpu.h"
#include "engine/kernels/elementwise/row.h"

namespace tandem::kernels {

enum class BinaryOp : uint8_t {
  // Floating types and integers.
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMax,
  kMin,
  kMod,    // the divisor's sign; integers only
  kFmod,   // the dividend's sign
  kPRelu,  // a < 0 ? b * a : a
  // Integers.
  kBitwiseAnd,
  kBitwiseOr,
  kBitwiseXor,
  kShiftLeft,   // unsigned integers
  kShiftRight,  // unsigned integers
  // bool.
  kAnd,
  kOr,
  kXor,
  // Floating types and integers to bool; kEqual also bool and string.
  kEqual,
  kGreater,
  kLess,
  kGreaterOrEqual,
  kLessOrEqual,
};

// y = a op b. The kernel for operands of `dtype`, or null when the operator has none.
RowFunction FindBinary(BinaryOp op, DType dtype, Isa isa);
RowFunction FindBinaryReference(BinaryOp op, DType dtype);
RowFunction FindBinarySimd(BinaryOp op, DType dtype, Isa isa);

// y = a to the power b, of a's type; a of float, double, float16, bfloat16, int32 or int64, b of
// any floating type or integer. Integers to integers are exact (wrapping), to a negative power they
// are the truncated quotient: 0 but for the bases 1 and -1.
RowFunction FindPow(DType base, DType exponent, Isa isa);

// y = operand 0 (bool) ? operand 1 : operand 2, of any type of 1, 2, 4 or 8 bytes and strings.
RowFunction FindWhere(DType dtype);

// y = min(max(x, operand 1), operand 2): floating types and integers. NaN stays; a NaN bound is no
// bound; with crossed bounds the upper one wins.
RowFunction FindClip(DType dtype, Isa isa);
RowFunction FindClipSimd(DType dtype, Isa isa);

enum class VariadicOp : uint8_t { kMax, kMin, kSum, kMean };

// y = the operands' maximum, minimum, sum or mean: any number of operands >= 1, combined in their
// order. Max and Min take floating types and integers, Sum and Mean floating types.
RowFunction FindVariadic(VariadicOp op, DType dtype, Isa isa);

}  // namespace tandem::kernels
