// The metrics of the daemon. Each is declared once, in metrics/families.cc, with its help text,
// unit and labels; this header has what is recorded. Labels come from loaded models only, never
// from a client.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "server/metrics/instruments.h"

namespace tandem::server {

// Why a request was not answered with a result.
enum class FailureReason : uint8_t {
  kInvalidArgument,
  kQueueFull,
  kQueueTimeout,
  kDraining,
  kDeadlineExceeded,
  kCancelled,
  kResourceExhausted,
  kInternal,
  kOther,
};
inline constexpr size_t kFailureReasons = 9;
std::string_view FailureReasonName(FailureReason reason);  // "invalid_argument", "queue_full", ...

// Why a request reached no model, and so counts for none.
enum class UnservedReason : uint8_t {
  kUnreadable,     // the message is no request
  kBadVersion,     // the version is no number
  kUnknownModel,   // there is no such model or version
  kModelNotReady,  // the model is loading, or could not be loaded
};
inline constexpr size_t kUnservedReasons = 4;
std::string_view UnservedReasonName(UnservedReason reason);  // "unreadable", "bad_version", ...

// The reason for the status with which a model was not found.
UnservedReason UnservedReasonOf(const Status& status);

// The reason for a status that is not OK; Unavailable, which has several reasons, gives kOther.
FailureReason ReasonOf(const Status& status);

// What one version of one model counts. Made by Metrics::AddModel when a model is loaded and
// exported for as long as someone holds it. Thread-safe, lock-free.
//
// received = succeeded + all of failed + queued + running, whenever no request is changing state.
struct ModelMetrics {
  ModelMetrics(std::string_view model_name, int64_t model_version);

  // A request that was refused before it was queued.
  void Refused(FailureReason reason) {
    received.Add();
    Failed(reason);
  }
  void Failed(FailureReason reason) { failed[static_cast<size_t>(reason)].Add(); }

  const std::string model;
  const std::string version;
  std::atomic<int64_t> load_duration_ns{0};

  Counter received;   // requests
  Counter succeeded;  // requests answered with a result
  std::array<Counter, kFailureReasons> failed;
  Gauge queued;   // requests that wait
  Gauge running;  // requests that are being computed

  // Of requests answered with a result, in nanoseconds.
  Histogram request_duration{DurationBounds()};
  Histogram queue_duration{DurationBounds()};
  Histogram compute_duration{DurationBounds()};
  // Items per run of the plan; runs that failed are not counted.
  Histogram run_items{ItemBounds()};
  Counter inferences;  // items computed for requests answered with a result
};

// What the engine counts; the caller fills it from the engine's own numbers.
struct EngineSample {
  uint64_t packs_built = 0;
  uint64_t packs_shared = 0;
  uint64_t constant_bytes = 0;
  uint64_t pack_bytes = 0;
  uint64_t arena_bytes = 0;
};

struct MetricsOptions {
  std::string version;         // of the daemon
  bool triton_metrics = true;  // export nv_inference_* as well
};

// Thread-safe. Export() takes locks that no request takes.
class Metrics {
 public:
  explicit Metrics(MetricsOptions options);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Counters for a version of a model; those that exist already when the pair is known and held.
  std::shared_ptr<ModelMetrics> AddModel(std::string_view model, int64_t version);

  // Models of the repository by state, as numbers of models.
  Gauge models_ready;
  Gauge models_loading;
  Gauge models_unavailable;
  Counter model_load_failures;
  // Requests that reached no model, by the reason alone.
  std::array<Counter, kUnservedReasons> unserved;

  // `sample` is called at each export, until it is replaced; empty: nothing of the engine is
  // exported.
  void SetEngineSampler(std::function<EngineSample()> sample);

  // All metrics in Prometheus' text format 0.0.4.
  std::string Export() const;
  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::server
