// The sum of two quantised tensors, quantised, as a row kernel (row.h) of two operands:
//
//   y = min(max(round(((a - za) * sa + (b - zb) * sb) / sy) + zy, low), high), ties to even
//
// computed in float, each step rounded: the bits of dequantising, adding and quantising one after
// the other. Source: com.microsoft QLinearAdd.
#pragma once

#include "engine/base/cpu.h"
#include "engine/kernels/elementwise/row.h"

namespace tandem::kernels {

struct QuantisedSum {
  float a_scale = 1;
  float b_scale = 1;
  float y_scale = 1;
  int32_t a_zero = 0;
  int32_t b_zero = 0;
  int32_t y_zero = 0;
  int32_t low = 0;
  int32_t high = 0;
};

// Of int8 or uint8 operands and results.
using AddQuantised = void (*)(const QuantisedSum& sum, const RowArgs& args);
AddQuantised AddQuantisedFor(DType dtype, Isa isa);

}  // namespace tandem::kernels
