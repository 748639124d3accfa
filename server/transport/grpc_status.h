// tandem::Status as gRPC's: the codes are the same numbers; retry hints travel in a trailer.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <optional>
#include <string>

#include "engine/base/status.h"
#include "server/models/retry_hint.h"

namespace tandem::server {

inline grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()), std::string(Message(status))};
}

// ToGrpc, for the call of `context`: its client is told when to retry where that helps.
inline grpc::Status AnswerOf(const Status& status, grpc::CallbackServerContext& context) {
  if (const std::optional<std::chrono::milliseconds> wait = RetryAfter(status)) {
    context.AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(wait->count()));
  }
  return ToGrpc(status);
}

}  // namespace tandem::server
