#include "server/config/config.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <vector>

#include "server/config/flags.h"
#include "server/config/triton_flags.h"

namespace tandem::server {
namespace {

constexpr const char* kServeDescription =
    "Tandem serves ONNX models on CPUs, over gRPC (Open Inference Protocol v2).\n"
    "Models lie in the repository as <model>/<version>/model.onnx; the highest version is served.";

constexpr const char* kServeFooter =
    "Flags may be written --flag VALUE or --flag=VALUE; those that take true or false may stand "
    "alone.\n\n"
    "Subcommands:\n"
    "  serve     Serve models; what flags without a subcommand mean.\n"
    "  health    Ask a running daemon whether it is ready: health --addr HOST:PORT.\n"
    "  explain   Show the plan that a model is compiled into.\n"
    "  bench     Measure a model without a server.\n"
    "  run       Run a model once on tensors from files.\n"
    "  export    Write a model as ONNX as it is after all passes.\n"
    "Each has a --help of its own.\n\n"
    "Example:\n"
    "  tandem --model-repository /models --http-port 8000 --grpc-port 8001";

using Milliseconds = std::chrono::milliseconds;

// What the flags fill before it becomes a ServerConfig.
struct ServeFlags {
  ServerConfig config;
  double drain_timeout_seconds = 30;
  double drain_delay_seconds = 0;
  ComputeFlags compute;
  std::string log_format = "text";
  std::string log_level;
  int log_verbose = 0;
  bool log_info = true;
  bool log_warning = true;
  bool log_error = true;
  std::string model_control_mode = "none";
};

void AddListenFlags(FlagGroup group, const std::string& name, const std::string& what,
                    ListenConfig& listen) {
  group.Add("--" + name + "-address", listen.address, "IP", "Address of the " + what);
  group
      .Add("--" + name + "-port", listen.port, "PORT", "Port of the " + what + "; 0: any free one")
      ->check(CLI::Range(0, 65535));
  group.AddSwitch("--allow-" + name, listen.enabled, "Whether there is the " + what);
}

void AddRunFlags(FlagGroup group, ServeFlags& flags) {
  ServerConfig& config = flags.config;
  AddComputeFlags(group, flags.compute);
  group
      .Add("--default-max-batch-size", config.default_max_batch_size, "ITEMS",
           "Most items of one run, for models whose requests may share one; 0: none may")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20));
  group
      .Add("--max-queue", config.max_queue, "REQUESTS",
           "Requests that may wait per model; 0: four full batches, at least 64")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30));
  group
      .Add("--max-message-bytes", config.max_message_bytes, "BYTES",
           "Largest gRPC message, either way")
      ->check(CLI::Range(1, INT32_MAX));
  group
      .Add("--max-request-memory", config.max_request_memory, "BYTES",
           "Memory one request may take, K, M and G (of 1024) allowed; 0: a quarter of what cgroup "
           "and machine allow")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 60));
}

// CLI::Range lets NaN pass.
CLI::Validator SecondsFrom(double least, double most) {
  const auto check = [least, most](const std::string& text) {
    double seconds = 0;
    const bool fits =
        CLI::detail::lexical_cast(text, seconds) && seconds >= least && seconds <= most;
    return fits ? std::string()
                : fmt::format("{} is no number of seconds from {} to {}", text, least, most);
  };
  return {check, ""};
}

void AddLifeFlags(FlagGroup group, ServeFlags& flags) {
  constexpr double kDay = 86400;
  group
      .Add("--drain-timeout,--exit-timeout-secs", flags.drain_timeout_seconds, "SECONDS",
           fmt::format("How long requests under way may take after SIGTERM or SIGINT; another "
                       "signal more than {} s after the first ends the daemon at once",
                       kRepeatedSignalTime.count()))
      ->check(SecondsFrom(0, kDay));
  group
      .Add("--drain-delay", flags.drain_delay_seconds, "SECONDS",
           "How long new requests are still served after SIGTERM")
      ->check(SecondsFrom(0, kDay));
  group.AddSwitch("--strict-readiness", flags.config.strict_readiness,
                  "Ready only when every model is; false: when loading has ended");
  group.AddSwitch("--exit-on-error", flags.config.exit_on_error,
                  "Exit when a model cannot be loaded; false: serve the others");
  group.Add("--model-control-mode", flags.model_control_mode, "MODE",
            "Only none: all models are loaded at the start");
}

