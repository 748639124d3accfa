// One spatial axis of a sliding window, resolved for a concrete input: pooling and convolution.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"

namespace tandem::kernels {

// Output `o` reads the inputs o * stride - pad_begin + j * dilation for j in [0, kernel); those
// outside [0, in) lie in the padding. The last window may reach beyond in + pad_end (ceil_mode).
struct WindowAxis {
  int64_t in = 1;
  int64_t out = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_begin = 0;
  int64_t pad_end = 0;
};

// Spatial axes, outermost first.
using WindowAxes = absl::InlinedVector<WindowAxis, 3>;

}  // namespace tandem::kernels
