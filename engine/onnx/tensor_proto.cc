#include "engine/onnx/tensor_proto.h"

#include <onnx/onnx-data_pb.h>

#include "engine/onnx/encode.h"
#include "engine/onnx/parse_message.h"
#include "engine/onnx/tensor_decode.h"
#include "engine/onnx/unknown_fields.h"

namespace tandem::onnx_import {

StatusOr<ParsedTensor> ParseNamedTensor(std::string_view bytes) {
  ::onnx::TensorProto proto;
  RETURN_IF_ERROR(ParseMessage(bytes, proto));
  RETURN_IF_ERROR(CheckUnknownFields(proto));
  ParsedTensor parsed;
  parsed.name = proto.name();
  ASSIGN_OR_RETURN(parsed.tensor, DecodeTensor(proto, nullptr));
  return parsed;
}

StatusOr<Tensor> ParseTensor(std::string_view bytes) {
  ASSIGN_OR_RETURN(ParsedTensor parsed, ParseNamedTensor(bytes));
  return std::move(parsed.tensor);
}

StatusOr<std::vector<Tensor>> ParseTensorSequence(std::string_view bytes) {
  ::onnx::SequenceProto proto;
  RETURN_IF_ERROR(ParseMessage(bytes, proto));
  RETURN_IF_ERROR(CheckUnknownFields(proto));
  // A sequence without elements may say of which type they are not.
  if (proto.elem_type() != ::onnx::SequenceProto::TENSOR &&
      (proto.sparse_tensor_values_size() > 0 || proto.sequence_values_size() > 0 ||
       proto.map_values_size() > 0 || proto.optional_values_size() > 0)) {
    return InvalidArgument("the sequence holds elements of type {} where tensors are expected",
                           ::onnx::SequenceProto::DataType_Name(
                               static_cast<::onnx::SequenceProto::DataType>(proto.elem_type())));
  }
  std::vector<Tensor> tensors;
  for (const ::onnx::TensorProto& element : proto.tensor_values()) {
    ASSIGN_OR_RETURN(Tensor tensor, DecodeTensor(element, nullptr));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::string SerializeTensor(const Tensor& tensor, std::string_view name) {
  ::onnx::TensorProto proto;
  EncodeTensor(tensor, name, proto);
  return proto.SerializeAsString();
}

}  // namespace tandem::onnx_import
