// Transposed convolutions whose filters lie side by side in the output: with a stride of the
// kernel's extent, as they double the extents of images. One product makes the outputs of all taps
// of an input pixel, where a convolution for each tap would leave most of its columns empty.
#pragma once

#include "engine/kernels/conv/conv.h"

namespace tandem::kernels {

// `geometry` as in transposed.h; looks at the weights only: their group, kernel, stride, dilation
// and channels. False where convolutions for each tap are at least as fast.
bool HasDisjointFilters(Arithmetic arithmetic, const ConvGeometry& geometry);

// Packed B of gemm.h: a column for each tap and output channel.
int64_t PackedDisjointFloats(Arithmetic arithmetic, const ConvGeometry& geometry);
// `weights` as in transposed.h.
void PackDisjoint(Arithmetic arithmetic, const ConvGeometry& geometry, const float* weights,
                  float* packed);

// Outputs that no tap meets are the epilogue of 0. Every element has the bits that the convolution
// for its tap gives where both have the same kernel.
void ConvDisjoint(Arithmetic arithmetic, const ConvGeometry& geometry, const float* packed,
                  const ConvData& data, const Parallel& parallel);

}  // namespace tandem::kernels
