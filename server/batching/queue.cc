#include "server/batching/queue.h"

#include <algorithm>
#include <utility>

namespace tandem::server {

ModelQueue::ModelQueue(ServedModelRef model, int64_t bound, int max_runs)
    : model_(std::move(model)),
      bound_(bound),
      policy_{.max_batch_size = model_->max_batch_size,
              .max_runs = max_runs,
              .max_queue_delay = model_->max_queue_delay} {}

void ModelQueue::Remove(const Call& call) {
  const auto it = std::find_if(pending_.begin(), pending_.end(),
                               [&](const CallRef& other) { return other.get() == &call; });
  if (it != pending_.end()) pending_.erase(it);
}

Decision ModelQueue::DecideAt(Clock::TimePoint now) {
  snapshot_.clear();
  for (const CallRef& call : pending_) {
    snapshot_.push_back({call->items, call->group, call->enqueued, call->Expires()});
  }
  return Decide({.pending = snapshot_, .active_runs = active_runs_}, policy_, now);
}

std::vector<CallRef> ModelQueue::Start(const RunNow& run) {
  std::vector<CallRef> started;
  started.reserve(run.members.size());
  for (size_t member : run.members) started.push_back(pending_[member]);
  for (auto it = run.members.rbegin(); it != run.members.rend(); ++it) {
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(*it));
  }
  ++active_runs_;
  return started;
}

}  // namespace tandem::server
