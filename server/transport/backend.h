// What the transport asks of the rest of the server, so that it can be tested alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "server/batching/batcher.h"
#include "server/metrics/metrics.h"
#include "server/models/repository.h"

namespace tandem::server {

enum class ServerState {
  kLoading,   // ports are open, models are being loaded
  kServing,   // loading has ended
  kDraining,  // asked to stop: requests are still answered, nobody should send more
};

// Thread-safe; no function waits.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual ServerState state() const = 0;
  // True while requests for every model are welcome.
  virtual bool Ready() const = 0;
  // As Repository's functions of these names.
  virtual StatusOr<ServedModelRef> Find(std::string_view name, std::string_view version) const = 0;
  virtual StatusOr<std::vector<int64_t>> ReadyVersions(std::string_view name) const = 0;
  virtual std::vector<ModelStatus> Index() const = 0;
  // Runs of one model that may be under way at the same time where the model does not say.
  virtual int runners() const = 0;
  // A request was refused before it reached a model.
  virtual void CountUnserved(UnservedReason reason) = 0;
  // As Batcher::Submit.
  virtual std::shared_ptr<InferCall> Submit(InferRequest request, Batcher::Done done) = 0;
};

struct LiveBackendParts {
  const Repository& repository;
  Batcher& batcher;
  Metrics& metrics;
  int runners = 1;
  bool strict_readiness = true;  // ready only while every model is
};

// The backend of the daemon. What it is made of must outlive it.
class LiveBackend final : public Backend {
 public:
  explicit LiveBackend(LiveBackendParts parts) : parts_(parts) {}

  // Serves from now on, unless it drains already.
  void LoadingEnded();
  void Drain() { state_ = ServerState::kDraining; }

  ServerState state() const override { return state_; }
  bool Ready() const override;
  StatusOr<ServedModelRef> Find(std::string_view name, std::string_view version) const override;
  StatusOr<std::vector<int64_t>> ReadyVersions(std::string_view name) const override;
  std::vector<ModelStatus> Index() const override;
  int runners() const override { return parts_.runners; }
  void CountUnserved(UnservedReason reason) override;
  std::shared_ptr<InferCall> Submit(InferRequest request, Batcher::Done done) override;

 private:
  const LiveBackendParts parts_;
  std::atomic<ServerState> state_{ServerState::kLoading};
};

}  // namespace tandem::server
