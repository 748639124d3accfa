// Convolution in float32 as an indirect matrix product over channels-last activations (ONNX Conv):
//   y[n, o, m] = epilogue(sum over taps t and channels c of x[n, o * stride - pad + t * dilation,
//   c]
//                         * w[m, c, t])
// with zeros where the window lies in the padding. Any kernel, stride, dilation, pads and group;
// one to three spatial axes.
//
// Every element is summed over taps and, within a tap, channels in the order of gemm.h, whatever
// the batch, the tile or the number of threads. Functions cannot fail, never allocate and may run
// from several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/parallel.h"
#include "engine/base/precision.h"
#include "engine/kernels/epilogue.h"
#include "engine/kernels/gemm/gemm.h"
#include "engine/kernels/window.h"

namespace tandem::kernels {

inline constexpr int kConvAxes = 3;

// Where the outputs of an axis lie in y: at offset, offset + step, ... of `extent` pixels.
struct OutputAxis {
  int64_t extent = 1;
  int64_t step = 1;
  int64_t offset = 0;
};

struct ConvGeometry {
  int64_t batch = 1;
  int64_t in_channels = 1;   // of all groups
  int64_t out_channels = 1;  // of all groups; both are multiples of group
  int64_t group = 1;
  WindowAxes axes;  // kConvAxes of them; see PadAxes
  // kConvAxes of them where y has more pixels than are computed; none: y is what is computed.
  absl::InlinedVector<OutputAxis, kConvAxes> outputs;

  int64_t in_per_group() const { return in_channels / group; }
  int64_t out_per_group() const { return out_channels / group; }
  int64_t taps() const;
  int64_t in_pixels() const;   // of one item
  int64_t out_pixels() const;  // of one item
  // The pixel in y of the computed pixel `row`, both counted over all items.
  int64_t PixelOfY(int64_t row) const;
  int64_t y_step() const { return outputs.empty() ? 1 : outputs.back().step; }
};

// `axes` with axes of extent 1 put before them, so that there are kConvAxes.
WindowAxes PadAxes(WindowAxes axes);

// Weights as they come: that of group g, its output m, its input c and tap t lies at data[g * group
// + m * out + c * in + sum over axes of t[i] * taps[i]].
struct ConvWeights {
  const float* data = nullptr;
  int64_t group = 0;
  int64_t out = 0;
  int64_t in = 0;
  int64_t taps[kConvAxes] = {};
  ColumnScales columns;  // by output channel, for Weights::kBytes

  const float* At(const ConvGeometry& geometry, int64_t channel, int64_t c, int64_t tap) const;
};
// Weights in ONNX's layout [out_channels, in_per_group, taps].
ConvWeights NativeWeights(const ConvGeometry& geometry, const float* data);

// Activations and epilogue. The rows of the epilogue are the pixels of y over all items, its
// columns the output channels.
struct ConvData {
  const float* x = nullptr;      // [batch, pixels in, in_channels]
  float* y = nullptr;            // [batch, pixels out, out_channels]; overlaps nothing that is read
  const float* zeros = nullptr;  // in_per_group zeros; not needed by the reference
  const Epilogue* epilogue = nullptr;
  const EpilogueOperand* operands = nullptr;
  float* scratch = nullptr;  // ConvScratchFloats of them; null: it does without
};

// Floats of packed weights: for each group the packed B of gemm.h with k = taps * in_per_group.
int64_t PackedConvFloats(Arithmetic arithmetic, const ConvGeometry& geometry);
void PackConvWeights(Arithmetic arithmetic, const ConvGeometry& geometry,
                     const ConvWeights& weights, float* packed);

// Floats of scratch that a convolution is faster with; 0: none. Aligned to kBufferAlignment.
int64_t ConvScratchFloats(Arithmetic arithmetic, const ConvGeometry& geometry);

// The bits are the same with and without scratch, but for numbers that are not finite, huge or near
// to the smallest.
void Conv(Arithmetic arithmetic, const ConvGeometry& geometry, const float* packed,
          const ConvData& data, const Parallel& parallel);

// The same in plain loops, on weights in ONNX's layout and a y without gaps.
void ConvReference(const ConvGeometry& geometry, const float* weights, const ConvData& data);
// Applies the epilogue to sums that lie in y, one by one.
void ApplyEpilogueReference(const ConvGeometry& geometry, const ConvData& data);
// The plain sums in double, without epilogue.
void ConvReference(const ConvGeometry& geometry, const double* weights, const double* x, double* y);

}  // namespace tandem::kernels
