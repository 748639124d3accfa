#include "server/metrics/families.h"

#include <array>
#include <limits>

namespace tandem::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricType;

// What is exported is a quotient by one of these: a quotient is the double nearest to the decimal
// number, which a product with 1e-9 is not.
constexpr double kNanosecondsPerSecond = 1e9;
constexpr double kItemsPerItem = 1;

double Number(uint64_t value) { return static_cast<double>(value); }
double Number(int64_t value) { return static_cast<double>(value); }

double Microseconds(const Histogram& nanoseconds) { return Number(nanoseconds.sum()) / 1e3; }

template <typename T>
void Maybe(const std::optional<T>& value, MetricSink& sink) {
  if (value.has_value()) sink.Value(static_cast<double>(*value));
}

std::string_view TritonReason(FailureReason reason) {
  switch (reason) {
    case FailureReason::kQueueFull:
    case FailureReason::kQueueTimeout:
    case FailureReason::kDraining:
      return "REJECTED";
    case FailureReason::kCancelled:
    case FailureReason::kDeadlineExceeded:
      return "CANCELED";
    case FailureReason::kResourceExhausted:
    case FailureReason::kInternal:
      return "BACKEND";
    case FailureReason::kInvalidArgument:
    case FailureReason::kOther:
      return "OTHER";
  }
  return "OTHER";
}

void TritonFailures(const ModelMetrics& model, MetricSink& sink) {
  for (std::string_view name : {"REJECTED", "CANCELED", "BACKEND", "OTHER"}) {
    uint64_t count = 0;
    for (size_t i = 0; i < kFailureReasons; ++i) {
      if (TritonReason(static_cast<FailureReason>(i)) == name) count += model.failed[i].value();
    }
    sink.Value(Number(count), {"reason", std::string(name)});
  }
}

constexpr auto kProcessFamilies = std::to_array<ProcessFamily>({
    {"tandem_build_info", "Always 1; the label tells the daemon's version.", MetricType::Gauge,
     [](const MetricsSnapshot& s, MetricSink& sink) {
       sink.Value(1, {"version", s.version});
     }},
    {"tandem_models", "Models of the repository by state.", MetricType::Gauge,
     [](const MetricsSnapshot& s, MetricSink& sink) {
       sink.Value(Number(s.totals->models_ready.value()), {"state", "ready"});
       sink.Value(Number(s.totals->models_loading.value()), {"state", "loading"});
       sink.Value(Number(s.totals->models_unavailable.value()), {"state", "unavailable"});
     }},
    {"tandem_model_load_failures_total", "Model versions that could not be loaded.",
     MetricType::Counter,
     [](const MetricsSnapshot& s, MetricSink& sink) {
       sink.Value(Number(s.totals->model_load_failures.value()));
     }},
    {"tandem_requests_unserved_total",
     "Requests that reached no model and count for none, by reason.", MetricType::Counter,
     [](const MetricsSnapshot& s, MetricSink& sink) {
       for (size_t i = 0; i < kUnservedReasons; ++i) {
         const auto reason = static_cast<UnservedReason>(i);
         sink.Value(Number(s.totals->unserved[i].value()),
                    {"reason", std::string(UnservedReasonName(reason))});
       }
     }},
    {"process_start_time_seconds", "Start of the process, in seconds since the Unix epoch.",
     MetricType::Gauge,
     [](const MetricsSnapshot& s, MetricSink& sink) { sink.Value(s.process.start_time_seconds); }},
    {"process_cpu_seconds_total", "CPU time of the process, user and system, in seconds.",
     MetricType::Counter,
     [](const MetricsSnapshot& s, MetricSink& sink) { Maybe(s.process.cpu_seconds, sink); }},
    {"process_resident_memory_bytes", "Resident memory of the process, in bytes.",
     MetricType::Gauge,
     [](const MetricsSnapshot& s, MetricSink& sink) { Maybe(s.process.resident_bytes, sink); }},
    {"process_peak_resident_memory_bytes", "Largest resident memory so far, in bytes.",
     MetricType::Gauge,
     [](const MetricsSnapshot& s, MetricSink& sink) {
       Maybe(s.process.peak_resident_bytes, sink);
     }},
    {"process_threads", "Threads of the process.", MetricType::Gauge,
     [](const MetricsSnapshot& s, MetricSink& sink) { Maybe(s.process.threads, sink); }},
    {"process_open_fds", "Open file descriptors of the process.", MetricType::Gauge,
     [](const MetricsSnapshot& s, MetricSink& sink) { Maybe(s.process.open_files, sink); }},
});

