// What is known of a request before it is queued.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/status.h"
#include "server/batching/batcher.h"

namespace tandem::server {

struct Admission {
  int64_t items = 1;  // along the batch axis; 1 for a model that does not batch
  std::string group;  // equal for requests that may share a run
};

// Checks `request` against its model: InvalidArgument as Batcher::Submit says, Internal when the
// check throws.
StatusOr<Admission> Admit(const InferRequest& request);

}  // namespace tandem::server
