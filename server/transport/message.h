// Messages as bytes. Methods take bytes, since gRPC itself would answer UNIMPLEMENTED, without a
// text, to bytes that are no message.
#pragma once

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/byte_buffer.h>

#include "engine/base/status.h"

namespace tandem::server {

// Internal, naming the kind of message, when the bytes are none.
template <typename Proto>
Status ParseMessage(const grpc::ByteBuffer& bytes, Proto& message) {
  grpc::ByteBuffer buffer(bytes);  // shares the bytes
  if (grpc::SerializationTraits<Proto>::Deserialize(&buffer, &message).ok()) {
    return absl::OkStatus();
  }
  return Internal("the {} bytes that came are no {}", bytes.Length(), Proto::descriptor()->name());
}

template <typename Proto>
Status WriteMessage(const Proto& message, grpc::ByteBuffer& bytes) {
  bool own = false;
  if (grpc::SerializationTraits<Proto>::Serialize(message, &bytes, &own).ok()) {
    return absl::OkStatus();
  }
  return Internal("the response could not be written");
}

}  // namespace tandem::server