void AddReportFlags(FlagGroup group, ServeFlags& flags) {
  group.AddSwitch("--triton-metrics", flags.config.triton_metrics,
                  "Export metrics under Triton's names, nv_inference_*, too");
  group
      .Add("--log-format", flags.log_format, "FORMAT",
           "text or json, one line an event; Triton's default and ISO8601 mean text")
      ->check(CLI::IsMember({"text", "json", "default", "ISO8601"}));
  group.Add("--log-level", flags.log_level, "LEVEL", "trace, debug, info, warning, error or off")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "off"}))
      ->option_text("LEVEL [info]");
  group.Add("--log-verbose", flags.log_verbose, "N", "Triton's: 0, 1 (debug) or more (trace)")
      ->check(CLI::Range(0, 1 << 20));
  group.AddSwitch("--log-info", flags.log_info, "Triton's: log events of the level info");
  group.AddSwitch("--log-warning", flags.log_warning, "Triton's: log warnings");
  group.AddSwitch("--log-error", flags.log_error, "Triton's: log errors");
}

std::unique_ptr<CLI::App> MakeServeApp(ServeFlags& flags) {
  auto app = std::make_unique<CLI::App>(kServeDescription, "tandem");
  app->footer(kServeFooter);
  app->set_help_flag("-h,--help", "Print this and exit");
  app->set_version_flag("--version", "tandem " TANDEM_VERSION, "Print the version and exit");
  app->add_option("--model-repository,--model-store", flags.config.model_repository,
                  "Directory of the models")
      ->option_text("DIR, required");
  const FlagGroup listen(*app, "Where it listens");
  AddListenFlags(listen, "grpc", "gRPC server", flags.config.grpc);
  AddListenFlags(listen, "http", "HTTP server", flags.config.http);
  AddListenFlags(listen, "metrics", "metrics server", flags.config.metrics);
  AddRunFlags({*app, "How it computes"}, flags);
  AddLifeFlags({*app, "Start and end"}, flags);
  AddReportFlags({*app, "What it tells"}, flags);
  return app;
}

Milliseconds FromSeconds(double seconds) { return Milliseconds(std::llround(seconds * 1000)); }

StatusOr<LogLevel> ResolveLogLevel(const CLI::App& app, const ServeFlags& flags) {
  const auto given = [&](const char* name) { return app.count(name) > 0; };
  if (given("--log-level")) {
    for (const char* other : {"--log-verbose", "--log-info", "--log-warning", "--log-error"}) {
      if (given(other)) {
        return InvalidArgument(
            "--log-level and {} were both given; one of them says what is logged", other);
      }
    }
    static const std::map<std::string, LogLevel> kLevels = {
        {"trace", LogLevel::kTrace},     {"debug", LogLevel::kDebug}, {"info", LogLevel::kInfo},
        {"warning", LogLevel::kWarning}, {"error", LogLevel::kError}, {"off", LogLevel::kOff}};
    return kLevels.at(flags.log_level);
  }
  if (flags.log_verbose > 1) return LogLevel::kTrace;
  if (flags.log_verbose == 1) return LogLevel::kDebug;
  if (flags.log_info) return LogLevel::kInfo;
  if (flags.log_warning) return LogLevel::kWarning;
  return flags.log_error ? LogLevel::kError : LogLevel::kOff;
}

