// The daemon: `tandem [serve]` and its health client `tandem health`. What needs no server
// (explain, bench, run, export) stands in cli/.
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

#include "cli/cli.h"
#include "engine/base/clock.h"
#include "engine/base/memory.h"
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
#include "server/transport/library_logs.h"
#include "server/transport/model_config_text.h"

namespace tandem::server {
namespace {

constexpr int kStopped = 0;
constexpr int kFailed = 1;
constexpr int kUnusable = 2;

// The least time that refusals and replies have to leave.
constexpr std::chrono::milliseconds kReplyTime{1500};

// Memory that one request may take, in bytes.
uint64_t RequestMemory(const ServerConfig& config) {
  return config.max_request_memory > 0 ? config.max_request_memory : AvailableMemory() / 4;
}

// Everything that lives as long as the daemon; a member may use those above it.
class Daemon {
 public:
  Daemon(const ServerConfig& config, StopSignals& signals)
      : config_(config),
        signals_(signals),
        metrics_({.version = TANDEM_VERSION, .triton_metrics = config.triton_metrics}),
        engine_({.threads = config.threads,
                 .isa = config.isa,
                 .precision = config.precision,
                 .max_run_bytes = RequestMemory(config)}),
        repository_({.root = config.model_repository,
                     .default_max_batch_size = config.default_max_batch_size,
                     .parse_settings = ParseSettings},
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

  // What happens on SIGTERM and SIGINT.
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
    // 4. Connections are closed when the refusals and replies have left.
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
  RedirectLibraryLogs();
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
  if (!arguments.empty() && cli::IsCommand(arguments.front())) return cli::RunCommand(arguments);
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
