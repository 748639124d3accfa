#include "server/transport/inference_service.h"

#include <spdlog/spdlog.h>

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "server/transport/encode.h"
#include "server/transport/grpc_status.h"
#include "server/transport/wire_types.h"

namespace tandem::server {
namespace {

using Context = InferenceService::Context;
using Reactor = InferenceService::Reactor;

// Answers a call with what `fill` returns.
Reactor* Answer(Context& context, const std::function<Status()>& fill) {
  Reactor* reactor = context.DefaultReactor();
  Status status;
  try {
    status = fill();
  } catch (const std::exception& e) {
    spdlog::error("a call ended with an exception: {}", e.what());
    status = Internal("the call failed inside the server");
  }
  reactor->Finish(ToGrpc(status));
  return reactor;
}

}  // namespace

StatusOr<ServedModelRef> InferenceService::Find(const std::string& name,
                                                const std::string& version) {
  StatusOr<ServedModelRef> model = backend_.Find(name, version);
  if (model.status().code() == absl::StatusCode::kNotFound) backend_.CountUnknownModel();
  return model;
}

Reactor* InferenceService::ServerLive(Context* context, const inference::ServerLiveRequest*,
                                      inference::ServerLiveResponse* response) {
  return Answer(*context, [response] {
    response->set_live(true);
    return absl::OkStatus();
  });
}

Reactor* InferenceService::ServerReady(Context* context, const inference::ServerReadyRequest*,
                                       inference::ServerReadyResponse* response) {
  return Answer(*context, [this, response] {
    response->set_ready(backend_.Ready());
    return absl::OkStatus();
  });
}

Reactor* InferenceService::ModelReady(Context* context, const inference::ModelReadyRequest* request,
                                      inference::ModelReadyResponse* response) {
  return Answer(*context, [=, this] { return FillModelReady(*request, *response); });
}

Reactor* InferenceService::ServerMetadata(Context* context, const inference::ServerMetadataRequest*,
                                          inference::ServerMetadataResponse* response) {
  return Answer(*context, [response] {
    response->set_name("tandem");
    response->set_version(TANDEM_VERSION);
    response->add_extensions("binary_tensor_data");
    response->add_extensions("model_configuration");
    return absl::OkStatus();
  });
}

Reactor* InferenceService::ModelMetadata(Context* context,
                                         const inference::ModelMetadataRequest* request,
                                         inference::ModelMetadataResponse* response) {
  return Answer(*context, [=, this] { return FillModelMetadata(*request, *response); });
}

Reactor* InferenceService::ModelConfig(Context* context,
                                       const inference::ModelConfigRequest* request,
                                       inference::ModelConfigResponse* response) {
  return Answer(*context, [=, this] { return FillModelConfig(*request, *response); });
}

Reactor* InferenceService::ModelInfer(Context* context, const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) {
  auto* reactor = new InferReactor(
      {.backend = backend_, .clock = clock_, .open_calls = open_calls_}, *context, *response);
  reactor->Start(*request);
  return reactor;
}

Reactor* InferenceService::RepositoryIndex(Context* context,
                                           const inference::RepositoryIndexRequest* request,
                                           inference::RepositoryIndexResponse* response) {
  return Answer(*context, [=, this]() -> Status {
    if (!request->repository_name().empty()) {
      return NotFound("repository {} is not found; the only one has no name",
                      Quoted(request->repository_name()));
    }
    for (const ModelStatus& model : backend_.Index()) {
      if (request->ready() && model.state != ModelState::kReady) continue;
      inference::RepositoryIndexResponse::ModelIndex& entry = *response->add_models();
      entry.set_name(model.name);
      if (model.version > 0) entry.set_version(std::to_string(model.version));
      entry.set_state(std::string(ModelStateName(model.state)));
      entry.set_reason(model.reason);
    }
    return absl::OkStatus();
  });
}

Status InferenceService::FillModelReady(const inference::ModelReadyRequest& request,
                                        inference::ModelReadyResponse& response) {
  const StatusOr<ServedModelRef> model = Find(request.name(), request.version());
  // A model that is there but not ready is an answer, not an error.
  if (!model.ok() && model.status().code() != absl::StatusCode::kUnavailable) {
    return model.status();
  }
  response.set_ready(model.ok() && backend_.state() != ServerState::kDraining);
  return absl::OkStatus();
}

Status InferenceService::FillModelMetadata(const inference::ModelMetadataRequest& request,
                                           inference::ModelMetadataResponse& response) {
  ASSIGN_OR_RETURN(const ServedModelRef model, Find(request.name(), request.version()));
  ASSIGN_OR_RETURN(const std::vector<int64_t> versions, backend_.ReadyVersions(request.name()));
  response = DescribeModel(*model, versions);
  return absl::OkStatus();
}

Status InferenceService::FillModelConfig(const inference::ModelConfigRequest& request,
                                         inference::ModelConfigResponse& response) {
  ASSIGN_OR_RETURN(const ServedModelRef model, Find(request.name(), request.version()));
  *response.mutable_config() = DescribeConfig(*model, backend_.runners());
  return absl::OkStatus();
}

}  // namespace tandem::server
