// Serialized protobuf messages from outside.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <string_view>

#include "engine/base/status.h"

namespace tandem::onnx_import {

// Parses all of `bytes` with messages nested at most 100 deep. InvalidArgument when they are not
// one whole message of that type.
Status ParseMessage(std::string_view bytes, google::protobuf::Message& message);

// InvalidArgument when a message of `size` bytes is larger than protobuf's may be.
Status CheckMessageSize(int64_t size);
// What `size` bytes are refused with that are not a message of that type.
Status NotAMessage(int64_t size, const google::protobuf::Message& message);

}  // namespace tandem::onnx_import
