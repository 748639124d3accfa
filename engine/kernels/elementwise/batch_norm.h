// Batch normalization at inference: y = (x - mean) * factor + shift with mean, factor and shift per
// channel, as a row kernel of four operands (row.h): x, mean, factor, shift. The three are of the
// type that is computed with: float for elements of 16 and 32 bits, else double. Every version
// gives the same bits. Source: ONNX BatchNormalization.
#pragma once

#include "engine/base/cpu.h"
#include "engine/kernels/elementwise/row.h"

namespace tandem::kernels {

// The kernel for elements of `dtype`, or null: floating types have one.
RowFunction FindBatchNorm(DType dtype, Isa isa);
RowFunction FindBatchNormSimd(Isa isa);  // float32

}  // namespace tandem::kernels
