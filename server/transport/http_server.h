// A small HTTP/1.1 server for health and metrics: GET and HEAD of a few paths, no bodies, on one
// thread of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace tandem::server {

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// Answers a GET of `path` (no query, still percent-encoded); nothing: 404. Called on the server's
// thread, one call at a time.
using HttpRoutes = std::function<std::optional<HttpReply>(std::string_view path)>;

struct HttpServerOptions {
  std::string address = "0.0.0.0";
  int port = 0;  // 0: the system chooses one
  size_t max_header_bytes = size_t{8} * 1024;
  // For one more, the one that has kept the server waiting longest is closed.
  size_t max_connections = 64;
  // For one request to arrive, for its answer to be taken, and between requests.
  std::chrono::milliseconds timeout{5'000};
};

// Errors: 400 malformed, 404, 405 for other methods, 413 for a request with a body, 431 for a
// header that is too long; after 400, 413 and 431 the connection is closed. Thread-safe.
class HttpServer {
 public:
  // Answers from the moment it is made. Unavailable, naming the address and the system's reason,
  // when the port cannot be had.
  static StatusOr<std::unique_ptr<HttpServer>> Listen(const HttpServerOptions& options,
                                                      HttpRoutes routes);
  ~HttpServer();  // closes all connections

  int port() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::server
