// The daemon: `tandem [serve]` and its health client `tandem health`.
//
// Exit codes: 0 stopped as asked, or healthy; 1 failed, or not healthy; 2 the command line, an
// address or the model repository cannot be used.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "engine/base/clock.h"
#include "engine/engine.h"
#include "server/batching/batcher.h"
#include "server/config/config.h"
#include "server/logging.h"
#include "server/metrics/metrics.h"
#include "server/models/repository.h"
#include "server/stop_signals.h"
#include "server/transport/address.h"
#include "server/transport/backend.h"
#include "server/transport/grpc_server.h"
#include "server/transport/health_routes.h"
#include "server/transport/http_server.h"

namespace tandem::server {
namespace {

constexpr int kStopped = 0;
constexpr int kFailed = 1;
constexpr int kUnusable = 2;

// While the daemon stops: how long without a request is quiet, and how often that is tried.
constexpr std::chrono::milliseconds kQuiet{100};
constexpr int kQuietSteps = 10;
// The least time that replies have to leave.
constexpr std::chrono::milliseconds kReplyTime{1000};

// Everything that lives as long as the daemon; a member may use those above it.
class Daemon {
 public:
  Daemon(const ServerConfig& config, StopSignals& signals)
      : config_(config),
        signals_(signals),
        metrics_({.version = TANDEM_VERSION, .triton_metrics = config.triton_metrics}),
        engine_({.threads = config.threads, .isa = config.isa}),
        repository_({.root = config.model_repository,
                     .default_max_batch_size = config.default_max_batch_size},
                    engine_, metrics_),
        batcher_({.max_queue = config.max_queue, .runners = engine_.threads()}, clock_),
        backend_({.repository = repository_,
                  .batcher = batcher_,
                  .metrics = metrics_,
                  .runners = engine_.threads(),
                  .strict_readiness = config.strict_readiness}) {}

  // Opens all ports; from now on the daemon answers that it is live and not ready.
  Status Listen() {
    std::string line;
    if (config_.grpc.enabled) {
      ASSIGN_OR_RETURN(grpc_, GrpcServer::Listen({.address = config_.grpc.address,
                                                  .port = config_.grpc.port,
                                                  .max_message_bytes = config_.max_message_bytes},
                                                 backend_, clock_));
      line += " grpc=" + HostPort(config_.grpc.address, grpc_->port());
    }
    if (config_.http.enabled) {
      ASSIGN_OR_RETURN(
          http_, HttpServer::Listen({.address = config_.http.address, .port = config_.http.port},
                                    HealthRoutes(backend_)));
      line += " http=" + HostPort(config_.http.address, http_->port());
    }
    if (config_.metrics.enabled) {
      ASSIGN_OR_RETURN(
          metrics_http_,
          HttpServer::Listen({.address = config_.metrics.address, .port = config_.metrics.port},
                             MetricsRoutes([this] { return metrics_.Export(); },
                                           std::string(Metrics::kContentType))));
      line += " metrics=" + HostPort(config_.metrics.address, metrics_http_->port());
    }
    spdlog::info("listening{}", line);
    return absl::OkStatus();
  }

  // Loads the models in the background; the daemon becomes ready when the last one is.
  void StartLoading() {
    loader_ = std::thread([this] {
      const int failure = Load();
      if (failure == kStopped) return;
      exit_code_ = failure;
      signals_.Stop();
    });
  }

  // What happens on SIGTERM and SIGINT. A second signal ends the process at once.
  int Stop() {
    // 1. Nobody should send more: not ready, health NOT_SERVING. A load under way is given up.
    backend_.Drain();
    PublishHealth();
    spdlog::info("draining delay_ms={} timeout_ms={}", config_.drain_delay.count(),
                 config_.drain_timeout.count());
    // 2. Requests are still accepted while load balancers learn of it.
    std::this_thread::sleep_for(config_.drain_delay);
    // 3. New requests are refused as Unavailable; those under way finish, or end with the time.
    const Clock::TimePoint end = clock_.Now() + config_.drain_timeout;
    if (!batcher_.Drain(config_.drain_timeout)) spdlog::warn("drain timeout: requests given up");
    AwaitQuiet();
    // 4. Connections are closed when the replies have left.
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - clock_.Now());
    if (grpc_ != nullptr) grpc_->Shutdown(std::max(left, kReplyTime));
    loader_.join();
    spdlog::info("stopped");
    return exit_code_;
  }

