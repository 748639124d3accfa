#include "engine/ops/native_copy.h"

#include "engine/kernels/move/permute.h"

namespace tandem::ops {

void ChangeLayout(const TensorView& x, Layout to, void* out, const Parallel& parallel) {
  kernels::LayoutConversion conversion;
  conversion.items = x.shape()[0];
  conversion.channels = x.shape()[1];
  conversion.spatial = x.shape().Product(2, x.shape().rank());
  conversion.element_size = static_cast<int>(DTypeBits(x.dtype()) / 8);
  conversion.direction = to == Layout::kChannelsLast
                             ? kernels::LayoutDirection::kNativeToChannelsLast
                             : kernels::LayoutDirection::kChannelsLastToNative;
  kernels::ConvertLayout(conversion, x.raw(), out, parallel);
}

StatusOr<Tensor> NativeCopy(const TensorView& x, const Parallel& parallel) {
  if (x.layout() == Layout::kNative) return Tensor::Copy(x);
  ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(x.dtype(), x.shape()));
  ChangeLayout(x, Layout::kNative, copy.mutable_view().mutable_raw(), parallel);
  return copy;
}

}  // namespace tandem::ops
