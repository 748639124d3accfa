#include "server/transport/library_logs.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <string_view>

namespace tandem::server {
namespace {

void Log(spdlog::level::level_enum level, std::string_view library, std::string_view message) {
  // Threads of gRPC may outlive the logger.
  const std::shared_ptr<spdlog::logger> logger = spdlog::default_logger();
  if (logger != nullptr) logger->log(level, "{}: {}", library, message);
}

void LogGrpc(gpr_log_func_args* args) {
  const bool error = args->severity == GPR_LOG_SEVERITY_ERROR;
  Log(error ? spdlog::level::warn : spdlog::level::debug, "grpc", args->message);
}

void LogProtobuf(google::protobuf::LogLevel level, const char*, int, const std::string& message) {
  const bool error = level >= google::protobuf::LOGLEVEL_ERROR;
  Log(error ? spdlog::level::warn : spdlog::level::debug, "protobuf", message);
}

}  // namespace

void RedirectLibraryLogs() {
  gpr_set_log_function(LogGrpc);
  google::protobuf::SetLogHandler(LogProtobuf);
}

}  // namespace tandem::server
