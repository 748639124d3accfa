// grpc.health.v1.Health. The services it knows: "" and "inference.GRPCInferenceService" (the server
// is ready) and the name of each model of the repository (that model is ready).
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/transport/backend.h"

namespace tandem::server {

// Thread-safe; `backend` outlives it.
class HealthService final : public grpc::health::v1::Health::WithRawCallbackMethod_Check<
                                grpc::health::v1::Health::CallbackService> {
 public:
  explicit HealthService(const Backend& backend) : backend_(backend) {}

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request) override;

  // Tells the watchers whose status has changed. Check needs no telling.
  void Publish();
  // Ends all Watch calls, after the last status was sent, and refuses new ones.
  void EndWatches();

 private:
  class Watcher;

  grpc::health::v1::HealthCheckResponse::ServingStatus StatusOf(const std::string& service) const;
  void Remove(Watcher* watcher);

  const Backend& backend_;
  std::mutex mutex_;
  std::set<Watcher*> watchers_;
  bool ended_ = false;
};

}  // namespace tandem::server
