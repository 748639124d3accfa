// A depthwise convolution between pointwise ones (1x1, stride 1, one group), in float32 on
// channels-last activations:
//   u[q, c] = epilogue(sum over b of x[q, b] * v[b, c])  the expansion; without it, u is x
//   z[p, c] = epilogue(depthwise convolution of u)
//   y[p, m] = epilogue(sum over c of z[p, c] * w[c, m])  the projection; without it, y is z
// Strips of z, and the rows of u that the windows of a strip reach, are in scratch memory and never
// there as a whole. Both pointwise convolutions are an inverted bottleneck
// (Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018, section 3.3, and
// 5 on memory).
//
// Every element has the bits that the convolutions give one after the other. Functions cannot fail
// and never allocate. The level is not kReference.
#pragma once

#include <optional>

#include "engine/kernels/depthwise/depthwise.h"
#include "engine/kernels/gemm/gemm.h"

namespace tandem::kernels {

struct PointwiseProduct {
  GemmProblem problem;
  const float* packed = nullptr;
};

struct DepthwiseStrips {
  ConvGeometry depthwise;         // HasShortGroups; a y without gaps
  const float* packed = nullptr;  // weights of the depthwise convolution
  // Of the depthwise convolution: its x is not read with an expansion, its y is not written with a
  // projection.
  ConvData data;
  std::optional<PointwiseProduct>
      expansion;  // k, A of all pixels and the epilogue; two axes of images
  std::optional<PointwiseProduct> projection;  // n, C of all pixels and the epilogue
};

// Floats of scratch for as many threads.
int64_t DepthwiseStripsScratchFloats(Arithmetic arithmetic, const DepthwiseStrips& strips,
                                     int threads);
void ConvDepthwiseStrips(Arithmetic arithmetic, const DepthwiseStrips& strips, float* scratch,
                         const Parallel& parallel);

}  // namespace tandem::kernels
