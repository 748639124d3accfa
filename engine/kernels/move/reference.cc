#include <cstring>

#include "engine/kernels/move/permute.h"
#include "engine/kernels/move/strided_copy.h"

namespace tandem::kernels {

void StridedCopyReference(const StridedAxes& axes, int element_size, const void* in, void* out) {
  const auto size = static_cast<int64_t>(element_size);
  const StridedAxis row = axes.empty() ? StridedAxis() : axes.back();
  ForEachRun(axes, [&](int64_t from, int64_t to) {
    for (int64_t i = 0; i < row.extent; ++i) {
      std::memcpy(static_cast<std::byte*>(out) + (to + i * row.out_stride) * size,
                  static_cast<const std::byte*>(in) + (from + i * row.in_stride) * size,
                  static_cast<size_t>(size));
    }
  });
}

}  // namespace tandem::kernels
