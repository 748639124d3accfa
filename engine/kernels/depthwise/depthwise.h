// Depthwise convolution in float32: one filter for each channel (ONNX Conv with group = input
// channels = output channels), over channels-last activations, vectorised over channels.
//
// Every element is summed over its taps in rising order, those in the padding left out, whatever
// the batch or the number of threads. Functions cannot fail and never allocate.
#pragma once

#include "engine/kernels/conv/conv.h"

namespace tandem::kernels {

bool IsDepthwise(const ConvGeometry& geometry);

// Packed weights: [taps, channels], as many floats as the weights in ONNX's layout [channels, 1,
// taps].
void PackDepthwiseWeights(const ConvGeometry& geometry, const float* weights, float* packed);

// `isa` is not kReference; ConvReference is the reference. data.zeros is not read.
void Depthwise(Isa isa, const ConvGeometry& geometry, const float* packed, const ConvData& data,
               const Parallel& parallel);

}  // namespace tandem::kernels
