// Convolution in float32 as an indirect matrix product over channels-last activations (ONNX Conv):
//   y[n, o, m] = epilogue(sum over taps t and channels c of x[n, o * stride - pad + t * dilation,
//   c]
//                         * w[m, c, t])
// with zeros where the window lies in the padding. Any kernel, stride, dilation, pads and group;
// one to three spatial axes.
//
// Every element is summed over taps and, within a tap, channels in rising order, whatever the
// batch, the tile or the number of threads. Functions cannot fail, never allocate and may run from
// several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/cpu.h"
#include "engine/base/parallel.h"
#include "engine/kernels/epilogue.h"
#include "engine/kernels/window.h"

namespace tandem::kernels {

inline constexpr int kConvAxes = 3;

struct ConvGeometry {
  int64_t batch = 1;
  int64_t in_channels = 1;   // of all groups
  int64_t out_channels = 1;  // of all groups; both are multiples of group
  int64_t group = 1;
  WindowAxes axes;  // kConvAxes of them; see PadAxes

  int64_t in_per_group() const { return in_channels / group; }
  int64_t out_per_group() const { return out_channels / group; }
  int64_t taps() const;
  int64_t in_pixels() const;   // of one item
  int64_t out_pixels() const;  // of one item
};

// `axes` with axes of extent 1 put before them, so that there are kConvAxes.
WindowAxes PadAxes(WindowAxes axes);

// Activations and epilogue. The rows of the epilogue are the pixels of y over all items, its
// columns the output channels.
struct ConvData {
  const float* x = nullptr;      // [batch, pixels in, in_channels]
  float* y = nullptr;            // [batch, pixels out, out_channels]; overlaps nothing that is read
  const float* zeros = nullptr;  // in_per_group zeros; not needed by the reference
  const Epilogue* epilogue = nullptr;
  const EpilogueOperand* operands = nullptr;
};

// Floats of packed weights: for each group the packed B of gemm.h with k = taps * in_per_group.
int64_t PackedConvFloats(Isa isa, const ConvGeometry& geometry);
// Packs weights in ONNX's layout [out_channels, in_per_group, taps].
void PackConvWeights(Isa isa, const ConvGeometry& geometry, const float* weights, float* packed);

void Conv(Isa isa, const ConvGeometry& geometry, const float* packed, const ConvData& data,
          const Parallel& parallel);

// The same in plain loops, on weights in ONNX's layout.
void ConvReference(const ConvGeometry& geometry, const float* weights, const ConvData& data);
// The plain sums in double, without epilogue.
void ConvReference(const ConvGeometry& geometry, const double* weights, const double* x, double* y);

}  // namespace tandem::kernels
