// Copies between strided regions: the one kernel behind transposes, slices, concatenation, padding,
// tiling and changes of layout. Elements are moved as bits, so any dtype of 1, 2, 4, 8 or 16 bytes
// works. Strings have no such size; ForEachRun serves them.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "engine/base/parallel.h"

namespace tandem::kernels {

// One axis of a region: how often, and the distance of neighbours in elements, which may be
// negative; an in_stride of 0 repeats the element.
struct StridedAxis {
  int64_t extent = 1;
  int64_t in_stride = 1;
  int64_t out_stride = 1;
};
using StridedAxes = absl::InlinedVector<StridedAxis, 8>;

// The same region with fewer axes: axes of extent 1 dropped, neighbours that are one run in both
// memories merged, ordered by falling |out_stride|. Empty for a single element.
StridedAxes Simplify(StridedAxes axes);

// out[sum i_k * out_stride_k] = in[sum i_k * in_stride_k] for all i; nothing when an extent is 0.
// The memories must not overlap and no element may be written twice.
void StridedCopy(const StridedAxes& axes, int element_size, const void* in, void* out,
                 const Parallel& parallel);

// The same in one plain loop.
void StridedCopyReference(const StridedAxes& axes, int element_size, const void* in, void* out);

// Calls run(in_offset, out_offset) for every index of all axes but the last, in row-major order;
// offsets count elements. Nothing is called when an extent is 0, the last included.
template <typename Run>
void ForEachRun(const StridedAxes& axes, const Run& run) {
  for (const StridedAxis& axis : axes) {
    if (axis.extent <= 0) return;
  }
  const int outer = axes.empty() ? 0 : static_cast<int>(axes.size()) - 1;
  absl::InlinedVector<int64_t, 8> index(static_cast<size_t>(outer), 0);
  int64_t in = 0;
  int64_t out = 0;
  while (true) {
    run(in, out);
    int k = outer - 1;
    for (; k >= 0; --k) {
      const StridedAxis& axis = axes[static_cast<size_t>(k)];
      in += axis.in_stride;
      out += axis.out_stride;
      if (++index[static_cast<size_t>(k)] < axis.extent) break;
      in -= axis.in_stride * axis.extent;
      out -= axis.out_stride * axis.extent;
      index[static_cast<size_t>(k)] = 0;
    }
    if (k < 0) return;
  }
}

}  // namespace tandem::kernels
