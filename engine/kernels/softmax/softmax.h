// Softmax, LogSoftmax and Hardmax over one axis of a dense tensor.
//
//   Softmax     exp(x - max) / sum(exp(x - max))
//   LogSoftmax  x - max - log(sum(exp(x - max)))
//   Hardmax     1 at the first maximum of a row (a NaN counts as one), else 0
//
// NaN in a row makes the row NaN (but for Hardmax). 16-bit floating types compute in float32. The
// order of each sum depends on the row's length and the instruction set only. The output may be the
// input's memory. Source: ONNX operators of the same names.
#pragma once

#include <cstdint>

#include "engine/base/cpu.h"
#include "engine/base/parallel.h"
#include "engine/tensor/dtype.h"

namespace tandem::kernels {

enum class SoftmaxOp : uint8_t { kSoftmax, kLogSoftmax, kHardmax };

// Element (o, a, i) lies at (o * length + a) * inner + i; a row runs over a.
struct SoftmaxShape {
  int64_t outer = 1;
  int64_t length = 1;
  int64_t inner = 1;
};

// A unit of work: all rows of one `o` whose `i` lies in one block of kSoftmaxColumns.
inline constexpr int64_t kSoftmaxColumns = 64;
int64_t SoftmaxUnits(const SoftmaxShape& shape);

// Computes units [begin, end).
using SoftmaxFunction = void (*)(const SoftmaxShape& shape, const void* x, void* y, int64_t begin,
                                 int64_t end);

// The kernel for elements of `dtype`, or null: floating types have one.
SoftmaxFunction FindSoftmax(SoftmaxOp op, DType dtype, Isa isa);
SoftmaxFunction FindSoftmaxReference(SoftmaxOp op, DType dtype);
SoftmaxFunction FindSoftmaxSimd(SoftmaxOp op, Isa isa);  // float32; null for Hardmax

// Runs `function` over all units, in parallel.
void RunSoftmax(SoftmaxFunction function, const SoftmaxShape& shape, const void* x, void* y,
                const Parallel& parallel);

}  // namespace tandem::kernels
