#include "engine/onnx/parse_message.h"

#include <google/protobuf/io/coded_stream.h>

#include <limits>

namespace tandem::onnx_import {
namespace {

constexpr int kMaxMessageDepth = 100;

}  // namespace

Status CheckMessageSize(int64_t size) {
  if (size <= std::numeric_limits<int>::max()) return absl::OkStatus();
  return InvalidArgument(
      "{} bytes pass the 2 GiB that a protobuf message may have; larger weights belong in external "
      "data",
      size);
}

Status NotAMessage(int64_t size, const google::protobuf::Message& message) {
  return InvalidArgument(
      "{} bytes are not a serialized {}: truncated, damaged, nested more than {} deep, or another "
      "kind of file",
      size, message.GetDescriptor()->name(), kMaxMessageDepth);
}

Status ParseMessage(std::string_view bytes, google::protobuf::Message& message) {
  const auto size = static_cast<int64_t>(bytes.size());
  RETURN_IF_ERROR(CheckMessageSize(size));
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                                               static_cast<int>(size));
  input.SetRecursionLimit(kMaxMessageDepth);
  const bool parsed = message.ParseFromCodedStream(&input) && input.ConsumedEntireMessage();
  return parsed ? absl::OkStatus() : NotAMessage(size, message);
}

}  // namespace tandem::onnx_import
