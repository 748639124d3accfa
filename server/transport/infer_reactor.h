// One ModelInfer call, from the request's arrival to its answer.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/message_allocator.h>
#include <grpcpp/support/server_callback.h>

#include <memory>

#include "engine/base/clock.h"
#include "grpc_service.pb.h"
#include "server/transport/backend.h"

namespace tandem::server {

// Makes requests with shared ownership, so that tensors can view their bytes for as long as they
// like. Thread-safe.
class InferMessages final
    : public grpc::MessageAllocator<inference::ModelInferRequest, inference::ModelInferResponse> {
 public:
  grpc::MessageHolder<inference::ModelInferRequest, inference::ModelInferResponse>*
  AllocateMessages() override;

  // The request of a call whose messages were made here.
  static std::shared_ptr<const inference::ModelInferRequest> RequestOf(
      grpc::CallbackServerContext& context);
};

// Decodes the request, hands it to the backend and answers when the backend does. The call's
// deadline becomes the request's; a cancelled call cancels the request. Deletes itself when the
// call is over.
class InferReactor final : public grpc::ServerUnaryReactor {
 public:
  InferReactor(Backend& backend, const Clock& clock, grpc::CallbackServerContext& context,
               inference::ModelInferResponse& response);

  // Called once, before the reactor is returned to gRPC. Throws nothing.
  void Start(std::shared_ptr<const inference::ModelInferRequest> request);

  void OnCancel() override;
  void OnDone() override { delete this; }

 private:
  void Submit(const std::shared_ptr<const inference::ModelInferRequest>& request);
  void Answer(const ServedModel& model, const StatusOr<InferReply>& reply);
  // Answers with an error, and tells the client when a retry helps.
  void Fail(const Status& status);

  Backend& backend_;
  const Clock& clock_;
  grpc::CallbackServerContext& context_;
  inference::ModelInferResponse& response_;
  Clock::TimePoint deadline_ = Clock::TimePoint::max();
  std::shared_ptr<InferCall> call_;  // set before gRPC can call OnCancel
};

}  // namespace tandem::server
