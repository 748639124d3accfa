// What GatherElements, ScatterElements, GatherND and ScatterND share: where indices point to, and
// what becomes of elements that are written more than once.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/kernels/elementwise/row.h"
#include "engine/ops/operator.h"
#include "engine/ops/registry.h"

namespace tandem::ops {

// OK when indices (input 1) are int32 or int64 of the rank of data (input 0) and, but for the axis,
// no larger than it.
Status CheckElementIndices(const InferContext& context, int64_t axis);

// Every input carries the batch on the same axis, which is not `axis`: the outputs do, too.
BatchAnswer BatchOfElementIndices(const BatchQuery& query, int64_t axis);

// Places in data of the elements that indices of rank >= 1 name: the index stands in place of the
// coordinate along the axis. Rows are those of the indices' last axis.
class ElementPlaces {
 public:
  ElementPlaces(const Shape& data, const Shape& indices, int axis);

  int64_t rows() const;
  int64_t length() const { return length_; }  // of a row
  // Calls visit(place in data, number of the index) for each index of a row. Indices are checked.
  template <typename Visit>
  void ForEach(int64_t row, std::span<const int64_t> indices, const Visit& visit) const {
    const int64_t base = BaseOf(row);
    for (int64_t j = 0; j < length_; ++j) {
      const int64_t i = row * length_ + j;
      visit(base + j * step_ + indices[static_cast<size_t>(i)] * axis_stride_, i);
    }
  }

 private:
  int64_t BaseOf(int64_t row) const;

  Dims extents_;  // of the rows
  Dims strides_;
  int64_t length_ = 1;
  int64_t step_ = 0;  // in data, between neighbours of a row
  int64_t axis_stride_ = 1;
};

// Data seen by tuples of k indices: slices of `block` elements. With batch axes, which both have in
// front, tuples of one batch entry stay within it.
struct TuplePlaces {
  int64_t block = 1;
  std::vector<int64_t> offsets;  // of the slice of each tuple, in elements of data
};
// InvalidArgument names the first index out of range. `batch_axes` axes come first in both.
StatusOr<TuplePlaces> ReadTuples(const TensorView& indices, const Shape& data, int batch_axes);

enum class Reduction : uint8_t { kNone, kAdd, kMul, kMax, kMin };

// The attribute 'reduction': opset 16 knows none, add and mul, opset 18 also max and min.
Reduction ReadReduction(NodeReader& reader);
// The row kernel data = data op update, or null for kNone. Unimplemented when the type has none.
StatusOr<kernels::RowFunction> FindReduction(Reduction reduction, DType dtype, Isa isa);

// Makes output 0 a copy of data (input 0), unless it lies in its memory.
void CopyData(StepContext& run, const MutableTensorView& out);

// `count` neighbours from element `first` of the updates on, for the elements of data from `place`
// on.
struct Updates {
  const TensorView& view;
  int64_t first = 0;
  int64_t place = 0;
  int64_t count = 1;
};
// Combines them into `out` by `reduce`; null overwrites.
void Update(kernels::RowFunction reduce, const MutableTensorView& out, const Updates& updates);

}  // namespace tandem::ops
