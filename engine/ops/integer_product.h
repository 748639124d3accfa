// What the operators share that multiply 8-bit integers: QLinearConv, ConvInteger, QLinearMatMul
// and MatMulInteger.
#pragma once

#include <functional>

#include "engine/kernels/quant/integer.h"
#include "engine/ops/operator.h"

namespace tandem::ops {

inline bool IsByte(DType dtype) { return dtype == DType::kInt8 || dtype == DType::kUint8; }

// Where the inputs of an operator are; -1 where it has none.
struct IntegerPorts {
  int x = 0;
  int w = 1;
  int x_zero = 2;
  int w_zero = 3;
  int x_scale = -1;
  int w_scale = -1;
  int y_scale = -1;
  int y_zero = -1;
  int bias = -1;

  bool rounds_back() const { return y_scale >= 0; }
};
inline constexpr IntegerPorts kPlainPorts;
inline constexpr IntegerPorts kLinearPorts{0, 3, 2, 5, 1, 4, 6, 7, 8};

// The same without the optional ones that the node omits.
IntegerPorts PresentPorts(IntegerPorts ports, const BindContext& context);

// Weights that are constant, packed for x of one type.
using IntegerWeightsOf = std::function<kernels::IntegerWeights(const TensorView& weights)>;
PackSpec IntegerPackSpec(Isa isa, DType x, const kernels::ConvGeometry& geometry,
                         IntegerWeightsOf weights);

// A Clip of 8-bit integers behind a product that is rounded back, as its epilogue.
Decision TryFuseByteClip(const EpilogueRequest& request);

// What the result is kept within: all of the type, less what such a Clip cuts off.
struct ByteRange {
  int32_t low = 0;
  int32_t high = 0;
};
ByteRange ByteRangeOf(DType y, std::span<const graph::EpilogueStage> epilogue);

// The element of a view of int8 or uint8.
int32_t ByteAt(const TensorView& view, int64_t i);

}  // namespace tandem::ops
