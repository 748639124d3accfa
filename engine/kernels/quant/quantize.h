// Linear quantization, as row kernels (row.h) of three operands: the elements,
// their scales and their zero points.
//
//   quantize     y = saturate(round(x / scale) + zero point), ties to even
//   dequantize   y = (x - zero point) * scale
//
// Quantising divides in float, elements of int32 in double; NaN counts as 0.
// Dequantising computes in float and rounds once to a narrower output. Source:
// ONNX QuantizeLinear, DequantizeLinear.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/cpu.h"
#include "engine/kernels/elementwise/row.h"
#include "engine/tensor/dtype.h"

namespace tandem::kernels {

// x of float, float16, bfloat16 or int32; scales of float; zero points and y of
// an integer of 8 or 16 bits. Null for other types.
RowFunction FindQuantize(DType x, DType y);

// x and zero points of an integer of 8 or 16 bits or int32; scales of float; y
// of float, float16 or bfloat16. Null for other types.
RowFunction FindDequantize(DType x, DType y);

// The same bits for float against int8 and uint8, where x advances by one and scale and zero point
// stay. Null for other types and for kReference.
RowFunction FindQuantizeSimd(DType x, DType y, Isa isa);
RowFunction FindDequantizeSimd(DType x, DType y, Isa isa);

// `value` rounded, ties to even, and moved by the zero point, within the range
// of T.
template <typename T>
T Saturate(double value, T zero_point) {
  if (std::isnan(value)) return zero_point;
  const double moved = std::nearbyint(value) + static_cast<double>(zero_point);
  return static_cast<T>(std::clamp(moved, static_cast<double>(std::numeric_limits<T>::lowest()),
                                   static_cast<double>(std::numeric_limits<T>::max())));
}

}  // namespace tandem::kernels
