#include "server/batching/policy.h"

#include <utility>

namespace tandem::server {
namespace {

std::vector<size_t> Expired(std::span<const PendingRequest> pending, Clock::TimePoint now) {
  std::vector<size_t> expired;
  for (size_t i = 0; i < pending.size(); ++i) {
    if (pending[i].expires <= now) expired.push_back(i);
  }
  return expired;
}

struct Batch {
  std::vector<size_t> members;
  bool full = false;
};

Batch JoinOldest(std::span<const PendingRequest> pending, int64_t max_batch_size) {
  Batch batch{.members = {0}};
  const PendingRequest& oldest = pending.front();
  // A request without items has nothing to share.
  if (max_batch_size == 0 || oldest.items == 0) return {{0}, true};
  int64_t items = oldest.items;
  for (size_t i = 1; i < pending.size() && items < max_batch_size; ++i) {
    const PendingRequest& other = pending[i];
    if (other.items == 0 || other.group != oldest.group) continue;
    if (other.items > max_batch_size - items) continue;
    items += other.items;
    batch.members.push_back(i);
  }
  batch.full = items >= max_batch_size;
  return batch;
}

}  // namespace

Decision Decide(const QueueSnapshot& queue, const BatchPolicy& policy, Clock::TimePoint now) {
  if (std::vector<size_t> expired = Expired(queue.pending, now); !expired.empty()) {
    return Shed{std::move(expired)};
  }
  if (queue.pending.empty() || queue.active_runs >= policy.max_runs) {
    return WaitUntil{Clock::TimePoint::max()};
  }
  Batch batch = JoinOldest(queue.pending, policy.max_batch_size);
  const Clock::TimePoint patience = queue.pending.front().enqueued + policy.max_queue_delay;
  if (!batch.full && patience > now) return WaitUntil{patience};
  return RunNow{std::move(batch.members)};
}

}  // namespace tandem::server
