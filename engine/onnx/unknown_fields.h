// Fields that are newer than the messages of Debian's libonnx (IR version 8) arrive as unknown
// fields. Those with a meaning are decoded here, those without are passed over by name, any other
// is an error that names message and field number.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

#include "engine/base/status.h"

namespace tandem::onnx_import {

// InvalidArgument names the first field, in `message` or in anything inside it, that is not known.
Status CheckUnknownFields(const google::protobuf::Message& message);

// NodeProto.overload and FunctionProto.overload (IR version 10); "" where absent.
std::string OverloadOf(const ::onnx::NodeProto& node);
std::string OverloadOf(const ::onnx::FunctionProto& function);

// FunctionProto.attribute_proto (IR version 9): the attributes with a default.
StatusOr<std::vector<::onnx::AttributeProto>> DefaultAttributes(
    const ::onnx::FunctionProto& function);

}  // namespace tandem::onnx_import
