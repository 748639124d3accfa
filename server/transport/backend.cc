#include "server/transport/backend.h"

#include <utility>

namespace tandem::server {

void LiveBackend::LoadingEnded() {
  ServerState loading = ServerState::kLoading;
  state_.compare_exchange_strong(loading, ServerState::kServing);
}

bool LiveBackend::Ready() const {
  if (state_ != ServerState::kServing) return false;
  return !parts_.strict_readiness || parts_.repository.AllReady();
}

StatusOr<ServedModelRef> LiveBackend::Find(std::string_view name, std::string_view version) const {
  return parts_.repository.Find(name, version);
}

StatusOr<std::vector<int64_t>> LiveBackend::ReadyVersions(std::string_view name) const {
  return parts_.repository.ReadyVersions(name);
}

std::vector<ModelStatus> LiveBackend::Index() const { return parts_.repository.Index(); }

void LiveBackend::CountUnserved(UnservedReason reason) {
  parts_.metrics.unserved[static_cast<size_t>(reason)].Add();
}

std::shared_ptr<InferCall> LiveBackend::Submit(InferRequest request, Batcher::Done done) {
  return parts_.batcher.Submit(std::move(request), std::move(done));
}

}  // namespace tandem::server
