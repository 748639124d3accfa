// Transposed convolution in float32 over channels-last activations (ONNX ConvTranspose): every
// input pixel adds its filter to the output,
//   y[n, i * stride - pad + t * dilation, m] += sum over channels c of x[n, i, c] * w[c, m, t]
//
// In the ConvGeometry here, an axis' `in` is the extent of x and `out` that of y. Output positions
// that have the same remainder by the strides are one convolution of stride 1 with some of the
// taps; it runs on the kernels of conv.h and depthwise.h, and its order of summation is theirs,
// over falling taps. Where no two taps meet and few channels would leave vectors empty, it is one
// product instead (disjoint.h). Functions cannot fail and never allocate.
#pragma once

#include "engine/kernels/conv/conv.h"

namespace tandem::kernels {

// Packed weights depend on channels, groups, kernels, strides and dilations only.
int64_t PackedConvTransposeFloats(Arithmetic arithmetic, const ConvGeometry& geometry);
// `weights` in ONNX's layout [in_channels, out_per_group, taps].
void PackConvTransposeWeights(Arithmetic arithmetic, const ConvGeometry& geometry,
                              const float* weights, float* packed);

void ConvTranspose(Arithmetic arithmetic, const ConvGeometry& geometry, const float* packed,
                   const ConvData& data, const Parallel& parallel);

// The same in plain loops, on weights in ONNX's layout.
void ConvTransposeReference(const ConvGeometry& geometry, const float* weights,
                            const ConvData& data);
// The plain sums in double, without epilogue.
void ConvTransposeReference(const ConvGeometry& geometry, const double* weights, const double* x,
                            double* y);

}  // namespace tandem::kernels
