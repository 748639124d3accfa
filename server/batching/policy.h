// Who runs next: the batcher's decision for one model, as a pure function.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/clock.h"

namespace tandem::server {

// What the decision needs to know of a request that waits.
struct PendingRequest {
  int64_t items = 1;       // along the batch axis
  std::string_view group;  // requests of equal groups may share a run
  Clock::TimePoint enqueued;
  Clock::TimePoint expires = Clock::TimePoint::max();
};

// What waits for one model, oldest first, and how many of its runs are under way.
struct QueueSnapshot {
  std::span<const PendingRequest> pending;
  int active_runs = 0;
};

struct BatchPolicy {
  int64_t max_batch_size = 0;  // items of one run; 0: each request is a run of its own
  int max_runs = 1;            // of the model at the same time
  std::chrono::microseconds max_queue_delay{0};
};

// Run these together now: indices into the snapshot, rising; the oldest is among them.
struct RunNow {
  std::vector<size_t> members;
};
// Nothing to do before `until`, which is max() when only a new request or a finished run can change
// that.
struct WaitUntil {
  Clock::TimePoint until;
};
// Their time has passed: answer these without running them, then decide again.
struct Shed {
  std::vector<size_t> expired;
};
using Decision = std::variant<RunNow, WaitUntil, Shed>;

// The decision for a model when a runner is free. The oldest request runs at once with every
// younger one of its group that fits; only a max_queue_delay makes it wait, until the batch is full
// or the delay is over.
Decision Decide(const QueueSnapshot& queue, const BatchPolicy& policy, Clock::TimePoint now);

}  // namespace tandem::server
