#include "server/transport/health_service.h"

#include <algorithm>
#include <utility>

#include "server/models/quoted.h"
#include "server/transport/grpc_status.h"
#include "server/transport/unary_answer.h"
#include "server/transport/wire_types.h"

namespace tandem::server {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// One Watch call. Writes one message at a time; a status that changes while one is being written is
// written next, and only the last of several.
class HealthService::Watcher final : public grpc::ServerWriteReactor<HealthCheckResponse> {
 public:
  Watcher(HealthService& service, std::string name) : service_(service), name_(std::move(name)) {}

  const std::string& name() const { return name_; }

  void Send(HealthCheckResponse::ServingStatus status) {
    const std::lock_guard lock(mutex_);
    wanted_ = status;
    Advance();
  }

  void End(grpc::Status status) {
    const std::lock_guard lock(mutex_);
    if (ending_) return;
    ending_ = true;
    end_status_ = std::move(status);
    Advance();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    broken_ = broken_ || !ok;
    Advance();
  }

  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    broken_ = true;
    Advance();
  }

  void OnDone() override {
    service_.Remove(this);
    delete this;
  }

 private:
  void Advance() {
    if (writing_ || finished_) return;
    if (!broken_ && wanted_ != sent_) {
      sent_ = wanted_;
      response_.set_status(sent_);
      writing_ = true;
      StartWrite(&response_);
    } else if (broken_ || ending_) {
      finished_ = true;
      Finish(broken_ ? grpc::Status::CANCELLED : end_status_);
    }
  }

  HealthService& service_;
  const std::string name_;
  std::mutex mutex_;
  HealthCheckResponse response_;
  HealthCheckResponse::ServingStatus wanted_ = HealthCheckResponse::UNKNOWN;
  HealthCheckResponse::ServingStatus sent_ = HealthCheckResponse::UNKNOWN;
  grpc::Status end_status_;
  bool writing_ = false;
  bool ending_ = false;
  bool broken_ = false;  // nobody reads any more
  bool finished_ = false;
};

HealthCheckResponse::ServingStatus HealthService::StatusOf(const std::string& service) const {
  const auto serving = [](bool ready) {
    return ready ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
  };
  if (service.empty() || service == "inference.GRPCInferenceService") {
    return serving(backend_.Ready());
  }
  const std::vector<ModelStatus> index = backend_.Index();
  const auto is_named = [&service](const ModelStatus& model) { return model.name == service; };
  if (!std::ranges::any_of(index, is_named)) return HealthCheckResponse::SERVICE_UNKNOWN;
  const bool ready = std::ranges::any_of(index, [&is_named](const ModelStatus& model) {
    return is_named(model) && model.state == ModelState::kReady;
  });
  return serving(ready && backend_.state() != ServerState::kDraining);
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context,
                                               const grpc::ByteBuffer* request,
                                               grpc::ByteBuffer* response) {
  return AnswerUnary<HealthCheckRequest, HealthCheckResponse>(
      *context, *request, *response, [this](const auto& in, auto& out) -> Status {
        const HealthCheckResponse::ServingStatus status = StatusOf(in.service());
        if (status == HealthCheckResponse::SERVICE_UNKNOWN) {
          return NotFound("service {} is unknown", Quoted(in.service()));
        }
        out.set_status(status);
        return absl::OkStatus();
      });
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(
    grpc::CallbackServerContext*, const HealthCheckRequest* request) {
  auto* watcher = new Watcher(*this, request->service());
  const std::lock_guard lock(mutex_);
  watchers_.insert(watcher);
  watcher->Send(StatusOf(watcher->name()));
  if (ended_) watcher->End(ToGrpc(Unavailable("the server is stopping")));
  return watcher;
}

void HealthService::Publish() {
  const std::lock_guard lock(mutex_);
  for (Watcher* watcher : watchers_) watcher->Send(StatusOf(watcher->name()));
}

void HealthService::EndWatches() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  for (Watcher* watcher : watchers_) {
    watcher->Send(StatusOf(watcher->name()));
    watcher->End(ToGrpc(Unavailable("the server is stopping")));
  }
}

void HealthService::Remove(Watcher* watcher) {
  const std::lock_guard lock(mutex_);
  watchers_.erase(watcher);
}

}  // namespace tandem::server