StatusOr<ServerConfig> Resolve(const CLI::App& app, const ServeFlags& flags) {
  ServerConfig config = flags.config;
  // Said here, not by the parser, which would say it before it says that a flag is unknown.
  if (app.count("--model-repository") == 0) {
    return InvalidArgument("--model-repository is required; see --help");
  }
  if (config.model_repository.empty()) return InvalidArgument("--model-repository is empty");
  if (!config.grpc.enabled && !config.http.enabled && !config.metrics.enabled) {
    return InvalidArgument(
        "--allow-grpc, --allow-http and --allow-metrics are all false, so that nothing would "
        "listen; one of them must be true");
  }
  if (flags.model_control_mode != "none") {
    return InvalidArgument(
        "--model-control-mode is '{}'; only none exists: all models are loaded at the start",
        flags.model_control_mode);
  }
  config.threads = flags.compute.threads;
  ASSIGN_OR_RETURN(config.isa, ResolveCpu(flags.compute));
  ASSIGN_OR_RETURN(config.precision, ResolvePrecision(flags.compute));
  config.drain_timeout = FromSeconds(flags.drain_timeout_seconds);
  config.drain_delay = FromSeconds(flags.drain_delay_seconds);
  config.log_format = flags.log_format == "json" ? LogFormat::kJson : LogFormat::kText;
  ASSIGN_OR_RETURN(config.log_level, ResolveLogLevel(app, flags));
  return config;
}

// The name of the flag in "--name=value" and "--name", else nothing.
std::optional<std::string_view> FlagName(std::string_view argument) {
  if (argument.substr(0, 2) != "--") return std::nullopt;
  argument.remove_prefix(2);
  return argument.substr(0, argument.find('='));
}

Status RefuseForeignFlags(std::span<const std::string> arguments) {
  for (const std::string& argument : arguments) {
    const std::optional<std::string_view> name = FlagName(argument);
    if (!name) continue;
    if (const std::optional<std::string_view> why = WhyRefused(*name)) {
      return InvalidArgument(
          "--{} is a flag of Triton's that has no meaning here, since {}; remove it", *name, *why);
    }
  }
  return absl::OkStatus();
}

StatusOr<Invocation> ParseServe(std::span<const std::string> arguments) {
  RETURN_IF_ERROR(RefuseForeignFlags(arguments));
  ServeFlags flags;
  const std::unique_ptr<CLI::App> app = MakeServeApp(flags);
  ASSIGN_OR_RETURN(const std::optional<std::string> text, ParseFlags(*app, arguments));
  if (text) return PrintConfig{*text};
  ASSIGN_OR_RETURN(ServerConfig config, Resolve(*app, flags));
  return config;
}

StatusOr<Invocation> ParseHealth(std::span<const std::string> arguments) {
  HealthConfig config;
  double timeout_seconds = 5;
  CLI::App app("Asks a running daemon whether it is ready; exits with 0 when it is, else with 1.",
               "tandem health");
  app.set_help_flag("-h,--help", "Print this and exit");
  FlagGroup group(app, "Options");
  group.Add("--addr", config.address, "HOST:PORT", "Address of its gRPC server");
  group.Add("--timeout", timeout_seconds, "SECONDS", "How long to wait for the answer")
      ->check(SecondsFrom(0.001, 3600));
  ASSIGN_OR_RETURN(const std::optional<std::string> text, ParseFlags(app, arguments));
  if (text) return PrintConfig{*text};
  const size_t colon = config.address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == config.address.size()) {
    return InvalidArgument("--addr is '{}'; HOST:PORT is expected", config.address);
  }
  uint16_t port = 0;
  if (!CLI::detail::lexical_cast(config.address.substr(colon + 1), port) || port == 0) {
    return InvalidArgument("--addr is '{}'; its port is no number from 1 to 65535", config.address);
  }
  config.timeout = FromSeconds(timeout_seconds);
  return config;
}

}  // namespace

StatusOr<Invocation> ParseCommandLine(std::span<const std::string> arguments) {
  if (!arguments.empty() && !arguments.front().empty() && arguments.front().front() != '-') {
    const std::string& command = arguments.front();
    if (command == "serve") return ParseServe(arguments.subspan(1));
    if (command == "health") return ParseHealth(arguments.subspan(1));
    return InvalidArgument(
        "'{}' is no subcommand; serve, health, explain, bench, run and export are", command);
  }
  return ParseServe(arguments);
}

}  // namespace tandem::server
