#include "engine/kernels/move/permute.h"

#include <utility>

namespace tandem::kernels {

StridedAxes PermutationAxes(std::span<const int64_t> extents, std::span<const int> order) {
  const size_t rank = extents.size();
  absl::InlinedVector<int64_t, 8> in_strides(rank, 1);
  for (size_t k = rank; k-- > 1;) in_strides[k - 1] = in_strides[k] * extents[k];
  StridedAxes axes(rank);
  int64_t out_stride = 1;
  for (size_t k = rank; k-- > 0;) {
    const auto source = static_cast<size_t>(order[k]);
    axes[k] = {extents[source], in_strides[source], out_stride};
    out_stride *= extents[source];
  }
  return axes;
}

void ConvertLayout(const LayoutConversion& conversion, const void* in, void* out,
                   const Parallel& parallel) {
  int64_t rows = conversion.channels;
  int64_t columns = conversion.spatial;
  if (conversion.direction == LayoutDirection::kChannelsLastToNative) std::swap(rows, columns);
  const StridedAxes axes = {
      {conversion.items, rows * columns, rows * columns}, {columns, 1, rows}, {rows, columns, 1}};
  StridedCopy(axes, conversion.element_size, in, out, parallel);
}

}  // namespace tandem::kernels
