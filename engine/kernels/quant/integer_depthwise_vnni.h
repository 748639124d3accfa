// Depthwise products of uint8 with int8 weights without zero points, to bytes, on AVX-512 VNNI:
// four rows of taps lie side by side in the bytes of a lane, and columns of the input are brought
// to that form once for all windows that they are in.
#pragma once

#include "engine/kernels/quant/integer.h"

namespace tandem::kernels {

// Whether weights are packed for it; `geometry` may be that of the weights alone.
bool HasDotDepthwise(Isa isa, const ConvGeometry& geometry);
size_t PackedDotDepthwiseBytes(const ConvGeometry& geometry);
void PackDotDepthwise(const ConvGeometry& geometry, const IntegerWeights& weights,
                      std::byte* packed);

// Whether a convolution with weights packed so can be run so.
bool CanRunDotDepthwise(const ConvGeometry& geometry, const IntegerConvData& data);
size_t DotDepthwiseScratchBytes(const ConvGeometry& geometry);
void DotDepthwise(const ConvGeometry& geometry, const IntegerConvMemory& memory,
                  const IntegerConvData& data, const Parallel& parallel);

}  // namespace tandem::kernels
