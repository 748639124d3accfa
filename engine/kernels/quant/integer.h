// Products of 8-bit integers in int32, exact up to its wrap-around, as an indirect matrix product
// over channels-last activations:
//
//   s[n, o, m] = sum over taps t and channels c of (x[n, o * stride - pad + t * dilation, c] - x
//   zero
//                point) * (w[m, c, t] - w zero point), nothing for the padding
//   y = s, or y = saturate(round((s + bias) * multiplier) + zero point), ties to even
//
// Any kernel, stride, dilation, pads and group; one to three spatial axes. A product of matrices is
// the convolution of items of one pixel. Functions cannot fail, never allocate and may run from
// several threads at once. Source: ONNX MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/cpu.h"
#include "engine/base/parallel.h"
#include "engine/kernels/conv/conv.h"
#include "engine/tensor/dtype.h"

namespace tandem::kernels {

// int8 or uint8 elements and their zero points; a step of 0 is one zero point for all, 1 one for
// each item of x or filter of w. Null zero points are 0.
struct QuantizedOperand {
  DType dtype = DType::kInt8;
  const void* data = nullptr;
  const void* zero_points = nullptr;
  int64_t zero_point_step = 0;
};
int32_t ZeroPointOf(const QuantizedOperand& operand, int64_t i);

// Multipliers behind the last one that may be read.
inline constexpr int64_t kMultiplierSlack = 64;

// What becomes of the sums of filter m.
struct IntegerResult {
  void* y = nullptr;            // [batch, pixels out, out_channels]; overlaps nothing that is read
  DType dtype = DType::kInt32;  // int8 and uint8 are scaled and rounded, int32 are the sums
  const int32_t* bias = nullptr;  // one for each filter; null: none
  // One for each filter, and kMultiplierSlack more; not for int32.
  const float* multipliers = nullptr;
  int32_t zero_point = 0;
  int32_t low = 0;  // y is kept within [low, high], which the type has
  int32_t high = 0;
};

struct IntegerConvData {
  // [batch, pixels in, in_channels]. Its zero points differ only where there is one tap and no
  // padding.
  QuantizedOperand x;
  // Of packed weights, dtype and zero points alone are read.
  QuantizedOperand w;
  IntegerResult result;
};

// The geometry of the product of [m, k] and [k, n].
ConvGeometry ProductGeometry(int64_t m, int64_t n, int64_t k);

// Weights as they come: filter m, counted over all groups, its input c and tap t, the taps in one
// row, lie at data[m * out + c * in + t * tap].
struct IntegerWeights {
  DType dtype = DType::kInt8;
  const void* data = nullptr;
  int64_t out = 0;
  int64_t in = 0;
  int64_t tap = 0;
};
// Weights in ONNX's layout [out_channels, in_per_group, taps].
IntegerWeights NativeIntegerWeights(const ConvGeometry& geometry, DType dtype, const void* data);
// A dense row-major matrix [k, n].
IntegerWeights MatrixWeights(DType dtype, const void* data, int64_t n);

// The format of packed weights for an x of one type, for people and as a key; it depends on nothing
// else but the weights' shape and dtype.
const char* IntegerFormat(Isa isa, const ConvGeometry& geometry);
size_t PackedIntegerBytes(Isa isa, const ConvGeometry& geometry);
void PackIntegerWeights(Isa isa, DType x, const ConvGeometry& geometry,
                        const IntegerWeights& weights, std::byte* packed);

// `packed` was made for the same isa, geometry of weights and types; `scratch` has so many bytes,
// aligned to kBufferAlignment.
size_t IntegerConvScratchBytes(Isa isa, const ConvGeometry& geometry);
struct IntegerConvMemory {
  const std::byte* packed = nullptr;
  std::byte* scratch = nullptr;
};
void IntegerConv(Isa isa, const ConvGeometry& geometry, const IntegerConvMemory& memory,
                 const IntegerConvData& data, const Parallel& parallel);

// The same in plain loops, on weights in ONNX's layout.
void IntegerConvReference(const ConvGeometry& geometry, const IntegerConvData& data,
                          const Parallel& parallel);

// y = min(max(round(sum * multiplier) + zero point, low), high) for a row of n sums, ties to even;
// the product in float. y is int8 or uint8.
struct RequantizeRow {
  const int32_t* sums = nullptr;
  const float* multipliers = nullptr;
  int64_t n = 0;
  int32_t zero_point = 0;
  int32_t low = 0;
  int32_t high = 0;
};
void Requantize(const RequantizeRow& row, DType dtype, void* y);

}  // namespace tandem::kernels
