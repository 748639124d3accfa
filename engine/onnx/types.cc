#include "engine/onnx/types.h"

#include "engine/onnx/import.h"

namespace tandem::onnx_import {
namespace {

using graph::Dim;
using graph::DimVector;
using graph::ValueKind;
using graph::ValueType;

StatusOr<DType> DecodeElementType(int32_t number) {
  if (number == 0) return DType::kUndefined;
  if (!IsKnownDType(number)) return InvalidArgument("element type {} is not known", number);
  return static_cast<DType>(number);
}

StatusOr<DimVector> DecodeDims(const ::onnx::TensorShapeProto& proto) {
  if (proto.dim_size() > kMaxRank) {
    return InvalidArgument("a shape has {} axes, at most {} are supported", proto.dim_size(),
                           kMaxRank);
  }
  DimVector dims;
  for (const ::onnx::TensorShapeProto::Dimension& dim : proto.dim()) {
    if (dim.has_dim_value()) {
      if (dim.dim_value() < -1) {
        return InvalidArgument("extent {} of axis {} is negative", dim.dim_value(), dims.size());
      }
      dims.push_back(dim.dim_value() < 0 ? Dim() : Dim(dim.dim_value()));
    } else {
      dims.push_back(dim.dim_param().empty() ? Dim() : Dim::Symbol(dim.dim_param()));
    }
  }
  return dims;
}

template <typename TensorType>
StatusOr<ValueType> DecodeTensorType(ValueKind kind, const TensorType& proto) {
  ValueType type;
  type.kind = kind;
  ASSIGN_OR_RETURN(type.dtype, DecodeElementType(proto.elem_type()));
  if (proto.has_shape()) {
    ASSIGN_OR_RETURN(type.dims, DecodeDims(proto.shape()));
  }
  return type;
}

StatusOr<ValueType> DecodeContainer(ValueKind kind, const ::onnx::TypeProto& element) {
  ValueType type;
  type.kind = kind;
  ASSIGN_OR_RETURN(ValueType inner, DecodeType(element));
  if (kind == ValueKind::kMap && inner.kind == ValueKind::kTensor) type.dtype = inner.dtype;
  type.element = std::make_shared<const ValueType>(std::move(inner));
  return type;
}

}  // namespace

// Recursion is bounded by the depth at which the parser gives up.
StatusOr<ValueType> DecodeType(const ::onnx::TypeProto& proto) {
  switch (proto.value_case()) {
    case ::onnx::TypeProto::kTensorType:
      return DecodeTensorType(ValueKind::kTensor, proto.tensor_type());
    case ::onnx::TypeProto::kSparseTensorType:
      return DecodeTensorType(ValueKind::kSparseTensor, proto.sparse_tensor_type());
    case ::onnx::TypeProto::kSequenceType:
      return DecodeContainer(ValueKind::kSequence, proto.sequence_type().elem_type());
    case ::onnx::TypeProto::kOptionalType:
      return DecodeContainer(ValueKind::kOptional, proto.optional_type().elem_type());
    case ::onnx::TypeProto::kMapType: {
      ASSIGN_OR_RETURN(ValueType type,
                       DecodeContainer(ValueKind::kMap, proto.map_type().value_type()));
      ASSIGN_OR_RETURN(type.key, DecodeElementType(proto.map_type().key_type()));
      if (type.key != DType::kString && !IsInteger(type.key)) {
        return InvalidArgument("a map has keys of type {}; integers and strings can be keys",
                               DTypeName(type.key));
      }
      return type;
    }
    case ::onnx::TypeProto::kOpaqueType:
      return InvalidArgument("opaque type '{}' is not supported", proto.opaque_type().name());
    case ::onnx::TypeProto::VALUE_NOT_SET:
      return ValueType();
  }
  return InvalidArgument("type {} is not known", static_cast<int>(proto.value_case()));
}

Status CheckConstantType(const TensorView& constant, const ValueType& declared) {
  ValueType actual;
  actual.dtype = constant.dtype();
  actual.dims = graph::ToDims(constant.shape());
  bool fits = declared.kind == ValueKind::kTensor &&
              (declared.dtype == DType::kUndefined || declared.dtype == actual.dtype);
  if (fits && declared.dims) {
    fits = declared.dims->size() == actual.dims->size();
    for (size_t axis = 0; fits && axis < actual.dims->size(); ++axis) {
      const Dim& dim = (*declared.dims)[axis];
      fits = !dim.is_number() || dim.SameAs((*actual.dims)[axis]);
    }
  }
  if (fits) return absl::OkStatus();
  return InvalidArgument("it is declared as {} but its initializer is {}",
                         graph::ToString(declared), graph::ToString(actual));
}

}  // namespace tandem::onnx_import
