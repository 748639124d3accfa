#include "server/models/repository.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "server/models/batch_size.h"
#include "server/models/quoted.h"
#include "server/models/retry_hint.h"
#include "server/models/scan.h"
#include "server/models/wire_form.h"

namespace tandem::server {
namespace {

// What is known of one model: its highest version, or that it has none.
struct Entry {
  int64_t version = 0;  // 0: there is no version directory
  ModelState state = ModelState::kLoading;
  std::string reason;
  ServedModelRef served;
};

// When a client should ask again for a model that is loading.
constexpr std::chrono::milliseconds kLoadingRetry{1000};

double Milliseconds(Clock::Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// `text` without the repository's own path, which is no business of a client's.
std::string WithoutRoot(std::string text, const std::string& root) {
  if (root.empty()) return text;
  const std::string prefix = root.back() == '/' ? root : root + "/";
  for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at)) {
    text.erase(at, prefix.size());
  }
  return text;
}

std::string WhyNoVersion(const FoundModel& found) {
  if (found.leads_nowhere) {
    return fmt::format("model '{0}': the symbolic link {0} leads nowhere", found.name);
  }
  std::string why = fmt::format(
      "model '{}': no version; a version is a directory with a positive number as its name",
      found.name);
  if (!found.no_versions.empty()) {
    const auto& [directory, reason] = found.no_versions.front();
    why += fmt::format("; '{}' is none: {}", directory, reason);
  }
  return why;
}

}  // namespace

std::string_view ModelStateName(ModelState state) {
  switch (state) {
    case ModelState::kLoading:
      return "LOADING";
    case ModelState::kReady:
      return "READY";
    case ModelState::kUnavailable:
      return "UNAVAILABLE";
  }
  return "UNAVAILABLE";
}

class Repository::Impl {
 public:
  Impl(RepositoryOptions options, ModelLoader load, const Clock& clock, Metrics& metrics)
      : options_(std::move(options)), load_(std::move(load)), clock_(clock), metrics_(metrics) {}
  ~Impl() { metrics_.SetEngineSampler({}); }

  Status LoadAll(const std::function<bool()>& stopped);
  StatusOr<ServedModelRef> Find(std::string_view name, std::string_view version) const;
  StatusOr<std::vector<int64_t>> ReadyVersions(std::string_view name) const;
  std::vector<ModelStatus> Index() const;
  bool AllReady() const;

 private:
  using Entries = std::map<std::string, Entry, std::less<>>;

  void Enter(const ScanResult& scan);
  void LoadOne(const std::string& name, int64_t version, const std::function<bool()>& stopped);
  StatusOr<ServedModelRef> Load(const std::string& name, int64_t version,
                                const std::function<bool()>& stopped) const;
  void SetReady(const std::string& name, ServedModelRef served);
  void SetUnavailable(const std::string& name, const Status& reason);
  void CountStatesLocked();
  StatusOr<const Entry*> LookupLocked(std::string_view name) const;

  const RepositoryOptions options_;
  const ModelLoader load_;
  const Clock& clock_;
  Metrics& metrics_;

  mutable std::mutex mutex_;
  Entries entries_;
  bool loaded_ = false;  // LoadAll has returned
};

Status Repository::Impl::LoadAll(const std::function<bool()>& stopped) {
  ASSIGN_OR_RETURN(const ScanResult scan, ScanRepository(options_.root));
  for (const std::string& name : scan.ignored) {
    spdlog::warn("directory ignored name={:?} reason=\"no model name: [A-Za-z0-9_.-]{{1,128}}\"",
                 name);
  }
  Enter(scan);
  const auto is_stopped = [&] { return stopped && stopped(); };
  for (const FoundModel& found : scan.models) {
    if (found.versions.empty()) continue;
    if (is_stopped()) return Cancelled("loading was stopped before model '{}'", found.name);
    LoadOne(found.name, found.versions.back(), stopped);
  }
  if (is_stopped()) return Cancelled("loading was stopped");
  const std::scoped_lock lock(mutex_);
  loaded_ = true;
  return absl::OkStatus();
}

