#include "engine/onnx/attributes.h"

#include "engine/onnx/tensor_decode.h"
#include "engine/onnx/types.h"

namespace tandem::onnx_import {
namespace {

using ::onnx::AttributeProto;

std::vector<AttributeProto::AttributeType> KindsInUse(const AttributeProto& proto) {
  std::vector<AttributeProto::AttributeType> kinds;
  if (proto.has_f()) kinds.push_back(AttributeProto::FLOAT);
  if (proto.has_i()) kinds.push_back(AttributeProto::INT);
  if (proto.has_s()) kinds.push_back(AttributeProto::STRING);
  if (proto.has_t()) kinds.push_back(AttributeProto::TENSOR);
  if (proto.has_g()) kinds.push_back(AttributeProto::GRAPH);
  if (proto.has_sparse_tensor()) kinds.push_back(AttributeProto::SPARSE_TENSOR);
  if (proto.has_tp()) kinds.push_back(AttributeProto::TYPE_PROTO);
  if (proto.floats_size() > 0) kinds.push_back(AttributeProto::FLOATS);
  if (proto.ints_size() > 0) kinds.push_back(AttributeProto::INTS);
  if (proto.strings_size() > 0) kinds.push_back(AttributeProto::STRINGS);
  if (proto.tensors_size() > 0) kinds.push_back(AttributeProto::TENSORS);
  if (proto.graphs_size() > 0) kinds.push_back(AttributeProto::GRAPHS);
  if (proto.sparse_tensors_size() > 0) kinds.push_back(AttributeProto::SPARSE_TENSORS);
  if (proto.type_protos_size() > 0) kinds.push_back(AttributeProto::TYPE_PROTOS);
  return kinds;
}

// Messages must be there; numbers and strings may be left out when they are 0 or empty.
bool NeedsValue(AttributeProto::AttributeType kind) {
  return kind == AttributeProto::TENSOR || kind == AttributeProto::GRAPH ||
         kind == AttributeProto::TYPE_PROTO;
}

}  // namespace

bool HoldsValue(const AttributeProto& proto) { return !KindsInUse(proto).empty(); }

StatusOr<AttributeProto::AttributeType> AttributeKind(const AttributeProto& proto) {
  const std::vector<AttributeProto::AttributeType> used = KindsInUse(proto);
  const AttributeProto::AttributeType kind = proto.type();
  if (kind == AttributeProto::UNDEFINED) {
    if (used.size() == 1) return used.front();
    return InvalidArgument("it has no type and {} fields with a value", used.size());
  }
  for (const AttributeProto::AttributeType other : used) {
    if (other == kind) continue;
    return InvalidArgument("its type is {} but it holds a value of type {}",
                           AttributeProto::AttributeType_Name(kind),
                           AttributeProto::AttributeType_Name(other));
  }
  if (used.empty() && NeedsValue(kind)) {
    return InvalidArgument("its type is {} but it holds no value",
                           AttributeProto::AttributeType_Name(kind));
  }
  return kind;
}

StatusOr<graph::Attribute> DecodeAttribute(const AttributeProto& proto, ExternalData& external,
                                           graph::ConstantStore& constants) {
  ASSIGN_OR_RETURN(const AttributeProto::AttributeType kind, AttributeKind(proto));
  switch (kind) {
    case AttributeProto::FLOAT:
      return graph::Attribute(proto.f());
    case AttributeProto::INT:
      return graph::Attribute(static_cast<int64_t>(proto.i()));
    case AttributeProto::STRING:
      return graph::Attribute(proto.s());
    case AttributeProto::TENSOR: {
      ASSIGN_OR_RETURN(Tensor tensor, DecodeTensor(proto.t(), &external));
      return graph::Attribute(constants.Intern(std::move(tensor)));
    }
    case AttributeProto::TYPE_PROTO: {
      ASSIGN_OR_RETURN(graph::ValueType type, DecodeType(proto.tp()));
      return graph::Attribute(std::move(type));
    }
    case AttributeProto::FLOATS:
      return graph::Attribute(std::vector<float>(proto.floats().begin(), proto.floats().end()));
    case AttributeProto::INTS:
      return graph::Attribute(std::vector<int64_t>(proto.ints().begin(), proto.ints().end()));
    case AttributeProto::STRINGS:
      return graph::Attribute(
          std::vector<std::string>(proto.strings().begin(), proto.strings().end()));
    case AttributeProto::TENSORS: {
      std::vector<graph::ConstantRef> tensors;
      for (const ::onnx::TensorProto& element : proto.tensors()) {
        ASSIGN_OR_RETURN(Tensor tensor, DecodeTensor(element, &external));
        tensors.push_back(constants.Intern(std::move(tensor)));
      }
      return graph::Attribute(std::move(tensors));
    }
    case AttributeProto::TYPE_PROTOS: {
      std::vector<graph::ValueType> types;
      for (const ::onnx::TypeProto& element : proto.type_protos()) {
        ASSIGN_OR_RETURN(graph::ValueType type, DecodeType(element));
        types.push_back(std::move(type));
      }
      return graph::Attribute(std::move(types));
    }
    default:
      return InvalidArgument("values of type {} are not supported",
                             AttributeProto::AttributeType_Name(kind));
  }
}

}  // namespace tandem::onnx_import
