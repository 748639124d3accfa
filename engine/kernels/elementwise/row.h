// Row kernels: the one shape that every element-wise kernel has. A row is a run of consecutive
// output elements; each operand either advances with the output or stays on one element
// (broadcast), so a kernel never sees axes. broadcast.h cuts tensors into rows.
//
// A row kernel gives each element the same bits wherever the row was cut. Row kernels never
// allocate and cannot fail. The output may be the memory of an operand that advances, if their
// elements have the same size.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/tensor/dtype.h"

namespace tandem::kernels {

struct RowArgs {
  const void* const* operands = nullptr;
  const int64_t* steps = nullptr;  // per operand, in elements: 1 or 0
  int count = 0;                   // operands
  void* output = nullptr;
  int64_t n = 0;  // output elements
};

// What the attributes of an operator give its kernel; meaning per kernel.
struct RowParams {
  float alpha = 0;
  float beta = 0;
};

using RowFunction = void (*)(const RowArgs& args, const RowParams& params);

// A row kernel with what its operator's attributes give it; no function: no kernel.
struct RowKernel {
  RowFunction function = nullptr;
  RowParams params;
};

// Elements that fit the buffers of kernels that work in pieces.
inline constexpr int64_t kRowBlock = 256;
// Operands of a kernel whose operands must be buffered, at most.
inline constexpr int kMaxRowOperands = 8;
// Operands of the kernels that take a fixed number of them, at most.
inline constexpr int kMaxFixedOperands = 3;

inline float AsFloat(Float16 value) { return ToFloat(value); }
inline float AsFloat(Bfloat16 value) { return ToFloat(value); }
template <typename T>
T FromFloat(float value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return ToFloat16(value);
  } else {
    return ToBfloat16(value);
  }
}

// Runs the float32 kernel `Row` on elements of a 16-bit floating type: inputs are widened, the
// result is rounded to nearest even. Kernels with another output type (comparisons) write it
// directly.
template <RowFunction Row, typename T, typename Out = T>
void ThroughFloat(const RowArgs& args, const RowParams& params) {
  float widened[kMaxFixedOperands][kRowBlock];
  float result[kRowBlock];
  const void* operands[kMaxFixedOperands];
  for (int64_t begin = 0; begin < args.n; begin += kRowBlock) {
    const int64_t n = std::min(kRowBlock, args.n - begin);
    for (int i = 0; i < args.count; ++i) {
      const T* source = static_cast<const T*>(args.operands[i]) + begin * args.steps[i];
      const int64_t elements = args.steps[i] == 0 ? 1 : n;
      for (int64_t k = 0; k < elements; ++k) widened[i][k] = AsFloat(source[k]);
      operands[i] = widened[i];
    }
    Out* output = static_cast<Out*>(args.output) + begin;
    if constexpr (std::is_same_v<Out, T>) {
      Row({operands, args.steps, args.count, result, n}, params);
      for (int64_t k = 0; k < n; ++k) output[k] = FromFloat<T>(result[k]);
    } else {
      Row({operands, args.steps, args.count, output, n}, params);
    }
  }
}

}  // namespace tandem::kernels
