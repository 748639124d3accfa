#include "server/logging.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/async.h>
#include <spdlog/formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace tandem::server {
namespace {

constexpr size_t kQueueLines = 8192;

void AppendEscaped(std::string_view text, LogFormat format, std::string& out) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", byte);
    } else if (format == LogFormat::kJson && (c == '"' || c == '\\')) {
      out += {'\\', c};
    } else {
      out += c;
    }
  }
}

class LineFormatter final : public spdlog::formatter {
 public:
  explicit LineFormatter(LogFormat format) : format_(format) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const auto since = message.time.time_since_epoch();
    const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
    const std::string time =
        fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(millis / 1000), millis % 1000);
    const auto level = spdlog::level::to_string_view(message.level);
    std::string text;
    AppendEscaped({message.payload.data(), message.payload.size()}, format_, text);
    const auto end = std::back_inserter(out);
    if (format_ == LogFormat::kJson) {
      fmt::format_to(end, "{{\"time\":\"{}\",\"level\":\"{}\",\"message\":\"{}\"}}\n", time,
                     std::string_view(level.data(), level.size()), text);
    } else {
      fmt::format_to(end, "{} {} {}\n", time, std::string_view(level.data(), level.size()), text);
    }
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<LineFormatter>(format_);
  }

 private:
  const LogFormat format_;
};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

}  // namespace

Logging::Logging(LogFormat format, LogLevel level) {
  spdlog::init_thread_pool(kQueueLines, 1);
  auto logger = std::make_shared<spdlog::async_logger>(
      "tandem", std::make_shared<spdlog::sinks::stderr_sink_mt>(), spdlog::thread_pool(),
      spdlog::async_overflow_policy::overrun_oldest);
  logger->set_formatter(std::make_unique<LineFormatter>(format));
  logger->set_level(ToSpdlog(level));
  spdlog::set_default_logger(std::move(logger));
}

Logging::~Logging() { spdlog::shutdown(); }

}  // namespace tandem::server
