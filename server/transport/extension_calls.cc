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

Reactor* ExtensionCalls::ModelStatistics(Context* context, const Bytes*, Bytes*) {
  return Refuse(*context, "ModelStatistics");
}

Reactor* ExtensionCalls::RepositoryModelLoad(Context* context, const Bytes*, Bytes*) {
  return Refuse(*context, "RepositoryModelLoad");
}

Reactor* ExtensionCalls::RepositoryModelUnload(Context* context, const Bytes*, Bytes*) {
  return Refuse(*context, "RepositoryModelUnload");
}

Reactor* ExtensionCalls::SystemSharedMemoryStatus(Context* context, const Bytes*, Bytes*) {
  return Refuse(*context, "SystemSharedMemoryStatus");
}

Reactor* ExtensionCalls::SystemSharedMemoryRegister(Context* context, const Bytes*, Bytes*) {
  return Refuse(*context, "SystemSharedMemoryRegister");
}

Reactor* ExtensionCalls::SystemSharedMemoryUnregister(Context* context, const Bytes*, Bytes*) {
  return Refuse(*context, "SystemSharedMemoryUnregister");
}

Reactor* ExtensionCalls::CudaSharedMemoryStatus(Context* context, const Bytes*, Bytes*) {
  return Refuse(*context, "CudaSharedMemoryStatus");
}

Reactor* ExtensionCalls::CudaSharedMemoryRegister(Context* context, const Bytes*, Bytes*) {
  return Refuse(*context, "CudaSharedMemoryRegister");
}

Reactor* ExtensionCalls::CudaSharedMemoryUnregister(Context* context, const Bytes*, Bytes*) {
  return Refuse(*context, "CudaSharedMemoryUnregister");
}

Reactor* ExtensionCalls::TraceSetting(Context* context, const Bytes*, Bytes*) {
  return Refuse(*context, "TraceSetting");
}

Reactor* ExtensionCalls::LogSettings(Context* context, const Bytes*, Bytes*) {
  return Refuse(*context, "LogSettings");
}

}  // namespace tandem::server
