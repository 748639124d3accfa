// Products of 8-bit integers with one channel a group (integer.h), on vectors of channels: pairs of
// taps widened to 16 bits, multiplied and added in int32, which is exact.
#pragma once

#include "engine/kernels/quant/integer.h"

namespace tandem::kernels {

bool HasIntegerDepthwise(Isa isa, const ConvGeometry& geometry);

// Packed weights are rows of channels, one for each tap.
size_t PackedIntegerDepthwiseBytes(Isa isa, const ConvGeometry& geometry);
void PackIntegerDepthwise(Isa isa, const ConvGeometry& geometry, const IntegerWeights& weights,
                          std::byte* packed);

size_t IntegerDepthwiseScratchBytes(Isa isa, const ConvGeometry& geometry);
void IntegerDepthwise(Isa isa, const ConvGeometry& geometry, const IntegerConvMemory& memory,
                      const IntegerConvData& data, const Parallel& parallel);

}  // namespace tandem::kernels
