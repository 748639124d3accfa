// Where the taps of an output pixel lie in channels-last bytes.
#pragma once

#include "engine/kernels/conv/conv.h"

namespace tandem::kernels {

// An output pixel by item and position.
struct OutputPixel {
  int64_t item = 0;
  int64_t at[kConvAxes] = {};

  OutputPixel(const ConvGeometry& geometry, int64_t row) {
    for (int i = kConvAxes - 1; i >= 0; --i) {
      const int64_t out = geometry.axes[static_cast<size_t>(i)].out;
      at[i] = row % out;
      row /= out;
    }
    item = row;
  }
  void Next(const WindowAxes& axes) {
    for (int i = kConvAxes - 1; i >= 0; --i) {
      if (++at[i] < axes[static_cast<size_t>(i)].out) return;
      at[i] = 0;
    }
    ++item;
  }
};

// x at the first channel that is read, and the bytes that stand for a pixel in the padding.
struct TapSource {
  const std::byte* x = nullptr;
  const std::byte* padding = nullptr;
};

// Calls visit(offset) for each row of taps along the inner axis, in their order: the offset in x of
// the first pixel on the line that the row is on, or -1 in the padding.
template <typename Visit>
void ForTapRows(const ConvGeometry& geometry, const OutputPixel& pixel, const Visit& visit) {
  const WindowAxis& outer = geometry.axes[0];
  const WindowAxis& middle = geometry.axes[1];
  const int64_t start0 = pixel.at[0] * outer.stride - outer.pad_begin;
  const int64_t start1 = pixel.at[1] * middle.stride - middle.pad_begin;
  const int64_t line = geometry.axes[2].in * geometry.in_channels;
  for (int64_t t0 = 0; t0 < outer.kernel; ++t0) {
    const int64_t at0 = start0 + t0 * outer.dilation;
    for (int64_t t1 = 0; t1 < middle.kernel; ++t1) {
      const int64_t at1 = start1 + t1 * middle.dilation;
      const bool inside = at0 >= 0 && at0 < outer.in && at1 >= 0 && at1 < middle.in;
      visit(inside ? ((pixel.item * outer.in + at0) * middle.in + at1) * line : int64_t{-1});
    }
  }
}

// Pointers to the taps of `pixel`, in their order, `step` apart.
inline void PointAtTaps(const ConvGeometry& geometry, const OutputPixel& pixel,
                        const TapSource& source, int64_t step, const std::byte** out) {
  const WindowAxis& inner = geometry.axes[2];
  const int64_t start = pixel.at[2] * inner.stride - inner.pad_begin;
  ForTapRows(geometry, pixel, [&](int64_t offset) {
    for (int64_t t = 0; t < inner.kernel; ++t, out += step) {
      const int64_t at = start + t * inner.dilation;
      const bool read = offset >= 0 && at >= 0 && at < inner.in;
      *out = read ? source.x + offset + at * geometry.in_channels : source.padding;
    }
  });
}

}  // namespace tandem::kernels
