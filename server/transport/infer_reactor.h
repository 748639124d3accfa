// One ModelInfer call, from the request's arrival to its answer.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/message_allocator.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/clock.h"
#include "server/transport/answer_gate.h"
#include "server/transport/backend.h"

namespace tandem::server {

// Decodes the request, hands it to the backend and answers when the backend does. The call's
// deadline becomes the request's; a cancelled call cancels the request. Deletes itself when the
// call is over.
class InferReactor final : public grpc::ServerUnaryReactor {
 public:
  // `open_calls` counts the reactors that live; it is one less when the answer has left.
  struct Surroundings {
    Backend& backend;
    const Clock& clock;
    AnswerGate& gate;
    std::atomic<int64_t>& open_calls;
  };

  InferReactor(const Surroundings& surroundings, grpc::CallbackServerContext& context,
               grpc::ByteBuffer& response);
  ~InferReactor() override;

  // Called once, before the reactor is returned to gRPC. Throws nothing.
  void Start(const grpc::ByteBuffer& request);

  void OnCancel() override;
  void OnDone() override { delete this; }

 private:
  void Submit(const grpc::ByteBuffer& bytes);
  void Answer(const ServedModel& model, const StatusOr<InferReply>& reply);
  Status Encode(const ServedModel& model, const InferReply& reply);
  // Answers with an error, and tells the client when a retry helps.
  void Fail(const Status& status);
  // As Fail, for a request that reached no model.
  void FailUnserved(const Status& status);
  // The deadline is over, or gRPC thinks so: that is the backend's to report, not a cancel.
  bool OutOfTime() const;

  Backend& backend_;
  const Clock& clock_;
  AnswerGate& gate_;
  std::atomic<int64_t>& open_calls_;
  grpc::CallbackServerContext& context_;
  grpc::ByteBuffer& response_;
  std::string id_;
  Clock::TimePoint deadline_ = Clock::TimePoint::max();
  // Set before gRPC calls OnCancel, which it does once Start has returned and the reactor is its
  // own.
  std::shared_ptr<InferCall> call_;
};

}  // namespace tandem::server
