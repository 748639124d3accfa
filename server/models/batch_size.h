// Whether and how far a model batches when no configuration says so.
#pragma once

#include <cstdint>
#include <string>

#include "engine/engine.h"

namespace tandem::server {

// `default_size` for a model whose requests may be joined and whose inputs and outputs all start
// with the same symbolic extent, or all with 1; else 0.
int64_t MaxBatchSize(const ModelInfo& info, int64_t default_size);

// Why MaxBatchSize is 0; empty when it is not.
std::string WhyNotBatched(const ModelInfo& info, int64_t default_size);

}  // namespace tandem::server
