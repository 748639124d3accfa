// A model as the server offers it: one version of one name, loaded and ready to run.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/engine.h"
#include "server/metrics/metrics.h"

namespace tandem::server {

// Immutable; whoever holds it may run it, even after the repository has moved on.
struct ServedModel {
  std::string name;
  int64_t version = 0;
  std::shared_ptr<const Model> model;
  // Largest number of items one run may hold, counted along axis 0; 0: the model does not batch and
  // its shapes have no batch axis of the server's.
  int64_t max_batch_size = 0;
  // Runs of this model that may be under way at the same time; 0: as many as there are runners.
  int max_runs = 0;
  // How long a request may wait for others to share its run while a runner is free.
  std::chrono::microseconds max_queue_delay{0};
  // Never null.
  std::shared_ptr<ModelMetrics> metrics;
};

using ServedModelRef = std::shared_ptr<const ServedModel>;

// A version of a model as messages name it.
std::string Where(std::string_view name, int64_t version);
std::string Where(const ServedModel& model);

}  // namespace tandem::server
