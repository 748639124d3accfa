// Sums of products over labelled axes (Einstein summation): the general form, in plain loops, for
// any number of operands.
//
// Floating types are summed in double in a fixed order and rounded once; integers wrap.
//
// Source: ONNX Einsum.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "engine/base/parallel.h"
#include "engine/tensor/dtype.h"

namespace tandem::kernels {

// The axis of one label: by operand the elements between neighbours, 0 where it has no such axis.
struct EinsumAxis {
  int64_t extent = 1;
  absl::InlinedVector<int64_t, 3> strides;
};

struct EinsumPlan {
  std::vector<EinsumAxis> outputs;  // of the dense output, outermost first
  std::vector<EinsumAxis> sums;
};

using EinsumFunction = void (*)(const EinsumPlan& plan, std::span<const void* const> operands,
                                void* out, const Parallel& parallel);
// The kernel for operands of `dtype`, or null: floating types and integers have one.
EinsumFunction FindEinsum(DType dtype);

}  // namespace tandem::kernels
