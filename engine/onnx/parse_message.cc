#include "engine/onnx/parse_message.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <limits>

namespace tandem::onnx_import {
namespace {

constexpr int kMaxMessageDepth = 100;

}  // namespace

Status ParseMessage(google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
                    google::protobuf::Message& message) {
  if (size > std::numeric_limits<int>::max()) {
    return InvalidArgument(
        "{} bytes pass the 2 GiB that a protobuf message may have; larger weights "
        "belong in external data",
        size);
  }
  google::protobuf::io::CodedInputStream input(&stream);
  input.SetRecursionLimit(kMaxMessageDepth);
  input.SetTotalBytesLimit(static_cast<int>(size));
  if (message.ParseFromCodedStream(&input) && input.ConsumedEntireMessage() &&
      input.CurrentPosition() == size) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "{} bytes are not a serialized {}: truncated, damaged, nested more than {} deep, or another "
      "kind of file",
      size, message.GetDescriptor()->name(), kMaxMessageDepth);
}

Status ParseMessage(std::string_view bytes, google::protobuf::Message& message) {
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return InvalidArgument("{} bytes pass the 2 GiB that a protobuf message may have",
                           bytes.size());
  }
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  return ParseMessage(stream, static_cast<int64_t>(bytes.size()), message);
}

}  // namespace tandem::onnx_import
