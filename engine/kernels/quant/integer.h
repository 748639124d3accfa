// Products of 8-bit integers in int32, exact up to its wrap-around:
//
//   IntegerGemm  y[m, n] = sum over k of (a[m, k] - a zero point) * (b[k, n] -
//   b zero point) IntegerConv  y[n, m, o] = sum over channels c and taps t of
//   (x[n, c, o * stride - pad + t *
//                dilation] - x zero point) * (w[m, c, t] - w zero point),
//                nothing for the padding
//
// and their way back to 8 bits. Plain loops; functions cannot fail and never
// allocate. Source: ONNX MatMulInteger, ConvInteger, QLinearMatMul,
// QLinearConv.
#pragma once

#include <cstdint>

#include "engine/base/parallel.h"
#include "engine/kernels/conv/conv.h"
#include "engine/tensor/dtype.h"

namespace tandem::kernels {

// int8 or uint8 elements and their zero points; a step of 0 is one zero point
// for all, 1 one for each row of A, column of B or filter of W. Null zero
// points are 0.
struct QuantizedOperand {
  DType dtype = DType::kInt8;
  const void* data = nullptr;
  const void* zero_points = nullptr;
  int64_t zero_point_step = 0;
};

// Dense row-major matrices.
struct IntegerGemmShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
};
void IntegerGemm(const IntegerGemmShape& shape, const QuantizedOperand& a,
                 const QuantizedOperand& b, int32_t* y, const Parallel& parallel);

// x, w and y in ONNX's layouts; x has one zero point.
void IntegerConv(const ConvGeometry& geometry, const QuantizedOperand& x, const QuantizedOperand& w,
                 int32_t* y, const Parallel& parallel);

// y = saturate(round((sum + bias) * multiplier) + zero point) for a row of n
// sums, ties to even; the product in float. Steps of 0 repeat one element; a
// null bias is 0.
struct RequantizeRow {
  const int32_t* sums = nullptr;
  const int32_t* bias = nullptr;
  int64_t bias_step = 0;
  const float* multipliers = nullptr;
  int64_t multiplier_step = 0;
  int64_t n = 0;
};
// `zero_point` has one element of the type of y: int8 or uint8.
void Requantize(const RequantizeRow& row, const void* zero_point, DType dtype, void* y);

}  // namespace tandem::kernels
