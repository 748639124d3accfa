#include "engine/kernels/conv/conv.h"
#include "engine/kernels/gemm/gemm.h"

namespace tandem::kernels {
namespace {

// Input pixel that tap (t0, t1, t2) of output pixel (o0, o1, o2) reads, or -1 in the padding.
int64_t InputPixel(const WindowAxes& axes, const int64_t (&o)[kConvAxes],
                   const int64_t (&t)[kConvAxes]) {
  int64_t pixel = 0;
  for (int i = 0; i < kConvAxes; ++i) {
    const WindowAxis& axis = axes[static_cast<size_t>(i)];
    const int64_t at = o[i] * axis.stride - axis.pad_begin + t[i] * axis.dilation;
    if (at < 0 || at >= axis.in) return -1;
    pixel = pixel * axis.in + at;
  }
  return pixel;
}

template <typename T>
T SumOf(const ConvGeometry& geometry, const T* x, const T* weights, const int64_t (&o)[kConvAxes]) {
  const WindowAxes& axes = geometry.axes;
  const int64_t channels = geometry.in_per_group();
  const int64_t taps = geometry.taps();
  T sum = 0;
  int64_t tap = 0;
  for (int64_t t0 = 0; t0 < axes[0].kernel; ++t0) {
    for (int64_t t1 = 0; t1 < axes[1].kernel; ++t1) {
      for (int64_t t2 = 0; t2 < axes[2].kernel; ++t2, ++tap) {
        const int64_t pixel = InputPixel(axes, o, {t0, t1, t2});
        if (pixel < 0) continue;
        for (int64_t c = 0; c < channels; ++c) {
          sum += x[pixel * geometry.in_channels + c] * weights[c * taps + tap];
        }
      }
    }
  }
  return sum;
}

template <typename T>
void Sums(const ConvGeometry& geometry, const T* weights, const T* x, T* y) {
  const WindowAxes& axes = geometry.axes;
  const int64_t filter = geometry.in_per_group() * geometry.taps();
  for (int64_t item = 0; item < geometry.batch; ++item) {
    for (int64_t o0 = 0; o0 < axes[0].out; ++o0) {
      for (int64_t o1 = 0; o1 < axes[1].out; ++o1) {
        for (int64_t o2 = 0; o2 < axes[2].out; ++o2) {
          for (int64_t m = 0; m < geometry.out_channels; ++m) {
            const int64_t first = m / geometry.out_per_group() * geometry.in_per_group();
            *y++ = SumOf(geometry, x + first, weights + m * filter, {o0, o1, o2});
          }
        }
      }
    }
    x += geometry.in_pixels() * geometry.in_channels;
  }
}

}  // namespace

void ConvReference(const ConvGeometry& geometry, const float* weights, const ConvData& data) {
  Sums(geometry, weights, data.x, data.y);
  ApplyEpilogueReference(geometry, data);
}

void ApplyEpilogueReference(const ConvGeometry& geometry, const ConvData& data) {
  GemmProblem rows;
  rows.n = geometry.out_channels;
  rows.c = data.y;
  rows.c_row_stride = geometry.out_channels;
  rows.epilogue = data.epilogue;
  rows.operands = data.operands;
  const int64_t pixels = geometry.batch * geometry.out_pixels();
  for (int64_t row = 0; row < pixels; ++row) ApplyEpilogueReference(rows, row);
}

void ConvReference(const ConvGeometry& geometry, const double* weights, const double* x,
                   double* y) {
  Sums(geometry, weights, x, y);
}

}  // namespace tandem::kernels
