// Serialized protobuf messages from outside.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/message.h>

#include <cstdint>
#include <string_view>

#include "engine/base/status.h"

namespace tandem::onnx_import {

// Parses exactly `size` bytes of `stream` with messages nested at most 100 deep. InvalidArgument
// when they are not one whole message of that type.
Status ParseMessage(google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
                    google::protobuf::Message& message);
Status ParseMessage(std::string_view bytes, google::protobuf::Message& message);

}  // namespace tandem::onnx_import
