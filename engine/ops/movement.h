// Steps that move elements: copying strided regions of tensors of any dtype, strings included, and
// outputs whose shape depends on data.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/kernels/move/strided_copy.h"
#include "engine/ops/operator.h"

namespace tandem::ops {

// Unimplemented for packed 2- and 4-bit elements, which have no address of their own.
Status CheckMovable(DType dtype);

// Copies the region that starts at element `in_offset` of `in` and `out_offset` of `out`.
struct Region {
  kernels::StridedAxes axes;
  int64_t in_offset = 0;
  int64_t out_offset = 0;
};
void CopyRegion(const Region& region, const TensorView& in, const MutableTensorView& out,
                const Parallel& parallel);

// `view` and the axis that operators with an optional axis work along: `axis`, which is checked, or
// the only one of the flattened view.
struct AxisView {
  TensorView view;
  int axis = 0;
};
StatusOr<AxisView> AlongAxis(const TensorView& view, std::optional<int64_t> axis);

// The entries of an axis that `picked` names, in its order; the other axes of both are the same.
void CopyEntries(std::span<const int64_t> picked, int axis, const TensorView& in,
                 const MutableTensorView& out);

// Every element of `out` becomes the only element of `value`, which has the same dtype.
void Fill(const TensorView& value, const MutableTensorView& out, const Parallel& parallel);

// The axes of a dense region of `extents` with these strides on both sides.
kernels::StridedAxes MakeAxes(std::span<const int64_t> extents, std::span<const int64_t> in_strides,
                              std::span<const int64_t> out_strides);

// A tensor of numbers or bools as int64, floats truncated; what indices, axes and extents come as.
std::vector<int64_t> ReadIntegers(const TensorView& view);
// The same of one element, or as floating point; CHECKs that there is one.
int64_t ReadInteger(const TensorView& view);
double ReadNumber(const TensorView& view);
// The elements of `view` converted as Cast does; both types are numbers or bool.
StatusOr<Tensor> Converted(const TensorView& view, DType to);
// A range check before an index is used: in [0, extent) after adding `extent` to a negative one.
// InvalidArgument names the index, its range and `what` ("index 3 of 'indices'").
StatusOr<int64_t> CheckIndex(int64_t index, int64_t extent, std::string_view what);
// All elements of `view` through CheckIndex.
StatusOr<std::vector<int64_t>> ReadIndices(const TensorView& view, int64_t extent,
                                           std::string_view what);

// Elements before the element at place `index` of a region: `index` counts through `extents` in
// row-major order, `strides` are the distances of neighbours.
int64_t OffsetOf(int64_t index, std::span<const int64_t> extents, std::span<const int64_t> strides);

// A step made of a function that writes the outputs it is handed, one view per output port
// (undefined where omitted). Outputs whose shape the plan could not know are inferred from the
// inputs' content and allocated before.
using MoveBody = std::function<Status(StepContext&, std::span<const MutableTensorView> outputs)>;
StatusOr<std::unique_ptr<Step>> MakeMoveStep(const BindContext& context, std::string kernel,
                                             MoveBody body);

// A step whose function allocates its outputs itself.
using DataBody = std::function<Status(StepContext&)>;
std::unique_ptr<Step> MakeDataStep(std::string kernel, DataBody body);

// Bytes of all inputs read and all outputs written once.
Cost CostOfMove(const StepShapes& shapes, DType dtype);

// A plain-bits value of `size` bytes, for functions that work on any dtype.
template <typename Function>
auto WithElement(DType dtype, const Function& function) {
  struct Bytes16 {
    uint64_t low;
    uint64_t high;
    bool operator==(const Bytes16&) const = default;
  };
  if (dtype == DType::kString) return function(std::string());
  switch (DTypeBits(dtype)) {
    case 8:
      return function(uint8_t{});
    case 16:
      return function(uint16_t{});
    case 32:
      return function(uint32_t{});
    case 64:
      return function(uint64_t{});
    default:
      return function(Bytes16{});
  }
}

}  // namespace tandem::ops
