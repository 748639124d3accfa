#include "server/transport/inference_service.h"

#include <string>
#include <vector>

#include "server/models/quoted.h"
#include "server/transport/encode.h"
#include "server/transport/unary_answer.h"
#include "server/transport/wire_types.h"

namespace tandem::server {

using Reactor = InferenceService::Reactor;

StatusOr<ServedModelRef> InferenceService::Find(const std::string& name,
                                                const std::string& version) {
  StatusOr<ServedModelRef> model = backend_.Find(name, version);
  if (!model.ok()) backend_.CountUnserved(UnservedReasonOf(model.status()));
  return model;
}

Reactor* InferenceService::ServerLive(Context* context, const Bytes* request, Bytes* response) {
  return AnswerUnary<inference::ServerLiveRequest, inference::ServerLiveResponse>(
      *context, *request, *response, [](const auto&, auto& live) {
        live.set_live(true);
        return absl::OkStatus();
      });
}

Reactor* InferenceService::ServerReady(Context* context, const Bytes* request, Bytes* response) {
  return AnswerUnary<inference::ServerReadyRequest, inference::ServerReadyResponse>(
      *context, *request, *response, [this](const auto&, auto& ready) {
        ready.set_ready(backend_.Ready());
        return absl::OkStatus();
      });
}

Reactor* InferenceService::ModelReady(Context* context, const Bytes* request, Bytes* response) {
  return AnswerUnary<inference::ModelReadyRequest, inference::ModelReadyResponse>(
      *context, *request, *response,
      [this](const auto& in, auto& out) { return FillModelReady(in, out); });
}

Reactor* InferenceService::ServerMetadata(Context* context, const Bytes* request, Bytes* response) {
  return AnswerUnary<inference::ServerMetadataRequest, inference::ServerMetadataResponse>(
      *context, *request, *response, [](const auto&, auto& metadata) {
        metadata.set_name("tandem");
        metadata.set_version(TANDEM_VERSION);
        metadata.add_extensions("binary_tensor_data");
        metadata.add_extensions("model_configuration");
        return absl::OkStatus();
      });
}

Reactor* InferenceService::ModelMetadata(Context* context, const Bytes* request, Bytes* response) {
  return AnswerUnary<inference::ModelMetadataRequest, inference::ModelMetadataResponse>(
      *context, *request, *response,
      [this](const auto& in, auto& out) { return FillModelMetadata(in, out); });
}

Reactor* InferenceService::ModelConfig(Context* context, const Bytes* request, Bytes* response) {
  return AnswerUnary<inference::ModelConfigRequest, inference::ModelConfigResponse>(
      *context, *request, *response,
      [this](const auto& in, auto& out) { return FillModelConfig(in, out); });
}

Reactor* InferenceService::ModelInfer(Context* context, const Bytes* request, Bytes* response) {
  calls_.fetch_add(1, std::memory_order_relaxed);
  auto* reactor = new InferReactor(
      {.backend = backend_, .clock = clock_, .gate = gate_, .open_calls = open_calls_}, *context,
      *response);
  reactor->Start(*request);
  return reactor;
}

Reactor* InferenceService::RepositoryIndex(Context* context, const Bytes* request,
                                           Bytes* response) {
  return AnswerUnary<inference::RepositoryIndexRequest, inference::RepositoryIndexResponse>(
      *context, *request, *response,
      [this](const auto& in, auto& out) { return FillRepositoryIndex(in, out); });
}

Status InferenceService::FillRepositoryIndex(const inference::RepositoryIndexRequest& request,
                                             inference::RepositoryIndexResponse& response) const {
  if (!request.repository_name().empty()) {
    return NotFound("repository {} is not found; the only one has no name",
                    Quoted(request.repository_name()));
  }
  for (const ModelStatus& model : backend_.Index()) {
    if (request.ready() && model.state != ModelState::kReady) continue;
    inference::RepositoryIndexResponse::ModelIndex& entry = *response.add_models();
    entry.set_name(model.name);
    if (model.version > 0) entry.set_version(std::to_string(model.version));
    entry.set_state(std::string(ModelStateName(model.state)));
    entry.set_reason(model.reason);
  }
  return absl::OkStatus();
}

Status InferenceService::FillModelReady(const inference::ModelReadyRequest& request,
                                        inference::ModelReadyResponse& response) {
  // A model that is there but not ready is an answer, not an error.
  if (absl::IsUnavailable(backend_.Find(request.name(), request.version()).status())) {
    response.set_ready(false);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Find(request.name(), request.version()).status());
  response.set_ready(backend_.state() != ServerState::kDraining);
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
