// The parameters of a request and of its tensors: which have a meaning, which are refused.
#pragma once

#include <google/protobuf/map.h>

#include <chrono>
#include <optional>
#include <string>

#include "engine/base/status.h"
#include "grpc_service.pb.h"

namespace tandem::server {

using WireParameters = google::protobuf::Map<std::string, inference::InferParameter>;

struct RequestParameters {
  std::optional<std::chrono::microseconds> timeout;  // `timeout`, where it is not 0
};

// `timeout` and `priority` are whole numbers >= 0 (int64, uint64 or a decimal string); priority has
// one level here and no effect. Sequences need a model that keeps state: a sequence parameter that
// asks for one is InvalidArgument. Unknown parameters are accepted, but not those named
// `triton_...`.
StatusOr<RequestParameters> DecodeRequestParameters(const WireParameters& parameters);

// Unimplemented for shared memory and classification; other parameters of a tensor are accepted.
Status CheckTensorParameters(const WireParameters& parameters);

}  // namespace tandem::server
