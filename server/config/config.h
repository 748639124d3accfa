// The command line of the daemon. Nothing here touches the machine: text in, plain structs out.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "engine/base/precision.h"
#include "engine/base/status.h"

namespace tandem::server {

// Where one of the daemon's servers listens.
struct ListenConfig {
  bool enabled = true;
  std::string address = "0.0.0.0";
  int port = 0;  // 0: the system chooses one
};

// A SIGTERM or SIGINT that comes this soon after the first one means no more than it: terminals,
// scripts and supervisors may each send one. A later one ends the daemon at once.
inline constexpr std::chrono::seconds kRepeatedSignalTime{2};

enum class LogFormat { kText, kJson };

// Least severe events that are logged. kTrace is more than kDebug.
enum class LogLevel { kTrace, kDebug, kInfo, kWarning, kError, kOff };

// Everything `tandem serve` can be told.
struct ServerConfig {
  std::string model_repository;
  ListenConfig grpc{.port = 8001};
  ListenConfig http{.port = 8000};
  ListenConfig metrics{.port = 8002};

  int threads = 0;         // that compute; 0: the CPUs this process may use
  std::optional<Isa> isa;  // highest instruction set to use; nothing: what the machine has
  Precision precision = Precision::kF32;  // of products of float32

  int64_t default_max_batch_size = 32;  // of models whose items may share a run; 0: none batches
  int64_t max_queue = 0;  // requests that wait per model; 0: four full batches, at least 64
  int max_message_bytes = INT32_MAX;  // of one gRPC message, either way
  // Memory one request may take while it is computed, in bytes; 0: a quarter of what there is.
  uint64_t max_request_memory = 0;

  // After SIGTERM: how long requests are still accepted, then how long those under way may take.
  std::chrono::milliseconds drain_delay{0};
  std::chrono::milliseconds drain_timeout{30'000};

  bool strict_readiness = true;  // ready only while every model is
  bool exit_on_error = false;    // a model that cannot be loaded ends the daemon
  bool triton_metrics = true;    // nv_inference_* beside tandem_*

  LogFormat log_format = LogFormat::kText;
  LogLevel log_level = LogLevel::kInfo;
};

// `tandem health`: asks a running daemon whether it is ready.
struct HealthConfig {
  std::string address = "127.0.0.1:8001";  // HOST:PORT of its gRPC server
  std::chrono::milliseconds timeout{5'000};
};

// Text to print on standard output, with nothing else to do: --help, --version.
struct PrintConfig {
  std::string text;
};

using Invocation = std::variant<ServerConfig, HealthConfig, PrintConfig>;

// Reads the arguments after the program's name. Without a subcommand they mean `serve`.
// InvalidArgument names the flag, what came and what is expected; so do flags of Triton's that have
// no meaning here, since a deployment that passes them counts on what they do.
StatusOr<Invocation> ParseCommandLine(std::span<const std::string> arguments);

}  // namespace tandem::server
