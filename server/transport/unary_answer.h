// The answer to a call that needs no waiting.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>
#include <spdlog/spdlog.h>

#include <exception>

#include "engine/base/status.h"
#include "server/transport/grpc_status.h"
#include "server/transport/message.h"

namespace tandem::server {

// Answers with what `fill(const Request&, Response&)`, which returns a Status, makes of the
// request.
template <typename Request, typename Response, typename Fill>
grpc::ServerUnaryReactor* AnswerUnary(grpc::CallbackServerContext& context,
                                      const grpc::ByteBuffer& request_bytes,
                                      grpc::ByteBuffer& response_bytes, Fill fill) {
  const auto answer = [&]() -> Status {
    Request request;
    Response response;
    RETURN_IF_ERROR(ParseMessage(request_bytes, request));
    RETURN_IF_ERROR(fill(request, response));
    return WriteMessage(response, response_bytes);
  };
  grpc::ServerUnaryReactor* reactor = context.DefaultReactor();
  Status status;
  try {
    status = answer();
  } catch (const std::exception& e) {
    spdlog::error("a call ended with an exception: {}", e.what());
    status = Internal("the call failed inside the server");
  }
  reactor->Finish(AnswerOf(status, context));
  return reactor;
}

}  // namespace tandem::server
