// The paths that the HTTP servers answer.
#pragma once

#include <functional>
#include <string>

#include "server/transport/backend.h"
#include "server/transport/http_server.h"

namespace tandem::server {

// /v2/health/live, /v2/health/ready and /v2/models/NAME[/versions/VERSION]/ready: 200 when it is
// so, else 503; 404 for a model that is not there. `backend` outlives the routes.
HttpRoutes HealthRoutes(const Backend& backend);

// /metrics: what `text` returns.
HttpRoutes MetricsRoutes(std::function<std::string()> text, std::string content_type);

}  // namespace tandem::server