void Repository::Impl::Enter(const ScanResult& scan) {
  const std::scoped_lock lock(mutex_);
  for (const FoundModel& found : scan.models) {
    Entry entry;
    for (const auto& [directory, reason] : found.no_versions) {
      spdlog::warn("version ignored model={} version={:?} reason={:?}", found.name, directory,
                   reason);
    }
    if (found.versions.empty()) {
      entry.state = ModelState::kUnavailable;
      entry.reason = WhyNoVersion(found);
      metrics_.model_load_failures.Add();
      spdlog::error("model not loaded model={} reason={:?}", found.name, entry.reason);
    } else {
      entry.version = found.versions.back();
    }
    entries_[found.name] = std::move(entry);
  }
  CountStatesLocked();
}

void Repository::Impl::LoadOne(const std::string& name, int64_t version,
                               const std::function<bool()>& stopped) {
  const Clock::TimePoint start = clock_.Now();
  StatusOr<ServedModelRef> served = Load(name, version, stopped);
  const Clock::Duration duration = clock_.Now() - start;
  if (absl::IsCancelled(served.status()) && stopped && stopped()) {
    spdlog::info("loading stopped model={} version={}", name, version);
    return;
  }
  if (!served.ok()) {
    SetUnavailable(name, served.status());
    return;
  }
  const ModelInfo& info = (*served)->model->info();
  const std::string why_not = WhyNotBatched(info, options_.default_max_batch_size);
  (*served)->metrics->load_duration_ns.store(duration.count(), std::memory_order_relaxed);
  spdlog::info(
      "model loaded model={} version={} duration_ms={:.1f} max_batch_size={} precision={} "
      "constant_bytes={} pack_bytes={}{}",
      name, version, Milliseconds(duration), (*served)->max_batch_size,
      PrecisionName(info.precision), info.constant_bytes, info.pack_bytes,
      why_not.empty() ? "" : fmt::format(" not_batched={:?}", why_not));
  SetReady(name, *std::move(served));
}

StatusOr<ServedModelRef> Repository::Impl::Load(const std::string& name, int64_t version,
                                                const std::function<bool()>& stopped) const {
  const std::string where = Where(name, version);
  const std::string file = fmt::format("{}/{}/model.onnx", name, version);
  const StatusOr<std::string> path = ResolveBeneath(options_.root, options_.root + "/" + file);
  if (absl::IsNotFound(path.status())) {
    return NotFound("{}: there is no file {}: {}", where, file, Message(path.status()));
  }
  if (!path.ok()) return Annotate(path.status(), fmt::format("{}: {}", where, file));
  const StatusOr<ModelSettings> settings =
      ReadSettings(options_.root, name, options_.parse_settings);
  if (!settings.ok()) return Annotate(settings.status(), where);
  if (!settings->without_effect.empty()) {
    spdlog::warn("settings without effect model={} settings={:?}", name,
                 fmt::format("{}", fmt::join(settings->without_effect, ", ")));
  }
  LoadOptions load;
  load.stopped = stopped;
  load.precision = settings->precision;
  StatusOr<std::shared_ptr<const Model>> model = Internal("not loaded");
  try {
    model = load_(*path, load);
  } catch (const std::exception& thrown) {
    model = Internal("loading threw: {}", thrown.what());
  } catch (...) {
    model = Internal("loading threw an unknown exception");
  }
  if (model.ok()) {
    const Status servable = CheckWireForm((*model)->info());
    if (!servable.ok()) model = servable;
  }
  if (!model.ok()) {
    std::error_code error;
    const std::string root = std::filesystem::canonical(options_.root, error).string();
    const std::string text = WithoutRoot(std::string(Message(model.status())), root);
    return Annotate(MakeStatus(model.status().code(), text), where);
  }
  auto served = std::make_shared<ServedModel>();
  served->name = name;
  served->version = version;
  served->max_batch_size = MaxBatchSize((*model)->info(), options_.default_max_batch_size);
  served->model = *std::move(model);
  served->metrics = metrics_.AddModel(name, version);
  return served;
}

void Repository::Impl::SetReady(const std::string& name, ServedModelRef served) {
  const std::scoped_lock lock(mutex_);
  Entry& entry = entries_.at(name);
  entry.state = ModelState::kReady;
  entry.served = std::move(served);
  CountStatesLocked();
}

