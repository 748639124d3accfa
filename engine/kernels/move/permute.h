// Permutation of axes and the change between the native (N, C, spatial) and the channels-last
// (N, spatial, C) layout. Elements of 1, 2, 4, 8 or 16 bytes, moved as bits.
#pragma once

#include <cstdint>
#include <span>

#include "engine/base/parallel.h"
#include "engine/kernels/move/strided_copy.h"

namespace tandem::kernels {

// The copy that transposes a dense tensor of `extents`: axis k of the output is axis `order[k]` of
// the input (ONNX Transpose's `perm`).
StridedAxes PermutationAxes(std::span<const int64_t> extents, std::span<const int> order);

enum class LayoutDirection : uint8_t { kNativeToChannelsLast, kChannelsLastToNative };

struct LayoutConversion {
  int64_t items = 1;     // N
  int64_t channels = 1;  // C
  int64_t spatial = 1;   // product of the spatial extents
  int element_size = 4;  // bytes
  LayoutDirection direction = LayoutDirection::kNativeToChannelsLast;
};

// Writes the items * channels * spatial elements at `in` to `out` in the other layout; the memories
// must not overlap.
void ConvertLayout(const LayoutConversion& conversion, const void* in, void* out,
                   const Parallel& parallel);

}  // namespace tandem::kernels
