// ModelInferRequest: checked against the model that it names and turned into what the batcher
// takes.
#pragma once

#include <memory>

#include "engine/base/status.h"
#include "grpc_service.pb.h"
#include "server/batching/batcher.h"
#include "server/models/served_model.h"

namespace tandem::server {

// Bounds on what one request may hold.
inline constexpr int kMaxTensors = 1024;   // inputs; requested outputs
inline constexpr int kMaxParameters = 64;  // of a request, of an input, of an output
inline constexpr size_t kMaxIdBytes = 256;

// The inputs share the memory of `request` where they can. The deadline is left open.
//
// InvalidArgument names the tensor, what came and what was expected: an input that is unknown,
// given twice or missing; a datatype, rank or extent that is not the model's; contents that do not
// fit them; raw entries that are not one per input, or typed contents beside them; an output that
// is unknown or requested twice; a parameter of the wrong type, or an unknown `triton_` one; more
// than the bounds above. Unimplemented: shared memory, classification.
StatusOr<InferRequest> DecodeInferRequest(
    std::shared_ptr<const inference::ModelInferRequest> request, ServedModelRef model);

}  // namespace tandem::server
