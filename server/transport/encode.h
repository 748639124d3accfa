// What the server says of its models and of a request's results, as messages of the protocol.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "grpc_service.pb.h"
#include "server/batching/batcher.h"
#include "server/models/served_model.h"

namespace tandem::server {

// Fills `response` with raw contents. ResourceExhausted when it would pass the size that a message
// can have.
Status EncodeInferResponse(const InferReply& reply, const ServedModel& model,
                           inference::ModelInferResponse& response);

// Shapes have the batch axis, as -1, where the model batches; inputs with a default are left out,
// since requests cannot replace them. A port of unknown rank has no dims, as a scalar: the protocol
// has no other word for it.
inference::ModelMetadataResponse DescribeModel(const ServedModel& model,
                                               const std::vector<int64_t>& versions);

// Dims are without the batch axis where the model batches. `runners` is the count of the instance
// group where the model does not say. The parameter `precision` is the one the model was loaded
// with, its own or the daemon's.
inference::ModelConfig DescribeConfig(const ServedModel& model, int runners);

}  // namespace tandem::server
