// The gRPC server: inference.GRPCInferenceService, grpc.health.v1.Health and server reflection on
// one port, in plain text.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "server/transport/backend.h"

namespace tandem::server {

struct GrpcServerOptions {
  std::string address = "0.0.0.0";
  int port = 0;                        // 0: the system chooses one
  int max_message_bytes = INT32_MAX;   // either way
  int max_concurrent_streams = 1024;   // per connection
  int max_metadata_bytes = 16 * 1024;  // per call
  size_t memory_quota_bytes = 0;       // of all messages under way; 0: no bound
};

// Answers from the moment it is made. Thread-safe.
class GrpcServer {
 public:
  // `backend` and `clock` outlive the server. Unavailable, naming the address and the system's
  // reason, when the port cannot be had.
  static StatusOr<std::unique_ptr<GrpcServer>> Listen(const GrpcServerOptions& options,
                                                      Backend& backend, const Clock& clock);
  ~GrpcServer();  // as Shutdown with no time left

  int port() const;

  // The backend's readiness may have changed: tells those who watch it.
  void PublishHealth();

  // Whoever calls this has made the backend refuse new requests. Calls that still come are refused
  // with the backend's own status; those who try again at once do not see their connection close
  // under a call. Returns when the ModelInfer calls under way are answered and the connections are
  // closed; after `timeout` such calls are cancelled.
  void Shutdown(std::chrono::milliseconds timeout);

 private:
  class Impl;
  explicit GrpcServer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// Asks the server at `address` ("HOST:PORT") whether it is ready, through grpc.health.v1. The error
// of the call, or Unavailable when it is not serving.
Status CheckHealth(const std::string& address, std::chrono::milliseconds timeout);

}  // namespace tandem::server
