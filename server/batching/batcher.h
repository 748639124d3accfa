// Accepts validated requests, queues them per model, forms batches and answers each request exactly
// once. When a runner is free a request runs at once; batches form from what queued while runners
// were busy. A run that is estimated under 50 us is computed by the thread that submits it when
// nothing else waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "server/models/served_model.h"

namespace tandem::server {

struct InferRequest {
  ServedModelRef model;
  // They share ownership of their memory: a run under way reads them even after the request was
  // answered, when it was cancelled or its deadline passed.
  std::vector<NamedTensor> inputs;
  std::vector<std::string> outputs;  // to return, in order; empty: all
  // DeadlineExceeded when it passes before the run has ended.
  Clock::TimePoint deadline = Clock::TimePoint::max();
  // Longest time in the queue (the `timeout` request parameter): Unavailable beyond it.
  std::optional<std::chrono::microseconds> queue_timeout;
  // True once the client does not wait any more; empty: nobody can say. Asked from any thread, but
  // only until Submit returns: a run that Submit computes itself then ends early, as Cancelled.
  // From then on Cancel() says it.
  std::function<bool()> cancelled;
};

// Where the time of an answered request went.
struct InferTiming {
  Clock::Duration queue{0};
  Clock::Duration compute{0};
  int64_t batch_items = 0;  // items of the run it rode in
};

struct InferReply {
  std::vector<NamedTensor> outputs;
  InferTiming timing;
};

// A request that was handed over. Cancel() may be called at any time from any thread: what has not
// started is not computed, a run that nobody waits for any more ends early, and the request is
// answered with Cancelled at once unless it was answered already. The call may outlive the batcher.
class InferCall {
 public:
  virtual ~InferCall() = default;
  virtual void Cancel() = 0;
};

struct BatcherOptions {
  // Bound of one model's queue, in requests; 0: four times its max_batch_size, at least 64.
  int64_t max_queue = 0;
  // Runs under way in the process at the same time, >= 1: the engine's threads.
  int runners = 1;
};

// Thread-safe. The callback of a request is called exactly once, with no lock held, from a thread
// of the batcher, from the thread that calls Submit (errors found at once, short runs), Drain or
// Cancel; it must not block.
class Batcher {
 public:
  using Done = std::function<void(StatusOr<InferReply>)>;

  // `clock` outlives the batcher.
  Batcher(BatcherOptions options, const Clock& clock);
  // Answers with Unavailable what is not answered yet and waits for the runs under way to end.
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // InvalidArgument, with nothing queued, from the model's validation, when inputs disagree on the
  // number of items or when there are more than max_batch_size; DeadlineExceeded when the deadline
  // has passed already; Unavailable when the queue is full or the batcher drains.
  std::shared_ptr<InferCall> Submit(InferRequest request, Done done);

  // Refuses new requests and returns when all accepted ones are answered, or after `timeout`; then
  // the others are answered with Unavailable, runs under way are told to end, and false is
  // returned.
  bool Drain(std::chrono::milliseconds timeout);

  // Looks at the clock again now: for clocks that jump.
  void Wake();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tandem::server
