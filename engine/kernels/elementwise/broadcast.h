// Cuts a broadcast of any number of operands into rows (row.h). Works on strides, so operands and
// output may lie in memory in any order of their axes.
//
// Source: ONNX, "Multidirectional Broadcasting".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "engine/base/parallel.h"
#include "engine/kernels/elementwise/row.h"

namespace tandem::kernels {

using Extents = absl::InlinedVector<int64_t, 6>;

// An operand as the broadcast sees it.
struct BroadcastOperand {
  const void* data = nullptr;
  size_t element_bytes = 0;
  // Elements between neighbours along each axis of the output; 0 where the operand is repeated.
  Extents strides;
};

// Axes of the output in the order in which they lie in its memory, outermost first, merged where
// all operands allow it. Immutable.
class BroadcastLoop {
 public:
  // `extents` of the dense output; every operand has as many strides.
  BroadcastLoop(std::span<const int64_t> extents, std::span<const BroadcastOperand> operands);

  int64_t elements() const { return elements_; }
  // Merged axes, outermost first; at least one.
  const Extents& extents() const { return extents_; }

  // Runs `row` over all output elements, in parallel; each takes as long as `work` that are
  // computed cheaply. `output` has elements of `output_bytes` bytes. Operands that neither advance
  // by one nor stay are gathered piece by piece first.
  void Run(absl::FunctionRef<void(const RowArgs&)> row, void* output, size_t output_bytes,
           const Parallel& parallel, int64_t work = 1) const;

 private:
  struct Operand {
    const std::byte* data;
    size_t element_bytes;
    Extents strides;  // of the merged axes
  };
  struct Target {
    absl::FunctionRef<void(const RowArgs&)> row;
    std::byte* output;
    size_t output_bytes;
  };

  bool MayRepeatRows() const;
  void FindStarts(int64_t element, const void** starts) const;
  void RunRange(const Target& target, int64_t begin, int64_t end) const;
  void RunRepeated(const Target& target, int64_t begin, int64_t rows) const;
  void RunRow(const Target& target, int64_t begin, int64_t n) const;
  void RunGathered(const Target& target, const void* const* starts, int64_t begin, int64_t n) const;

  Extents extents_;
  absl::InlinedVector<Operand, 3> operands_;
  int64_t elements_ = 1;
  bool gathers_ = false;
  bool repeats_rows_ = false;  // short rows run several at a time
};

}  // namespace tandem::kernels
