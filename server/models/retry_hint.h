// A status that tells when a retry is worth it.
#pragma once

#include <chrono>
#include <optional>

#include "engine/base/status.h"

namespace tandem::server {

// `status`, with how long a client should wait before it sends the request again. Without this hint
// a retry cannot help.
Status WithRetryAfter(Status status, std::chrono::milliseconds wait);

// The hint of `status`; nothing when it has none.
std::optional<std::chrono::milliseconds> RetryAfter(const Status& status);

}  // namespace tandem::server
