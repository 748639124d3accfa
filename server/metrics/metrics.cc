#include "server/metrics/metrics.h"

#include <prometheus/text_serializer.h>

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "server/metrics/families.h"

namespace tandem::server {
namespace {

using prometheus::MetricFamily;

MetricFamily Describe(const char* name, const char* help, prometheus::MetricType type) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  return family;
}

void Collect(std::span<const ProcessFamily> families, const MetricsSnapshot& snapshot,
             std::vector<MetricFamily>& out) {
  for (const ProcessFamily& declared : families) {
    MetricFamily family = Describe(declared.name, declared.help, declared.type);
    MetricSink sink(family, {});
    declared.collect(snapshot, sink);
    if (!family.metric.empty()) out.push_back(std::move(family));
  }
}

void Collect(std::span<const ModelFamily> families, const MetricsSnapshot& snapshot,
             std::vector<MetricFamily>& out) {
  if (snapshot.models.empty()) return;
  for (const ModelFamily& declared : families) {
    MetricFamily family = Describe(declared.name, declared.help, declared.type);
    for (const auto& model : snapshot.models) {
      MetricSink sink(family, {{"model", model->model}, {"version", model->version}});
      declared.collect(*model, sink);
    }
    out.push_back(std::move(family));
  }
}

}  // namespace

std::string_view FailureReasonName(FailureReason reason) {
  switch (reason) {
    case FailureReason::kInvalidArgument:
      return "invalid_argument";
    case FailureReason::kQueueFull:
      return "queue_full";
    case FailureReason::kQueueTimeout:
      return "queue_timeout";
    case FailureReason::kDraining:
      return "draining";
    case FailureReason::kDeadlineExceeded:
      return "deadline_exceeded";
    case FailureReason::kCancelled:
      return "cancelled";
    case FailureReason::kResourceExhausted:
      return "resource_exhausted";
    case FailureReason::kInternal:
      return "internal";
    case FailureReason::kOther:
      return "other";
  }
  return "other";
}

std::string_view UnservedReasonName(UnservedReason reason) {
  switch (reason) {
    case UnservedReason::kUnreadable:
      return "unreadable";
    case UnservedReason::kBadVersion:
      return "bad_version";
    case UnservedReason::kUnknownModel:
      return "unknown_model";
    case UnservedReason::kModelNotReady:
      return "model_not_ready";
  }
  return "unreadable";
}

UnservedReason UnservedReasonOf(const Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return UnservedReason::kUnknownModel;
    case absl::StatusCode::kInvalidArgument:
      return UnservedReason::kBadVersion;
    case absl::StatusCode::kUnavailable:
      return UnservedReason::kModelNotReady;
    default:
      return UnservedReason::kUnreadable;
  }
}

FailureReason ReasonOf(const Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return FailureReason::kInvalidArgument;
    case absl::StatusCode::kDeadlineExceeded:
      return FailureReason::kDeadlineExceeded;
    case absl::StatusCode::kCancelled:
      return FailureReason::kCancelled;
    case absl::StatusCode::kResourceExhausted:
      return FailureReason::kResourceExhausted;
    case absl::StatusCode::kInternal:
      return FailureReason::kInternal;
    default:
      return FailureReason::kOther;
  }
}

ModelMetrics::ModelMetrics(std::string_view model_name, int64_t model_version)
    : model(model_name), version(std::to_string(model_version)) {}

class Metrics::Impl {
 public:
  explicit Impl(MetricsOptions options)
      : options_(std::move(options)), start_time_seconds_(UnixTimeSeconds()) {}

  std::shared_ptr<ModelMetrics> AddModel(std::string_view model, int64_t version) {
    std::scoped_lock lock(models_mutex_);
    std::weak_ptr<ModelMetrics>& slot = models_[{std::string(model), version}];
    if (std::shared_ptr<ModelMetrics> known = slot.lock()) return known;
    auto made = std::make_shared<ModelMetrics>(model, version);
    slot = made;
    return made;
  }

  void SetEngineSampler(std::function<EngineSample()> sample) {
    std::scoped_lock lock(engine_mutex_);
    sample_engine_ = std::move(sample);
  }

  std::string Export(const Metrics& totals) {
    MetricsSnapshot snapshot{.models = Models(), .totals = &totals};
    snapshot.version = options_.version;
    snapshot.process = SampleProcess();
    snapshot.process.start_time_seconds = start_time_seconds_;
    std::vector<MetricFamily> families;
    Collect(ProcessFamilies(), snapshot, families);
    if (SampleEngine(snapshot)) Collect(EngineFamilies(), snapshot, families);
    Collect(ModelFamilies(), snapshot, families);
    if (options_.triton_metrics) Collect(TritonFamilies(), snapshot, families);
    const prometheus::TextSerializer serializer;
    return static_cast<const prometheus::Serializer&>(serializer).Serialize(families);
  }

 private:
  // Those still held, by name and version.
  std::vector<std::shared_ptr<const ModelMetrics>> Models() {
    std::scoped_lock lock(models_mutex_);
    std::vector<std::shared_ptr<const ModelMetrics>> held;
    for (auto it = models_.begin(); it != models_.end();) {
      if (std::shared_ptr<const ModelMetrics> model = it->second.lock()) {
        held.push_back(std::move(model));
        ++it;
      } else {
        it = models_.erase(it);
      }
    }
    return held;
  }

  bool SampleEngine(MetricsSnapshot& snapshot) {
    // Held during the call: once SetEngineSampler({}) has returned, nobody asks the engine.
    std::scoped_lock lock(engine_mutex_);
    if (!sample_engine_) return false;
    snapshot.engine = sample_engine_();
    return true;
  }

  const MetricsOptions options_;
  const double start_time_seconds_;
  std::mutex models_mutex_;
  std::map<std::pair<std::string, int64_t>, std::weak_ptr<ModelMetrics>> models_;
  std::mutex engine_mutex_;
  std::function<EngineSample()> sample_engine_;
};

Metrics::Metrics(MetricsOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Metrics::~Metrics() = default;

std::shared_ptr<ModelMetrics> Metrics::AddModel(std::string_view model, int64_t version) {
  return impl_->AddModel(model, version);
}

void Metrics::SetEngineSampler(std::function<EngineSample()> sample) {
  impl_->SetEngineSampler(std::move(sample));
}

std::string Metrics::Export() const { return impl_->Export(*this); }

}  // namespace tandem::server