constexpr auto kEngineFamilies = std::to_array<ProcessFamily>({
    {"tandem_constant_bytes", "Memory of native weights and other constants, in bytes.",
     MetricType::Gauge,
     [](const MetricsSnapshot& s, MetricSink& sink) {
       sink.Value(Number(s.engine.constant_bytes));
     }},
    {"tandem_pack_bytes", "Memory of packed weights, in bytes.", MetricType::Gauge,
     [](const MetricsSnapshot& s, MetricSink& sink) { sink.Value(Number(s.engine.pack_bytes)); }},
    {"tandem_arena_bytes", "Memory of the arenas that runs compute in, in bytes.",
     MetricType::Gauge,
     [](const MetricsSnapshot& s, MetricSink& sink) { sink.Value(Number(s.engine.arena_bytes)); }},
    {"tandem_packs_built_total", "Packs made from weights.", MetricType::Counter,
     [](const MetricsSnapshot& s, MetricSink& sink) { sink.Value(Number(s.engine.packs_built)); }},
    {"tandem_packs_shared_total", "Requests for a pack that found one made before.",
     MetricType::Counter,
     [](const MetricsSnapshot& s, MetricSink& sink) { sink.Value(Number(s.engine.packs_shared)); }},
});

constexpr auto kModelFamilies = std::to_array<ModelFamily>({
    {"tandem_model_load_duration_seconds", "Time that loading the model took, in seconds.",
     MetricType::Gauge,
     [](const ModelMetrics& m, MetricSink& sink) {
       sink.Value(Number(m.load_duration_ns.load()) / kNanosecondsPerSecond);
     }},
    {"tandem_requests_received_total",
     "Inference requests; each ends in tandem_requests_succeeded_total or "
     "tandem_requests_failed_total.",
     MetricType::Counter,
     [](const ModelMetrics& m, MetricSink& sink) { sink.Value(Number(m.received.value())); }},
    {"tandem_requests_succeeded_total", "Inference requests answered with a result.",
     MetricType::Counter,
     [](const ModelMetrics& m, MetricSink& sink) { sink.Value(Number(m.succeeded.value())); }},
    {"tandem_requests_failed_total", "Inference requests answered with an error, by reason.",
     MetricType::Counter,
     [](const ModelMetrics& m, MetricSink& sink) {
       for (size_t i = 0; i < kFailureReasons; ++i) {
         const auto reason = static_cast<FailureReason>(i);
         sink.Value(Number(m.failed[i].value()),
                    {"reason", std::string(FailureReasonName(reason))});
       }
     }},
    {"tandem_requests_queued", "Inference requests that wait for a runner.", MetricType::Gauge,
     [](const ModelMetrics& m, MetricSink& sink) { sink.Value(Number(m.queued.value())); }},
    {"tandem_requests_running", "Inference requests that are being computed.", MetricType::Gauge,
     [](const ModelMetrics& m, MetricSink& sink) { sink.Value(Number(m.running.value())); }},
    {"tandem_request_duration_seconds",
     "Time from acceptance to result of successful requests, in seconds.", MetricType::Histogram,
     [](const ModelMetrics& m, MetricSink& sink) {
       sink.Distribution(m.request_duration, kNanosecondsPerSecond);
     }},
    {"tandem_request_queue_duration_seconds",
     "Time that successful requests waited for a runner, in seconds.", MetricType::Histogram,
     [](const ModelMetrics& m, MetricSink& sink) {
       sink.Distribution(m.queue_duration, kNanosecondsPerSecond);
     }},
    {"tandem_request_compute_duration_seconds",
     "Time that successful requests were computed, in seconds.", MetricType::Histogram,
     [](const ModelMetrics& m, MetricSink& sink) {
       sink.Distribution(m.compute_duration, kNanosecondsPerSecond);
     }},
    {"tandem_run_items", "Items per run of the model; its count is the number of runs.",
     MetricType::Histogram,
     [](const ModelMetrics& m, MetricSink& sink) {
       sink.Distribution(m.run_items, kItemsPerItem);
     }},
    {"tandem_inferences_total", "Items computed for answered requests.", MetricType::Counter,
     [](const ModelMetrics& m, MetricSink& sink) { sink.Value(Number(m.inferences.value())); }},
});

