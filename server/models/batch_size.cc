#include "server/models/batch_size.h"

#include <vector>

namespace tandem::server {

int64_t MaxBatchSize(const ModelInfo& info, int64_t default_size) {
  if (!info.joinable || info.inputs.empty() || info.outputs.empty()) return 0;
  std::vector<graph::Dim> first;
  for (const std::vector<Port>* ports : {&info.inputs, &info.outputs}) {
    for (const Port& port : *ports) {
      if (port.dims.empty()) return 0;
      first.push_back(port.dims.front());
    }
  }
  const graph::Dim& batch = first.front();
  const bool usable =
      (batch.is_symbol() && batch.coefficient() == 1) || (batch.is_number() && batch.number() == 1);
  if (!usable) return 0;
  for (const graph::Dim& dim : first) {
    if (!dim.SameAs(batch)) return 0;
  }
  return default_size;
}

}  // namespace tandem::server
