#include "engine/ops/scatter.h"

#include <cstring>

#include "engine/kernels/elementwise/binary.h"
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"

namespace tandem::ops {

Status CheckElementIndices(const InferContext& context, int64_t axis) {
  const ValueFacts& data = context.input(0);
  const ValueFacts& indices = context.input(1);
  if (indices.dtype != DType::kInt32 && indices.dtype != DType::kInt64) {
    return InvalidArgument("indices are {} where int32 or int64 is expected",
                           DTypeName(indices.dtype));
  }
  if (!data.dims) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int along, ResolveAxis(axis, data.rank(), "attribute 'axis'"));
  if (!indices.dims) return absl::OkStatus();
  if (indices.rank() != data.rank()) {
    return InvalidArgument("indices have shape {} where rank {} is expected",
                           graph::ToString(*indices.dims), data.rank());
  }
  for (int k = 0; k < data.rank(); ++k) {
    const graph::Dim& wanted = (*indices.dims)[static_cast<size_t>(k)];
    const graph::Dim& extent = (*data.dims)[static_cast<size_t>(k)];
    if (k == along || !wanted.is_number() || !extent.is_number()) continue;
    if (wanted.number() > extent.number()) {
      return InvalidArgument("indices have extent {} of axis {} where at most {} is expected",
                             wanted.number(), k, extent.number());
    }
  }
  return absl::OkStatus();
}

BatchAnswer BatchOfElementIndices(const BatchQuery& query, int64_t axis) {
  const std::optional<int> batch = query.axes[0];
  const int rank = query.inputs[0]->rank();
  if (!batch || rank < 0) return BatchAnswer::Decline("data (input 0) is shared by all items");
  for (const std::optional<int>& other : query.axes) {
    if (other != batch) return BatchAnswer::Decline("not every input carries the batch alike");
  }
  if ((axis < 0 ? axis + rank : axis) == *batch) {
    return BatchAnswer::Decline("its indices name items of the batch");
  }
  return BatchAnswer::All(query, batch);
}

ElementPlaces::ElementPlaces(const Shape& data, const Shape& indices, int axis) {
  const int last = indices.rank() - 1;
  Dims strides = data.Strides();
  axis_stride_ = strides[static_cast<size_t>(axis)];
  strides[static_cast<size_t>(axis)] = 0;
  extents_.assign(indices.dims().begin(), indices.dims().end() - 1);
  strides_.assign(strides.begin(), strides.end() - 1);
  length_ = indices[last];
  step_ = strides.back();
}

int64_t ElementPlaces::rows() const { return Shape(extents_).elements(); }

int64_t ElementPlaces::BaseOf(int64_t row) const { return OffsetOf(row, extents_, strides_); }

StatusOr<TuplePlaces> ReadTuples(const TensorView& indices, const Shape& data, int batch_axes) {
  const Shape& shape = indices.shape();
  const auto length = static_cast<int>(shape[shape.rank() - 1]);
  const int end = batch_axes + length;  // the first axis of a slice
  TuplePlaces places;
  places.block = data.Product(end, data.rank());
  const Dims strides = data.Strides();
  const int64_t entry = data.Product(batch_axes, data.rank());
  const int64_t tuples = shape.Product(batch_axes, shape.rank() - 1);  // of a batch entry
  const int64_t count = shape.Product(0, shape.rank() - 1);
  const int64_t* from = indices.data<int64_t>();
  places.offsets.reserve(static_cast<size_t>(count));
  for (int64_t tuple = 0; tuple < count; ++tuple) {
    int64_t offset = batch_axes == 0 ? 0 : tuple / tuples * entry;
    for (int j = 0; j < length; ++j) {
      const StatusOr<int64_t> index = CheckIndex(*from++, data[batch_axes + j], "the index");
      if (!index.ok()) {
        return Annotate(index.status(), fmt::format("element {}", tuple * length + j));
      }
      offset += *index * strides[static_cast<size_t>(batch_axes + j)];
    }
    places.offsets.push_back(offset);
  }
  return places;
}

Reduction ReadReduction(NodeReader& reader) {
  if (reader.opset() < 16) return Reduction::kNone;
  const std::string name = reader.String("reduction", "none");
  if (name == "none") return Reduction::kNone;
  if (name == "add") return Reduction::kAdd;
  if (name == "mul") return Reduction::kMul;
  const bool extremes = reader.opset() >= 18;
  if (extremes && name == "max") return Reduction::kMax;
  if (extremes && name == "min") return Reduction::kMin;
  reader.Fail(
      InvalidArgument("attribute 'reduction' is '{}' where one of none, add, mul{} is "
                      "expected",
                      name, extremes ? ", max, min" : ""));
  return Reduction::kNone;
}

StatusOr<kernels::RowFunction> FindReduction(Reduction reduction, DType dtype, Isa isa) {
  using enum kernels::BinaryOp;
  constexpr kernels::BinaryOp kOps[] = {kAdd, kAdd, kMul, kMax, kMin};
  if (reduction == Reduction::kNone) return nullptr;
  const auto row = kernels::FindBinary(kOps[static_cast<int>(reduction)], dtype, isa);
  if (row != nullptr) return row;
  return Unimplemented("a reduction of {} is not supported", DTypeName(dtype));
}

void CopyData(StepContext& run, const MutableTensorView& out) {
  const TensorView& data = run.input(0);
  if (data.raw() == out.raw()) return;
  CopyRegion({.axes = {{out.elements(), 1, 1}}}, data, out, run.parallel());
}

void Update(kernels::RowFunction reduce, const MutableTensorView& out, const Updates& updates) {
  const DType dtype = out.dtype();
  if (dtype == DType::kString) {
    std::copy_n(updates.view.data<std::string>() + updates.first, updates.count,
                out.mutable_data<std::string>() + updates.place);
    return;
  }
  const size_t size = DTypeBytes(dtype, 1);
  const auto* from =
      static_cast<const std::byte*>(updates.view.raw()) + static_cast<size_t>(updates.first) * size;
  auto* to = static_cast<std::byte*>(out.mutable_raw()) + static_cast<size_t>(updates.place) * size;
  if (reduce == nullptr) {
    std::memcpy(to, from, static_cast<size_t>(updates.count) * size);
    return;
  }
  const void* operands[] = {to, from};
  const int64_t steps[] = {1, 1};
  reduce({operands, steps, 2, to, updates.count}, {});
}

}  // namespace tandem::ops
