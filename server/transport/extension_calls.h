// The extension calls of the protocol that this server does not offer.
#pragma once

#include "server/transport/raw_service.h"

namespace tandem::server {

// Each answers UNIMPLEMENTED and names itself, whatever came. Thread-safe.
class ExtensionCalls : public RawService {
 public:
  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;
  using Bytes = grpc::ByteBuffer;

  grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse>*
  ModelStreamInfer(Context* context) override;
  Reactor* ModelStatistics(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* RepositoryModelLoad(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* RepositoryModelUnload(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* SystemSharedMemoryStatus(Context* context, const Bytes* request,
                                    Bytes* response) override;
  Reactor* SystemSharedMemoryRegister(Context* context, const Bytes* request,
                                      Bytes* response) override;
  Reactor* SystemSharedMemoryUnregister(Context* context, const Bytes* request,
                                        Bytes* response) override;
  Reactor* CudaSharedMemoryStatus(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* CudaSharedMemoryRegister(Context* context, const Bytes* request,
                                    Bytes* response) override;
  Reactor* CudaSharedMemoryUnregister(Context* context, const Bytes* request,
                                      Bytes* response) override;
  Reactor* TraceSetting(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* LogSettings(Context* context, const Bytes* request, Bytes* response) override;
};

}  // namespace tandem::server
