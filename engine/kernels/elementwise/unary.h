// Unary kernels: y[i] = f(x[i]).
//
// Integers wrap as two's complement (Abs and Neg of the smallest value give it back). 16-bit
// floating types compute in float32 and round to nearest even. NaN in gives NaN out, of Relu and
// Sign too. Where an ONNX formula overflows on the way (Softplus, Mish, Gelu), it is evaluated in a
// form that does not. Source: ONNX operator pages of the same names.
#pragma once

#include "engine/base/cpu.h"
#include "engine/kernels/elementwise/row.h"

namespace tandem::kernels {

enum class UnaryOp : uint8_t {
  // Floating types and integers.
  kAbs,
  kNeg,
  kSign,
  kRelu,
  // Integers and bool.
  kBitwiseNot,
  kNot,
  // Floating types.
  kCeil,
  kFloor,
  kRound,  // half to even
  kSqrt,
  kReciprocal,
  kExp,
  kLog,
  kErf,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kTanh,
  kAsinh,
  kAcosh,
  kAtanh,
  kSigmoid,
  kSoftplus,         // log(1 + exp(x))
  kSoftsign,         // x / (1 + |x|)
  kElu,              // x < 0 ? alpha * (exp(x) - 1) : x
  kSelu,             // beta * Elu(x); beta is the attribute gamma
  kCelu,             // max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
  kLeakyRelu,        // x < 0 ? alpha * x : x
  kThresholdedRelu,  // x > alpha ? x : 0
  kHardSigmoid,      // max(0, min(1, alpha * x + beta))
  kHardSwish,        // x * max(0, min(1, x / 6 + 0.5))
  kMish,             // x * tanh(softplus(x))
  kGeluErf,
  kGeluTanh,
  kSilu,    // x * sigmoid(alpha * x)
  kShrink,  // x < -alpha ? x + beta : x > alpha ? x - beta : 0; every number
  // Floating types to bool.
  kIsNan,
  kIsInf,  // alpha != 0: +Inf counts; beta != 0: -Inf counts
};

// The kernel for elements of `dtype`, or null when the operator has none. Any `isa` gives a kernel;
// Isa::kReference the scalar one.
RowFunction FindUnary(UnaryOp op, DType dtype, Isa isa);

// Scalar versions in the arithmetic of the standard library.
RowFunction FindUnaryReference(UnaryOp op, DType dtype);

// Highway versions of what they cover: floating types of 16 and 32 bits; else null.
RowFunction FindUnarySimd(UnaryOp op, DType dtype, Isa isa);

}  // namespace tandem::kernels
