#include <algorithm>
#include <cstring>

#include "engine/onnx/import.h"
#include "engine/onnx/tensor_decode.h"

namespace tandem::onnx_import {
namespace {

StatusOr<Shape> DenseShape(const ::onnx::SparseTensorProto& proto, DType dtype, size_t max_bytes) {
  if (proto.dims_size() > kMaxRank) {
    return InvalidArgument("it has {} axes, at most {} are supported", proto.dims_size(), kMaxRank);
  }
  const Dims dims(proto.dims().begin(), proto.dims().end());
  const std::optional<int64_t> elements = CheckedElements(dims);
  if (!elements) return InvalidArgument("its extents are negative or pass 64 bits");
  const std::optional<int64_t> bits = CheckedMul(*elements, static_cast<int64_t>(DTypeBits(dtype)));
  if (!bits || static_cast<size_t>(*bits) / 8 > max_bytes) {
    return InvalidArgument(
        "its dense form {}{} passes the {} bytes that are left for sparse "
        "initializers",
        DTypeName(dtype), ToString(Shape(dims)), max_bytes);
  }
  return Shape(dims);
}

// The row-major index that row `i` of `indices` means; InvalidArgument when it lies outside.
StatusOr<int64_t> LinearIndex(const Tensor& indices, int64_t i, const Shape& dense) {
  const int64_t* values = indices.data<int64_t>();
  if (indices.shape().rank() == 1) {
    if (values[i] < 0 || values[i] >= dense.elements()) {
      return InvalidArgument("index {} lies outside its {} elements", values[i], dense.elements());
    }
    return values[i];
  }
  int64_t linear = 0;
  for (int axis = 0; axis < dense.rank(); ++axis) {
    const int64_t index = values[i * dense.rank() + axis];
    if (index < 0 || index >= dense[axis]) {
      return InvalidArgument("index {} of axis {} lies outside the extent {}", index, axis,
                             dense[axis]);
    }
    linear = linear * dense[axis] + index;
  }
  return linear;
}

Status CheckParts(const Tensor& values, const Tensor& indices, int rank) {
  if (values.shape().rank() != 1) {
    return InvalidArgument("its values have shape {} where one axis is expected",
                           ToString(values.shape()));
  }
  if (values.dtype() == DType::kString || DTypeBits(values.dtype()) < 8) {
    return InvalidArgument("sparse tensors of {} are not supported", DTypeName(values.dtype()));
  }
  const int64_t count = values.elements();
  const Shape& shape = indices.shape();
  if (indices.dtype() != DType::kInt64 ||
      (shape != Shape({count}) && shape != Shape({count, rank}))) {
    return InvalidArgument("its indices are {}{} where int64[{}] or int64[{},{}] is expected",
                           DTypeName(indices.dtype()), ToString(shape), count, count, rank);
  }
  return absl::OkStatus();
}

StatusOr<Tensor> Densify(const ::onnx::SparseTensorProto& proto, size_t max_bytes) {
  ASSIGN_OR_RETURN(const Tensor values, DecodeTensor(proto.values(), nullptr));
  ASSIGN_OR_RETURN(const Tensor indices, DecodeTensor(proto.indices(), nullptr));
  RETURN_IF_ERROR(CheckParts(values, indices, proto.dims_size()));
  ASSIGN_OR_RETURN(const Shape shape, DenseShape(proto, values.dtype(), max_bytes));
  ASSIGN_OR_RETURN(Tensor dense, Tensor::Allocate(values.dtype(), shape));
  const std::span<std::byte> into = dense.mutable_view().mutable_bytes();
  std::ranges::fill(into, std::byte{0});
  const size_t width = DTypeBits(values.dtype()) / 8;
  int64_t last = -1;
  for (int64_t i = 0; i < values.elements(); ++i) {
    ASSIGN_OR_RETURN(const int64_t index, LinearIndex(indices, i, shape));
    if (index <= last) return InvalidArgument("its indices are not ascending at entry {}", i);
    last = index;
    std::memcpy(into.data() + static_cast<size_t>(index) * width,
                values.view().bytes().data() + static_cast<size_t>(i) * width, width);
  }
  return dense;
}

}  // namespace

StatusOr<Tensor> DecodeSparseTensor(const ::onnx::SparseTensorProto& proto, size_t max_bytes) {
  StatusOr<Tensor> dense = Densify(proto, max_bytes);
  if (dense.ok()) return dense;
  return Annotate(dense.status(), fmt::format("sparse tensor '{}'", proto.values().name()));
}

}  // namespace tandem::onnx_import
