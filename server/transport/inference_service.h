// inference.GRPCInferenceService. Handlers look something up and answer at once, or hand over; none
// waits or computes.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/base/clock.h"
#include "server/transport/answer_gate.h"
#include "server/transport/backend.h"
#include "server/transport/extension_calls.h"
#include "server/transport/infer_reactor.h"

namespace tandem::server {

// Thread-safe; `backend` and `clock` outlive it. Calls that are not overridden answer
// UNIMPLEMENTED.
class InferenceService final : public ExtensionCalls {
 public:
  InferenceService(Backend& backend, const Clock& clock) : backend_(backend), clock_(clock) {}

  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;
  using Bytes = grpc::ByteBuffer;

  // ModelInfer calls that came, and those whose answer has not left yet.
  uint64_t calls() const { return calls_; }
  int64_t open_calls() const { return open_calls_; }
  // What answers of ModelInfer pass.
  AnswerGate& gate() { return gate_; }

  Reactor* ServerLive(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ServerReady(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ServerMetadata(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ModelReady(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ModelMetadata(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ModelConfig(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ModelInfer(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* RepositoryIndex(Context* context, const Bytes* request, Bytes* response) override;

 private:
  // Finds a model that some call but ModelInfer names; counts those that cannot be found.
  StatusOr<ServedModelRef> Find(const std::string& name, const std::string& version);
  Status FillModelReady(const inference::ModelReadyRequest& request,
                        inference::ModelReadyResponse& response);
  Status FillModelMetadata(const inference::ModelMetadataRequest& request,
                           inference::ModelMetadataResponse& response);
  Status FillModelConfig(const inference::ModelConfigRequest& request,
                         inference::ModelConfigResponse& response);
  Status FillRepositoryIndex(const inference::RepositoryIndexRequest& request,
                             inference::RepositoryIndexResponse& response) const;

  Backend& backend_;
  const Clock& clock_;
  AnswerGate gate_;
  std::atomic<uint64_t> calls_{0};
  std::atomic<int64_t> open_calls_{0};
};

}  // namespace tandem::server
