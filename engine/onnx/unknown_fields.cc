#include "engine/onnx/unknown_fields.h"

#include <google/protobuf/unknown_field_set.h>

#include <algorithm>

#include "engine/onnx/parse_message.h"

namespace tandem::onnx_import {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

constexpr int kNodeOverload = 8;
constexpr int kFunctionAttributeProto = 11;
constexpr int kFunctionOverload = 13;

// Fields of ONNX up to IR version 14 that libonnx 1.12 does not know; all are messages or strings.
struct NewerField {
  std::string_view message;
  int number;
  std::string_view name;
};
constexpr NewerField kNewerFields[] = {
    // Decoded.
    {"NodeProto", kNodeOverload, "overload"},
    {"FunctionProto", kFunctionAttributeProto, "attribute_proto"},
    {"FunctionProto", kFunctionOverload, "overload"},
    // Without meaning for inference; the types in a function's value_info are inferred anyway.
    {"ModelProto", 26, "configuration"},
    {"NodeProto", 9, "metadata_props"},
    {"NodeProto", 10, "device_configurations"},
    {"GraphProto", 16, "metadata_props"},
    {"ValueInfoProto", 4, "metadata_props"},
    {"TensorProto", 16, "metadata_props"},
    {"FunctionProto", 12, "value_info"},
    {"FunctionProto", 14, "metadata_props"},
};

Status CheckField(const Message& message, const UnknownField& field) {
  const google::protobuf::Descriptor& descriptor = *message.GetDescriptor();
  if (const FieldDescriptor* known = descriptor.FindFieldByNumber(field.number())) {
    const std::string value = field.type() == UnknownField::TYPE_VARINT
                                  ? fmt::format(" {}", field.varint())
                                  : " or wire type";
    return InvalidArgument("field {} ({}) of {} has a value{} that is not known", field.number(),
                           known->name(), descriptor.name(), value);
  }
  const bool known = std::ranges::any_of(kNewerFields, [&](const NewerField& newer) {
    return newer.message == descriptor.name() && newer.number == field.number();
  });
  if (!known) {
    return InvalidArgument("field {} of {} is not known to this version", field.number(),
                           descriptor.name());
  }
  if (field.type() != UnknownField::TYPE_LENGTH_DELIMITED) {
    return InvalidArgument("field {} of {} has a wire type that is not ONNX's", field.number(),
                           descriptor.name());
  }
  return absl::OkStatus();
}

// The last value of a string field, as protobuf reads a field that is not repeated.
std::string LastString(const UnknownFieldSet& fields, int number) {
  std::string value;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    if (field.number() == number && field.type() == UnknownField::TYPE_LENGTH_DELIMITED) {
      value = field.length_delimited();
    }
  }
  return value;
}

}  // namespace

// Recursion is bounded by the depth at which the parser gives up.
Status CheckUnknownFields(const Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const UnknownFieldSet& unknown = reflection.GetUnknownFields(message);
  for (int i = 0; i < unknown.field_count(); ++i) {
    RETURN_IF_ERROR(CheckField(message, unknown.field(i)));
  }
  const google::protobuf::Descriptor& descriptor = *message.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor* field = descriptor.field(i);
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      if (!reflection.HasField(message, field)) continue;
      RETURN_IF_ERROR(CheckUnknownFields(reflection.GetMessage(message, field)));
      continue;
    }
    const int count = reflection.FieldSize(message, field);
    for (int index = 0; index < count; ++index) {
      RETURN_IF_ERROR(CheckUnknownFields(reflection.GetRepeatedMessage(message, field, index)));
    }
  }
  return absl::OkStatus();
}

std::string OverloadOf(const ::onnx::NodeProto& node) {
  return LastString(node.unknown_fields(), kNodeOverload);
}

std::string OverloadOf(const ::onnx::FunctionProto& function) {
  return LastString(function.unknown_fields(), kFunctionOverload);
}

StatusOr<std::vector<::onnx::AttributeProto>> DefaultAttributes(
    const ::onnx::FunctionProto& function) {
  std::vector<::onnx::AttributeProto> attributes;
  const UnknownFieldSet& fields = function.unknown_fields();
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    if (field.number() != kFunctionAttributeProto) continue;
    ::onnx::AttributeProto& attribute = attributes.emplace_back();
    RETURN_IF_ERROR(Annotate(ParseMessage(field.length_delimited(), attribute),
                             fmt::format("attribute_proto of function '{}'", function.name())));
    RETURN_IF_ERROR(CheckUnknownFields(attribute));
  }
  return attributes;
}

}  // namespace tandem::onnx_import