constexpr auto kTritonFamilies = std::to_array<ModelFamily>({
    {"nv_inference_request_success", "Number of successful inference requests, all batch sizes",
     MetricType::Counter,
     [](const ModelMetrics& m, MetricSink& sink) { sink.Value(Number(m.succeeded.value())); }},
    {"nv_inference_request_failure", "Number of failed inference requests, all batch sizes",
     MetricType::Counter, TritonFailures},
    {"nv_inference_count", "Number of inferences performed (a batch of n counts n)",
     MetricType::Counter,
     [](const ModelMetrics& m, MetricSink& sink) { sink.Value(Number(m.inferences.value())); }},
    {"nv_inference_exec_count", "Number of model executions performed", MetricType::Counter,
     [](const ModelMetrics& m, MetricSink& sink) { sink.Value(Number(m.run_items.count())); }},
    {"nv_inference_pending_request_count", "Number of requests awaiting execution",
     MetricType::Gauge,
     [](const ModelMetrics& m, MetricSink& sink) { sink.Value(Number(m.queued.value())); }},
    {"nv_inference_request_duration_us", "Cumulative request duration in microseconds",
     MetricType::Counter,
     [](const ModelMetrics& m, MetricSink& sink) { sink.Value(Microseconds(m.request_duration)); }},
    {"nv_inference_queue_duration_us", "Cumulative queuing duration in microseconds",
     MetricType::Counter,
     [](const ModelMetrics& m, MetricSink& sink) { sink.Value(Microseconds(m.queue_duration)); }},
    {"nv_inference_compute_input_duration_us",
     "Always 0: inputs are gathered within the run and counted in compute_infer",
     MetricType::Counter, [](const ModelMetrics&, MetricSink& sink) { sink.Value(0); }},
    {"nv_inference_compute_infer_duration_us",
     "Cumulative compute duration in microseconds, gathering inputs and outputs included",
     MetricType::Counter,
     [](const ModelMetrics& m, MetricSink& sink) { sink.Value(Microseconds(m.compute_duration)); }},
    {"nv_inference_compute_output_duration_us",
     "Always 0: outputs are written within the run and counted in compute_infer",
     MetricType::Counter, [](const ModelMetrics&, MetricSink& sink) { sink.Value(0); }},
    {"nv_model_load_duration_secs", "Time that loading the model took, in seconds",
     MetricType::Gauge,
     [](const ModelMetrics& m, MetricSink& sink) {
       sink.Value(Number(m.load_duration_ns.load()) / kNanosecondsPerSecond);
     }},
});

}  // namespace

ClientMetric& MetricSink::Add(ClientMetric::Label label) {
  ClientMetric& metric = family_.metric.emplace_back();
  metric.label = labels_;
  if (!label.name.empty()) metric.label.push_back(std::move(label));
  return metric;
}

void MetricSink::Value(double value, ClientMetric::Label label) {
  ClientMetric& metric = Add(std::move(label));
  if (family_.type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
}

void MetricSink::Distribution(const Histogram& histogram, double per_unit) {
  ClientMetric& metric = Add({});
  metric.histogram.sample_sum = Number(histogram.sum()) / per_unit;
  uint64_t count = 0;
  const size_t bounds = histogram.bounds().size();
  for (size_t i = 0; i <= bounds; ++i) {
    count += histogram.bucket(i);
    const double bound = i < bounds ? Number(histogram.bounds()[i]) / per_unit
                                    : std::numeric_limits<double>::infinity();
    metric.histogram.bucket.push_back({count, bound});
  }
  metric.histogram.sample_count = count;
}

std::span<const ProcessFamily> ProcessFamilies() { return kProcessFamilies; }
std::span<const ProcessFamily> EngineFamilies() { return kEngineFamilies; }
std::span<const ModelFamily> ModelFamilies() { return kModelFamilies; }
std::span<const ModelFamily> TritonFamilies() { return kTritonFamilies; }

}  // namespace tandem::server