 private:
  bool stopping() const { return backend_.state() == ServerState::kDraining; }

  void PublishHealth() {
    if (grpc_ != nullptr) grpc_->PublishHealth();
  }

  // Returns when no request has come for a while. gRPC answers CANCELLED to a call that crosses the
  // GOAWAY, which clients do not retry: those in the middle of sending are refused properly first.
  void AwaitQuiet() const {
    for (int step = 0; step < kQuietSteps; ++step) {
      const uint64_t seen = backend_.submitted();
      std::this_thread::sleep_for(kQuiet);
      if (backend_.submitted() == seen) return;
    }
  }

  int Load() {
    try {
      const Status loaded = repository_.LoadAll([this] {
        PublishHealth();
        return stopping();
      });
      if (stopping()) return kStopped;
      if (!loaded.ok()) {
        spdlog::error("model repository: {}", Message(loaded));
        return kUnusable;
      }
    } catch (const std::exception& e) {
      spdlog::error("loading ended with an exception: {}", e.what());
      return kFailed;
    }
    if (config_.exit_on_error && !repository_.AllReady()) {
      spdlog::error("a model could not be loaded");
      return kFailed;
    }
    backend_.LoadingEnded();
    PublishHealth();
    spdlog::info("{}", backend_.Ready() ? "ready" : "not ready: not every model could be loaded");
    return kStopped;
  }

  const ServerConfig config_;
  StopSignals& signals_;
  const SteadyClock clock_;
  Metrics metrics_;
  const Engine engine_;
  Repository repository_;
  Batcher batcher_;
  LiveBackend backend_;
  std::unique_ptr<GrpcServer> grpc_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<HttpServer> metrics_http_;
  std::thread loader_;
  std::atomic<int> exit_code_{kStopped};
};

int Serve(const ServerConfig& config) {
  StopSignals signals;
  std::signal(SIGPIPE, SIG_IGN);
  const Logging logging(config.log_format, config.log_level);
  spdlog::info("starting version={} repository={}", TANDEM_VERSION, config.model_repository);
  Daemon daemon(config, signals);
  if (const Status listening = daemon.Listen(); !listening.ok()) {
    spdlog::error("{}", Message(listening));
    return kUnusable;
  }
  daemon.StartLoading();
  signals.Wait();
  return daemon.Stop();
}

int AskHealth(const HealthConfig& config) {
  const Status status = CheckHealth(config.address, config.timeout);
  if (status.ok()) return kStopped;
  fmt::print(stderr, "tandem: {}\n", Message(status));
  return kFailed;
}

int Print(const PrintConfig& config) {
  fmt::print("{}", config.text);
  return kStopped;
}

int Run(const std::vector<std::string>& arguments) {
  const StatusOr<Invocation> invocation = ParseCommandLine(arguments);
  if (!invocation.ok()) {
    fmt::print(stderr, "tandem: {}\n", Message(invocation.status()));
    return kUnusable;
  }
  if (const auto* health = std::get_if<HealthConfig>(&*invocation)) return AskHealth(*health);
  if (const auto* print = std::get_if<PrintConfig>(&*invocation)) return Print(*print);
  return Serve(std::get<ServerConfig>(*invocation));
}

}  // namespace
}  // namespace tandem::server

int main(int argc, char** argv) {
  try {
    return tandem::server::Run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    fmt::print(stderr, "tandem: {}\n", e.what());
    return tandem::server::kFailed;
  }
}
