// inference.GRPCInferenceService. Handlers look something up and answer at once, or hand over; none
// waits or computes.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/base/clock.h"
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

  // ModelInfer calls whose answer has not left yet.
  int64_t open_calls() const { return open_calls_; }

  Reactor* ServerLive(Context* context, const inference::ServerLiveRequest* request,
                      inference::ServerLiveResponse* response) override;
  Reactor* ServerReady(Context* context, const inference::ServerReadyRequest* request,
                       inference::ServerReadyResponse* response) override;
  Reactor* ModelReady(Context* context, const inference::ModelReadyRequest* request,
                      inference::ModelReadyResponse* response) override;
  Reactor* ServerMetadata(Context* context, const inference::ServerMetadataRequest* request,
                          inference::ServerMetadataResponse* response) override;
  Reactor* ModelMetadata(Context* context, const inference::ModelMetadataRequest* request,
                         inference::ModelMetadataResponse* response) override;
  Reactor* ModelConfig(Context* context, const inference::ModelConfigRequest* request,
                       inference::ModelConfigResponse* response) override;
  Reactor* ModelInfer(Context* context, const grpc::ByteBuffer* request,
                      grpc::ByteBuffer* response) override;
  Reactor* RepositoryIndex(Context* context, const inference::RepositoryIndexRequest* request,
                           inference::RepositoryIndexResponse* response) override;

 private:
  // Finds a model that some call but ModelInfer names; counts those that are not there.
  StatusOr<ServedModelRef> Find(const std::string& name, const std::string& version);
  Status FillModelReady(const inference::ModelReadyRequest& request,
                        inference::ModelReadyResponse& response);
  Status FillModelMetadata(const inference::ModelMetadataRequest& request,
                           inference::ModelMetadataResponse& response);
  Status FillModelConfig(const inference::ModelConfigRequest& request,
                         inference::ModelConfigResponse& response);

  Backend& backend_;
  const Clock& clock_;
  std::atomic<int64_t> open_calls_{0};
};

}  // namespace tandem::server
