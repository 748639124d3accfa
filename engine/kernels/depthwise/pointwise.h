// A depthwise convolution and the pointwise one (1x1, stride 1, one group) that reads it, in
// float32 on channels-last activations:
//   y[p, m] = epilogue(sum over c of z[p, c] * w[c, m]),  z = depthwise convolution of x
// Strips of z are made in scratch memory that stays in a cache, and never go to memory as a whole.
//
// Every element has the bits that the two convolutions give one after the other. Functions cannot
// fail and never allocate. The level is not
// kReference.
#pragma once

#include "engine/kernels/depthwise/depthwise.h"
#include "engine/kernels/gemm/gemm.h"

namespace tandem::kernels {

struct DepthwisePointwise {
  ConvGeometry depthwise;  // HasShortGroups; a y without gaps
  const float* depthwise_packed = nullptr;
  ConvData data;  // of the depthwise convolution; its y is not written
  // Of the pointwise convolution: n, C, c_row_stride and the epilogue.
  GemmProblem product;
  const float* product_packed = nullptr;
};

// Floats of scratch for as many threads.
int64_t DepthwisePointwiseScratchFloats(Arithmetic arithmetic, const DepthwisePointwise& pair,
                                        int threads);
void ConvDepthwisePointwise(Arithmetic arithmetic, const DepthwisePointwise& pair, float* scratch,
                            const Parallel& parallel);

}  // namespace tandem::kernels
