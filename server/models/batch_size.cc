#include "server/models/batch_size.h"

#include <fmt/format.h>

#include <vector>

namespace tandem::server {

std::string WhyNotBatched(const ModelInfo& info, int64_t default_size) {
  if (!info.joinable) return info.not_joinable_reason;
  if (info.inputs.empty()) return "the model has no inputs";
  if (info.outputs.empty()) return "the model has no outputs";
  const Port& first = info.inputs.front();
  for (const std::vector<Port>* ports : {&info.inputs, &info.outputs}) {
    for (const Port& port : *ports) {
      if (port.dims.empty()) return fmt::format("'{}' has no first axis", port.name);
      const graph::Dim& batch = first.dims.front();
      const graph::Dim& dim = port.dims.front();
      const bool usable =
          (dim.is_symbol() && dim.coefficient() == 1) || (dim.is_number() && dim.number() == 1);
      if (!usable) {
        return fmt::format("'{}' starts with extent {}; a symbol or 1 is expected", port.name,
                           ToString(dim));
      }
      if (!dim.SameAs(batch)) {
        return fmt::format("'{}' starts with extent {} and '{}' with {}", first.name,
                           ToString(batch), port.name, ToString(dim));
      }
    }
  }
  return default_size > 0 ? "" : "the default max_batch_size is 0";
}

int64_t MaxBatchSize(const ModelInfo& info, int64_t default_size) {
  return WhyNotBatched(info, default_size).empty() ? default_size : 0;
}

}  // namespace tandem::server
