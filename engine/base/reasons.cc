#include "engine/base/reasons.h"

#include <fmt/ranges.h>

#include <string_view>
#include <vector>

namespace tandem {

Status AllReasons(std::initializer_list<Status> reasons) {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::vector<std::string_view> messages;
  for (const Status& reason : reasons) {
    if (reason.ok()) continue;
    if (messages.empty()) code = reason.code();
    messages.push_back(Message(reason));
  }
  if (messages.empty()) return absl::OkStatus();
  return MakeStatus(code, fmt::format("{}", fmt::join(messages, "; ")));
}

}  // namespace tandem
