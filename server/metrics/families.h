// The table of all metrics: name, help text and where the numbers come from.
#pragma once

#include <prometheus/metric_family.h>

#include <memory>
#include <span>
#include <vector>

#include "server/metrics/metrics.h"
#include "server/metrics/process.h"

namespace tandem::server {

// What one export shows.
struct MetricsSnapshot {
  std::vector<std::shared_ptr<const ModelMetrics>> models;
  const Metrics* totals = nullptr;
  EngineSample engine;
  ProcessSample process;
  std::string version;
};

// Where a family puts its values.
class MetricSink {
 public:
  MetricSink(prometheus::MetricFamily& family, std::vector<prometheus::ClientMetric::Label> labels)
      : family_(family), labels_(std::move(labels)) {}

  // One more value of the family; `label` is added when it has a name.
  void Value(double value, prometheus::ClientMetric::Label label = {});
  // Values are exported divided by `per_unit`.
  void Distribution(const Histogram& histogram, double per_unit);

 private:
  prometheus::ClientMetric& Add(prometheus::ClientMetric::Label label);

  prometheus::MetricFamily& family_;
  std::vector<prometheus::ClientMetric::Label> labels_;
};

// A metric of the process, or of the engine.
struct ProcessFamily {
  const char* name;
  const char* help;
  prometheus::MetricType type;
  void (*collect)(const MetricsSnapshot& snapshot, MetricSink& sink);
};

// A metric with the labels model and version.
struct ModelFamily {
  const char* name;
  const char* help;
  prometheus::MetricType type;
  void (*collect)(const ModelMetrics& model, MetricSink& sink);
};

std::span<const ProcessFamily> ProcessFamilies();
std::span<const ProcessFamily> EngineFamilies();
std::span<const ModelFamily> ModelFamilies();
// Triton's names beside ours, for dashboards that know them.
std::span<const ModelFamily> TritonFamilies();

}  // namespace tandem::server
