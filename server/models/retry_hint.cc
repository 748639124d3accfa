#include "server/models/retry_hint.h"

#include <absl/strings/cord.h>

#include <charconv>
#include <string>

namespace tandem::server {
namespace {

constexpr const char* kPayload = "tandem/retry-after-ms";

}  // namespace

Status WithRetryAfter(Status status, std::chrono::milliseconds wait) {
  status.SetPayload(kPayload, absl::Cord(std::to_string(wait.count())));
  return status;
}

std::optional<std::chrono::milliseconds> RetryAfter(const Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload) return std::nullopt;
  const std::string text(*payload);
  int64_t wait = 0;
  std::from_chars(text.data(), text.data() + text.size(), wait);
  return std::chrono::milliseconds(wait);
}

}  // namespace tandem::server
