#include "server/transport/health_routes.h"

#include <optional>
#include <string_view>
#include <utility>

namespace tandem::server {
namespace {

constexpr std::string_view kModels = "/v2/models/";
constexpr std::string_view kVersions = "/versions/";
constexpr std::string_view kReady = "/ready";

HttpReply Answer(bool yes, std::string_view when_not) {
  if (yes) return {.body = "ok\n"};
  return {.status = 503, .body = fmt::format("{}\n", when_not)};
}

HttpReply ErrorReply(const Status& status) {
  const int code = status.code() == absl::StatusCode::kNotFound          ? 404
                   : status.code() == absl::StatusCode::kInvalidArgument ? 400
                                                                         : 503;
  return {.status = code, .body = fmt::format("{}\n", Message(status))};
}

// NAME/ready or NAME/versions/VERSION/ready.
std::optional<HttpReply> ModelReady(const Backend& backend, std::string_view rest) {
  if (!rest.ends_with(kReady)) return std::nullopt;
  std::string_view name = rest.substr(0, rest.size() - kReady.size());
  std::string_view version;
  if (const size_t at = name.find(kVersions); at != std::string_view::npos) {
    version = name.substr(at + kVersions.size());
    name = name.substr(0, at);
  }
  const StatusOr<ServedModelRef> model = backend.Find(name, version);
  if (!model.ok()) return ErrorReply(model.status());
  return Answer(backend.state() != ServerState::kDraining, "stopping");
}

}  // namespace

HttpRoutes HealthRoutes(const Backend& backend) {
  return [&backend](std::string_view path) -> std::optional<HttpReply> {
    if (path == "/v2/health/live") return Answer(true, "");
    if (path == "/v2/health/ready") return Answer(backend.Ready(), "not ready");
    if (path.starts_with(kModels)) return ModelReady(backend, path.substr(kModels.size()));
    return std::nullopt;
  };
}

HttpRoutes MetricsRoutes(std::function<std::string()> text, std::string content_type) {
  return [text = std::move(text),
          type = std::move(content_type)](std::string_view path) -> std::optional<HttpReply> {
    if (path != "/metrics") return std::nullopt;
    return HttpReply{.content_type = type, .body = text()};
  };
}

}  // namespace tandem::server
