#include "server/transport/infer_reactor.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "grpc_service.pb.h"
#include "server/transport/decode.h"
#include "server/transport/encode.h"
#include "server/transport/grpc_status.h"
#include "server/transport/message.h"

namespace tandem::server {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;
using std::chrono::milliseconds;

// gRPC's own timer ends a call at its deadline, rounded to milliseconds: what it cancels so close
// to the deadline has run out of time.
constexpr milliseconds kDeadlineSlack{5};

// The request with shared ownership, so that tensors can view its bytes for as long as they like.
StatusOr<std::shared_ptr<const ModelInferRequest>> Parse(const grpc::ByteBuffer& bytes) {
  auto request = std::make_shared<ModelInferRequest>();
  RETURN_IF_ERROR(ParseMessage(bytes, *request));
  return request;
}

Clock::TimePoint DeadlineOf(const grpc::CallbackServerContext& context, const Clock& clock) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return Clock::TimePoint::max();
  const auto left = deadline - std::chrono::system_clock::now();
  const Clock::TimePoint now = clock.Now();
  if (left > Clock::TimePoint::max() - now) return Clock::TimePoint::max();
  return now + std::chrono::duration_cast<Clock::Duration>(left);
}

}  // namespace

InferReactor::InferReactor(const Surroundings& surroundings, grpc::CallbackServerContext& context,
                           grpc::ByteBuffer& response)
    : backend_(surroundings.backend),
      clock_(surroundings.clock),
      gate_(surroundings.gate),
      open_calls_(surroundings.open_calls),
      context_(context),
      response_(response) {
  ++open_calls_;
}

InferReactor::~InferReactor() { --open_calls_; }

void InferReactor::Start(const grpc::ByteBuffer& request) {
  try {
    Submit(request);
  } catch (const std::exception& e) {
    spdlog::error("ModelInfer: exception: {}", e.what());
    Fail(Internal("the request could not be read"));
  }
}

void InferReactor::Submit(const grpc::ByteBuffer& bytes) {
  const StatusOr<std::shared_ptr<const ModelInferRequest>> parsed = Parse(bytes);
  if (!parsed.ok()) return FailUnserved(parsed.status());
  const ModelInferRequest& request = **parsed;
  StatusOr<ServedModelRef> model = backend_.Find(request.model_name(), request.model_version());
  if (!model.ok()) return FailUnserved(model.status());
  StatusOr<InferRequest> decoded = DecodeInferRequest(*parsed, *model);
  if (!decoded.ok()) {
    (*model)->metrics->Refused(ReasonOf(decoded.status()));
    return Fail(decoded.status());
  }
  deadline_ = DeadlineOf(context_, clock_);
  decoded->deadline = deadline_;
  // gRPC calls OnCancel after Start only; a run inside Submit asks.
  decoded->cancelled = [this] { return !OutOfTime() && context_.IsCancelled(); };
  id_ = request.id();
  call_ = backend_.Submit(
      *std::move(decoded),
      [this, model = *std::move(model)](StatusOr<InferReply> reply) { Answer(*model, reply); });
}

void InferReactor::Answer(const ServedModel& model, const StatusOr<InferReply>& reply) {
  if (!reply.ok()) return Fail(reply.status());
  Status encoded;
  try {
    encoded = Encode(model, *reply);
  } catch (const std::exception& e) {
    spdlog::error("ModelInfer: exception: {}", e.what());
    encoded = Internal("the response could not be written");
  }
  if (!encoded.ok()) return Fail(encoded);
  gate_.Pass([this] { Finish(grpc::Status::OK); });
}

Status InferReactor::Encode(const ServedModel& model, const InferReply& reply) {
  ModelInferResponse message;
  message.set_id(id_);
  RETURN_IF_ERROR(EncodeInferResponse(reply, model, message));
  return WriteMessage(message, response_);
}

void InferReactor::Fail(const Status& status) {
  gate_.Pass([this, answer = AnswerOf(status, context_)] { Finish(answer); });
}

void InferReactor::FailUnserved(const Status& status) {
  backend_.CountUnserved(UnservedReasonOf(status));
  Fail(status);
}

bool InferReactor::OutOfTime() const {
  return deadline_ != Clock::TimePoint::max() && clock_.Now() + kDeadlineSlack >= deadline_;
}

void InferReactor::OnCancel() {
  if (!OutOfTime() && call_ != nullptr) call_->Cancel();
}

}  // namespace tandem::server
