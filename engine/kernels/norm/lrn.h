// Local response normalization: every element divided by a power of the squares around it in the
// neighbouring channels,
//
//   y[c] = x[c] * (bias + alpha / size * sum of x[k]^2)^-beta,  k in [c - before, c + after]
//
// with before = (size - 1) / 2 and after = size - 1 - before, neighbours outside of the channels
// left out. The sum runs over rising channels. 16-bit floating types compute in float32. y is not
// the memory of x. Source: ONNX LRN.
#pragma once

#include <cstdint>

#include "engine/base/cpu.h"
#include "engine/base/parallel.h"
#include "engine/tensor/dtype.h"

namespace tandem::kernels {

// Element (o, c, i) lies at (o * channels + c) * inner + i; inner = 1 is channels-last.
struct Lrn {
  int64_t outer = 1;
  int64_t channels = 1;
  int64_t inner = 1;
  int64_t size = 1;  // >= 1
  float alpha = 0;
  float beta = 0;
  float bias = 1;

  int64_t before() const { return (size - 1) / 2; }
  int64_t after() const { return size - 1 - before(); }
};

// A unit of work: all channels of up to kLrnColumns neighbouring i of one o.
inline constexpr int64_t kLrnColumns = 64;
inline int64_t LrnUnits(const Lrn& lrn) {
  return lrn.outer * ((lrn.inner + kLrnColumns - 1) / kLrnColumns);
}

// Computes units [begin, end).
using LrnFunction = void (*)(const Lrn& lrn, const void* x, void* y, int64_t begin, int64_t end);

// The kernel, or null: floating types have one.
LrnFunction FindLrn(DType dtype, const Lrn& lrn, Isa isa);
LrnFunction FindLrnReference(DType dtype);

// float32. Null where there is none: for powers other than 1/2, 3/4 and 1, and windows beyond
// kLrnWindow. Reads size and beta of `lrn` only.
inline constexpr int64_t kLrnWindow = 128;
LrnFunction FindLrnSimd(const Lrn& lrn, Isa isa);

// Runs `function` over all units, in parallel.
void RunLrn(LrnFunction function, const Lrn& lrn, const void* x, void* y, const Parallel& parallel);

}  // namespace tandem::kernels
