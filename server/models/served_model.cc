#include "server/models/served_model.h"

#include <fmt/format.h>

namespace tandem::server {

std::string Where(std::string_view name, int64_t version) {
  return fmt::format("model '{}' version {}", name, version);
}

std::string Where(const ServedModel& model) { return Where(model.name, model.version); }

}  // namespace tandem::server
