// The requests of one model that wait, and the record of a request. Everything here that changes is
// guarded by the batcher's mutex, but for what is atomic.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/batching/batcher.h"
#include "server/batching/policy.h"

namespace tandem::server {

struct Call;

// Requests by the time at which they expire.
using ExpiryMap = std::multimap<Clock::TimePoint, Call*>;

// A request from acceptance to answer.
struct Call {
  enum class State { kQueued, kRunning, kAnswered };

  ServedModelRef model;
  BatchItem item;  // moved into the run when it starts
  int64_t items = 1;
  std::string group;
  uint64_t sequence = 0;  // rises with acceptance
  Clock::TimePoint enqueued;
  Clock::TimePoint deadline;
  Clock::TimePoint queue_limit = Clock::TimePoint::max();

  State state = State::kQueued;
  Clock::TimePoint started;
  Batcher::Done done;
  ExpiryMap::iterator expiry;
  std::atomic<bool> answered{false};  // state == kAnswered, for runs to ask without the mutex
  std::function<bool()> cancelled;    // the request's, for a run that Submit computes; else empty

  // When it stops waiting if nothing happens before.
  Clock::TimePoint Expires() const {
    return state == State::kQueued ? std::min(deadline, queue_limit) : deadline;
  }
  // Nobody waits for the answer any more. Without the mutex.
  bool Abandoned() const {
    return answered.load(std::memory_order_acquire) || (cancelled && cancelled());
  }
};

using CallRef = std::shared_ptr<Call>;

class ModelQueue {
 public:
  ModelQueue(ServedModelRef model, int64_t bound, int max_runs);

  const ServedModel& model() const { return *model_; }
  int64_t bound() const { return bound_; }
  bool full() const { return static_cast<int64_t>(pending_.size()) >= bound_; }
  // Nothing waits and nothing runs.
  bool idle() const { return pending_.empty() && active_runs_ == 0; }
  const std::deque<CallRef>& pending() const { return pending_; }

  void Push(CallRef call) { pending_.push_back(std::move(call)); }
  void Remove(const Call& call);
  Decision DecideAt(Clock::TimePoint now);
  // Takes what RunNow named out of the queue and counts the run; FinishRun uncounts it.
  std::vector<CallRef> Start(const RunNow& run);
  void FinishRun() { --active_runs_; }

 private:
  const ServedModelRef model_;
  const int64_t bound_;
  const BatchPolicy policy_;
  int active_runs_ = 0;
  std::deque<CallRef> pending_;
  std::vector<PendingRequest> snapshot_;  // of DecideAt, kept for its capacity
};

}  // namespace tandem::server
