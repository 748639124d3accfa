#include "server/transport/extension_calls.h"

#include <string_view>

#include "server/transport/grpc_status.h"

namespace tandem::server {
namespace {

using Reactor = ExtensionCalls::Reactor;

grpc::Status NotOffered(std::string_view name) {
  return ToGrpc(Unimplemented("this server does not offer {}", name));
}

Reactor* Refuse(grpc::CallbackServerContext& context, std::string_view name) {
  Reactor* reactor = context.DefaultReactor();
  reactor->Finish(NotOffered(name));
  return reactor;
}

class RefusedStream final : public grpc::ServerBidiReactor<inference::ModelInferRequest,
                                                           inference::ModelStreamInferResponse> {
 public:
  RefusedStream() { Finish(NotOffered("ModelStreamInfer")); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse>*
ExtensionCalls::ModelStreamInfer(Context*) {
  return new RefusedStream();
}

Reactor* ExtensionCalls::ModelStatistics(Context* context, const inference::ModelStatisticsRequest*,
                                         inference::ModelStatisticsResponse*) {
  return Refuse(*context, "ModelStatistics");
}

Reactor* ExtensionCalls::RepositoryModelLoad(Context* context,
                                             const inference::RepositoryModelLoadRequest*,
                                             inference::RepositoryModelLoadResponse*) {
  return Refuse(*context, "RepositoryModelLoad");
}

Reactor* ExtensionCalls::RepositoryModelUnload(Context* context,
                                               const inference::RepositoryModelUnloadRequest*,
                                               inference::RepositoryModelUnloadResponse*) {
  return Refuse(*context, "RepositoryModelUnload");
}

Reactor* ExtensionCalls::SystemSharedMemoryStatus(Context* context,
                                                  const inference::SystemSharedMemoryStatusRequest*,
                                                  inference::SystemSharedMemoryStatusResponse*) {
  return Refuse(*context, "SystemSharedMemoryStatus");
}

Reactor* ExtensionCalls::SystemSharedMemoryRegister(
    Context* context, const inference::SystemSharedMemoryRegisterRequest*,
    inference::SystemSharedMemoryRegisterResponse*) {
  return Refuse(*context, "SystemSharedMemoryRegister");
}

Reactor* ExtensionCalls::SystemSharedMemoryUnregister(
    Context* context, const inference::SystemSharedMemoryUnregisterRequest*,
    inference::SystemSharedMemoryUnregisterResponse*) {
  return Refuse(*context, "SystemSharedMemoryUnregister");
}

Reactor* ExtensionCalls::CudaSharedMemoryStatus(Context* context,
                                                const inference::CudaSharedMemoryStatusRequest*,
                                                inference::CudaSharedMemoryStatusResponse*) {
  return Refuse(*context, "CudaSharedMemoryStatus");
}

Reactor* ExtensionCalls::CudaSharedMemoryRegister(Context* context,
                                                  const inference::CudaSharedMemoryRegisterRequest*,
                                                  inference::CudaSharedMemoryRegisterResponse*) {
  return Refuse(*context, "CudaSharedMemoryRegister");
}

Reactor* ExtensionCalls::CudaSharedMemoryUnregister(
    Context* context, const inference::CudaSharedMemoryUnregisterRequest*,
    inference::CudaSharedMemoryUnregisterResponse*) {
  return Refuse(*context, "CudaSharedMemoryUnregister");
}

Reactor* ExtensionCalls::TraceSetting(Context* context, const inference::TraceSettingRequest*,
                                      inference::TraceSettingResponse*) {
  return Refuse(*context, "TraceSetting");
}

Reactor* ExtensionCalls::LogSettings(Context* context, const inference::LogSettingsRequest*,
                                     inference::LogSettingsResponse*) {
  return Refuse(*context, "LogSettings");
}

}  // namespace tandem::server
