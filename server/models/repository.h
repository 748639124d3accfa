// The model repository: `<root>/<model>/<version>/model.onnx`, and `<root>/<model>/config.pbtxt`
// where a model has settings of its own. Finds the models, loads the highest version of each, and
// answers who is ready. A model that cannot be loaded is reported with the
// reason and does not stop the others.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "server/models/model_settings.h"
#include "server/models/served_model.h"

namespace tandem::server {

enum class ModelState { kLoading, kReady, kUnavailable };
std::string_view ModelStateName(ModelState state);  // "LOADING", "READY", "UNAVAILABLE"

// One line of the repository's index.
struct ModelStatus {
  std::string name;
  int64_t version = 0;  // 0 when no version directory exists
  ModelState state = ModelState::kLoading;
  std::string reason;  // why it is unavailable
};

struct RepositoryOptions {
  std::string root;
  int64_t default_max_batch_size = 32;
  // Reads what models say of themselves in their config.pbtxt; null: nobody does.
  SettingsParser parse_settings;
};

// Loads the ONNX file at a path.
using ModelLoader = std::function<StatusOr<std::shared_ptr<const Model>>(
    const std::string& path, const LoadOptions& options)>;

// Thread-safe. Lookups never wait for a load.
class Repository {
 public:
  // `engine` and `metrics` outlive the repository. The engine's numbers are exported as metrics for
  // as long as the repository lives.
  Repository(RepositoryOptions options, const Engine& engine, Metrics& metrics);
  // Loads through `load`.
  Repository(RepositoryOptions options, ModelLoader load, const Clock& clock, Metrics& metrics);
  ~Repository();

  // Finds and loads everything; returns when each model is ready or has failed. NotFound when the
  // root is no directory. `stopped` is asked between models and while one loads.
  Status LoadAll(const std::function<bool()>& stopped = {});

  // The named version of a model, or its highest ready one when `version` is empty.
  // NotFound: no such model or version; InvalidArgument: `version` is no positive decimal number;
  // Unavailable: it is loading (with a retry hint), or has failed (with the reason).
  StatusOr<ServedModelRef> Find(std::string_view name, std::string_view version) const;

  // Versions of a model that are ready, rising. NotFound as Find.
  StatusOr<std::vector<int64_t>> ReadyVersions(std::string_view name) const;

  // By name and version.
  std::vector<ModelStatus> Index() const;

  // True when every model that was found is ready and LoadAll has returned.
  bool AllReady() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::server
