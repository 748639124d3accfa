// The change between the layouts of a tensor.
#pragma once

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "engine/tensor/tensor.h"

namespace tandem::ops {

// Writes the elements of `x`, whose layout is not `to`, to `out` in layout `to`. Elements are whole
// bytes.
void ChangeLayout(const TensorView& x, Layout to, void* out, const Parallel& parallel);

// A copy of `x` in native layout. ResourceExhausted when memory is short.
StatusOr<Tensor> NativeCopy(const TensorView& x, const Parallel& parallel);

}  // namespace tandem::ops
