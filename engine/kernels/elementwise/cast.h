// Conversions between element types, as row kernels (row.h) of one operand.
//
//   floating to integer   truncates; beyond the range gives the nearest bound, NaN gives 0
//   integer to integer    keeps the low bits
//   to floating           rounds to nearest even; beyond the range gives infinity
//   to bool               false for zero (of either sign), true for everything else
//   bool to number        0 and 1
//
// Source: ONNX Cast; where it leaves a case open, the line above says what happens.
#pragma once

#include "engine/kernels/elementwise/row.h"

namespace tandem::kernels {

// The kernel from elements of `from` to elements of `to`, or null: floating types, integers and
// bool have one.
RowFunction FindCast(DType from, DType to);

}  // namespace tandem::kernels