void Repository::Impl::SetUnavailable(const std::string& name, const Status& reason) {
  const std::scoped_lock lock(mutex_);
  Entry& entry = entries_.at(name);
  entry.state = ModelState::kUnavailable;
  entry.reason = std::string(Message(reason));
  metrics_.model_load_failures.Add();
  CountStatesLocked();
  spdlog::error("model not loaded model={} version={} reason={:?}", name, entry.version,
                entry.reason);
}

void Repository::Impl::CountStatesLocked() {
  std::map<ModelState, int64_t> count;
  for (const auto& [name, entry] : entries_) ++count[entry.state];
  metrics_.models_ready.Set(count[ModelState::kReady]);
  metrics_.models_loading.Set(count[ModelState::kLoading]);
  metrics_.models_unavailable.Set(count[ModelState::kUnavailable]);
}

StatusOr<const Entry*> Repository::Impl::LookupLocked(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found != entries_.end()) return &found->second;
  if (!IsModelName(name)) {
    return NotFound(
        "model {} came; a name of 1 to 128 of A-Z a-z 0-9 _ . - that starts with no dot was "
        "expected",
        Quoted(name));
  }
  return NotFound("model '{}' is not in the repository", name);
}

StatusOr<ServedModelRef> Repository::Impl::Find(std::string_view name,
                                                std::string_view version) const {
  std::optional<int64_t> wanted;
  if (!version.empty()) {
    wanted = ParseVersion(version);
    if (!wanted) {
      return InvalidArgument(
          "model {}: version {} came; a positive decimal number without leading zeros up to {}, or "
          "an empty text for the highest version, was expected",
          Quoted(name), Quoted(version), std::numeric_limits<int64_t>::max());
    }
  }
  const std::scoped_lock lock(mutex_);
  ASSIGN_OR_RETURN(const Entry* entry, LookupLocked(name));
  if (wanted && *wanted != entry->version) {
    if (entry->version == 0) return NotFound("model '{}' has no version", name);
    return NotFound("model '{}' has no version {}; version {} is served", name, *wanted,
                    entry->version);
  }
  switch (entry->state) {
    case ModelState::kReady:
      return entry->served;
    case ModelState::kLoading:
      return WithRetryAfter(Unavailable("{} is loading", Where(name, entry->version)),
                            kLoadingRetry);
    case ModelState::kUnavailable:
      return MakeStatus(absl::StatusCode::kUnavailable, entry->reason);
  }
  return Internal("{} has no state", Where(name, entry->version));
}

StatusOr<std::vector<int64_t>> Repository::Impl::ReadyVersions(std::string_view name) const {
  const std::scoped_lock lock(mutex_);
  ASSIGN_OR_RETURN(const Entry* entry, LookupLocked(name));
  std::vector<int64_t> versions;
  if (entry->state == ModelState::kReady) versions.push_back(entry->version);
  return versions;
}

std::vector<ModelStatus> Repository::Impl::Index() const {
  const std::scoped_lock lock(mutex_);
  std::vector<ModelStatus> index;
  for (const auto& [name, entry] : entries_) {
    index.push_back({name, entry.version, entry.state, entry.reason});
  }
  return index;
}

bool Repository::Impl::AllReady() const {
  const std::scoped_lock lock(mutex_);
  if (!loaded_) return false;
  for (const auto& [name, entry] : entries_) {
    if (entry.state != ModelState::kReady) return false;
  }
  return true;
}

Repository::Repository(RepositoryOptions options, ModelLoader load, const Clock& clock,
                       Metrics& metrics)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(load), clock, metrics)) {}
Repository::~Repository() = default;

Status Repository::LoadAll(const std::function<bool()>& stopped) { return impl_->LoadAll(stopped); }
StatusOr<ServedModelRef> Repository::Find(std::string_view name, std::string_view version) const {
  return impl_->Find(name, version);
}
StatusOr<std::vector<int64_t>> Repository::ReadyVersions(std::string_view name) const {
  return impl_->ReadyVersions(name);
}
std::vector<ModelStatus> Repository::Index() const { return impl_->Index(); }
bool Repository::AllReady() const { return impl_->AllReady(); }

}  // namespace tandem::server
