// tandem::Status as gRPC's: the codes are the same numbers.
#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "engine/base/status.h"

namespace tandem::server {

inline grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()), std::string(Message(status))};
}

}  // namespace tandem::server
