#include "engine/base/status.h"

namespace tandem {

Status MakeStatus(absl::StatusCode code, std::string_view message) {
  return Status(code, absl::string_view(message.data(), message.size()));
}

Status Annotate(const Status& status, std::string_view where) {
  if (status.ok()) return status;
  return MakeStatus(status.code(), fmt::format("{}: {}", where, Message(status)));
}

std::string_view Message(const Status& status) {
  return {status.message().data(), status.message().size()};
}

}  // namespace tandem
