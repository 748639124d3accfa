// The service whose unary methods take and give bytes (see message.h).
#pragma once

#include "grpc_service.grpc.pb.h"

namespace tandem::server {

namespace raw_service {

using Protocol = inference::GRPCInferenceService;
using Base = Protocol::CallbackService;
using Server =
    Protocol::WithRawCallbackMethod_ServerLive<Protocol::WithRawCallbackMethod_ServerReady<
        Protocol::WithRawCallbackMethod_ServerMetadata<Base>>>;
using Models =
    Protocol::WithRawCallbackMethod_ModelReady<Protocol::WithRawCallbackMethod_ModelMetadata<
        Protocol::WithRawCallbackMethod_ModelConfig<Protocol::WithRawCallbackMethod_ModelInfer<
            Protocol::WithRawCallbackMethod_ModelStatistics<Server>>>>>;
using Repository = Protocol::WithRawCallbackMethod_RepositoryIndex<
    Protocol::WithRawCallbackMethod_RepositoryModelLoad<
        Protocol::WithRawCallbackMethod_RepositoryModelUnload<Models>>>;
using SystemMemory = Protocol::WithRawCallbackMethod_SystemSharedMemoryStatus<
    Protocol::WithRawCallbackMethod_SystemSharedMemoryRegister<
        Protocol::WithRawCallbackMethod_SystemSharedMemoryUnregister<Repository>>>;
using CudaMemory = Protocol::WithRawCallbackMethod_CudaSharedMemoryStatus<
    Protocol::WithRawCallbackMethod_CudaSharedMemoryRegister<
        Protocol::WithRawCallbackMethod_CudaSharedMemoryUnregister<SystemMemory>>>;
using Settings = Protocol::WithRawCallbackMethod_TraceSetting<
    Protocol::WithRawCallbackMethod_LogSettings<CudaMemory>>;

}  // namespace raw_service

using RawService = raw_service::Settings;

}  // namespace tandem::server
