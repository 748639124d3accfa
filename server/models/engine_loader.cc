// The repository on a real engine.
#include "server/models/repository.h"

namespace tandem::server {
namespace {

const SteadyClock kSteadyClock;

EngineSample Sample(const Engine& engine) {
  const EngineStats stats = engine.stats();
  return {.packs_built = stats.packs_built,
          .packs_shared = stats.packs_shared,
          .constant_bytes = stats.constant_bytes,
          .pack_bytes = stats.pack_bytes,
          .arena_bytes = stats.arena_bytes};
}

}  // namespace

Repository::Repository(RepositoryOptions options, const Engine& engine, Metrics& metrics)
    : Repository(
          std::move(options),
          [&engine](const std::string& path, const LoadOptions& load) {
            return engine.Load(path, load);
          },
          kSteadyClock, metrics) {
  metrics.SetEngineSampler([&engine] { return Sample(engine); });
}

}  // namespace tandem::server
