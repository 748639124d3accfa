#include "server/config/triton_flags.h"

#include <array>

namespace tandem::server {
namespace {

constexpr std::string_view kLoading = "every model of the repository is loaded once, at the start";
constexpr std::string_view kRunners = "--threads bounds what computes and the rest never blocks";
constexpr std::string_view kTls = "the ports speak plaintext; put a TLS proxy in front";
constexpr std::string_view kConnections = "gRPC's defaults for connections apply";
constexpr std::string_view kOneBackend =
    "there is one backend, and models need no configuration file";
constexpr std::string_view kNoGpu = "there is no GPU memory to manage";
constexpr std::string_view kNoCache = "responses are not cached";
constexpr std::string_view kNoTrace = "tracing is not available";
constexpr std::string_view kNoSharedMemory = "tensors travel in messages, not in shared memory";
constexpr std::string_view kNoRateLimit =
    "runs are bounded by --threads, and queues by --max-queue";
constexpr std::string_view kStandardError = "logs go to standard error";
constexpr std::string_view kMetrics = "one set of metrics is sampled at each scrape";
constexpr std::string_view kHeaders = "request headers neither restrict calls nor reach models";
constexpr std::string_view kListeners = "each port is bound once";
constexpr std::string_view kOtherEndpoints = "that endpoint does not exist here";

struct Refused {
  std::string_view name;
  std::string_view why;
};

constexpr auto kRefused = std::to_array<Refused>({
    {"load-model", kLoading},
    {"repository-poll-secs", kLoading},
    {"model-load-thread-count", kLoading},
    {"model-load-retry-count", kLoading},
    {"model-namespacing", kLoading},
    {"enable-peer-access", kNoGpu},
    {"pinned-memory-pool-byte-size", kNoGpu},
    {"cuda-memory-pool-byte-size", kNoGpu},
    {"cuda-virtual-address-size", kNoGpu},
    {"min-supported-compute-capability", kNoGpu},
    {"model-load-gpu-limit", kNoGpu},
    {"buffer-manager-thread-count", kRunners},
    {"grpc-infer-thread-count", kRunners},
    {"grpc-infer-allocation-pool-size", kRunners},
    {"grpc-max-response-pool-size", kRunners},
    {"http-thread-count", kRunners},
    {"host-policy", kRunners},
    {"grpc-infer-response-compression-level", "responses are not compressed"},
    {"grpc-use-ssl", kTls},
    {"grpc-use-ssl-mutual", kTls},
    {"grpc-server-cert", kTls},
    {"grpc-server-key", kTls},
    {"grpc-root-cert", kTls},
    {"grpc-keepalive-time", kConnections},
    {"grpc-keepalive-timeout", kConnections},
    {"grpc-keepalive-permit-without-calls", kConnections},
    {"grpc-http2-max-pings-without-data", kConnections},
    {"grpc-http2-min-recv-ping-interval-without-data", kConnections},
    {"grpc-http2-max-ping-strikes", kConnections},
    {"grpc-max-connection-age", kConnections},
    {"grpc-max-connection-age-grace", kConnections},
    {"grpc-restricted-protocol", kHeaders},
    {"grpc-header-forward-pattern", kHeaders},
    {"http-restricted-api", kHeaders},
    {"http-header-forward-pattern", kHeaders},
    {"http-max-input-size", "--max-message-bytes bounds gRPC messages, and HTTP takes no tensors"},
    {"reuse-grpc-port", kListeners},
    {"reuse-http-port", kListeners},
    {"allow-gpu-metrics", kNoGpu},
    {"allow-cpu-metrics", kMetrics},
    {"metrics-interval-ms", kMetrics},
    {"metrics-config", kMetrics},
    {"log-file", kStandardError},
    {"rate-limit", kNoRateLimit},
    {"rate-limit-resource", kNoRateLimit},
    {"cache-config", kNoCache},
    {"cache-directory", kNoCache},
    {"response-cache-byte-size", kNoCache},
    {"allow-client-shm", kNoSharedMemory},
    {"trace-config", kNoTrace},
    {"trace-file", kNoTrace},
    {"trace-level", kNoTrace},
    {"trace-rate", kNoTrace},
    {"trace-count", kNoTrace},
    {"trace-log-frequency", kNoTrace},
    {"backend-directory", kOneBackend},
    {"backend-config", kOneBackend},
    {"repoagent-directory", kOneBackend},
    {"strict-model-config", kOneBackend},
    {"disable-auto-complete-config", kOneBackend},
    {"model-config-name", kOneBackend},
    {"allow-sagemaker", kOtherEndpoints},
    {"sagemaker-port", kOtherEndpoints},
    {"sagemaker-safe-port-range", kOtherEndpoints},
    {"sagemaker-thread-count", kOtherEndpoints},
    {"allow-vertex-ai", kOtherEndpoints},
    {"vertex-ai-port", kOtherEndpoints},
    {"vertex-ai-thread-count", kOtherEndpoints},
    {"vertex-ai-default-model", kOtherEndpoints},
    {"id", "the server's name is fixed"},
});

}  // namespace

std::optional<std::string_view> WhyRefused(std::string_view name) {
  for (const Refused& refused : kRefused) {
    if (refused.name == name) return refused.why;
  }
  return std::nullopt;
}

}  // namespace tandem::server
