#include "server/batching/batcher.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "engine/base/check.h"
#include "server/batching/admission.h"
#include "server/batching/policy.h"
#include "server/batching/queue.h"
#include "server/batching/run.h"
#include "server/models/retry_hint.h"

namespace tandem::server {
namespace {

// An answer that is decided; it is given once no lock is held.
struct Answer {
  Batcher::Done done;
  StatusOr<InferReply> reply;
};
using Answers = std::vector<Answer>;

// Why a request ends without a result.
struct Failure {
  Status status;
  FailureReason reason;
};

Failure FailureOf(Status status) {
  const FailureReason reason = ReasonOf(status);
  return {std::move(status), reason};
}

// When a client should try again, here or at another server, after it was turned away.
constexpr std::chrono::milliseconds kTurnedAwayRetry{100};

Failure TurnedAway(const Status& status, FailureReason reason) {
  return {WithRetryAfter(status, kTurnedAwayRetry), reason};
}

Failure ShuttingDown() {
  return TurnedAway(Unavailable("the server is shutting down"), FailureReason::kDraining);
}

Failure OutOfDrainTime(const Call& call, std::chrono::milliseconds timeout) {
  return TurnedAway(
      Unavailable("{}: the server is shutting down and did not answer the request within "
                  "the drain timeout of {} ms",
                  Where(*call.model), timeout.count()),
      FailureReason::kDraining);
}

Failure Expired(const Call& call, Clock::TimePoint now) {
  const std::string model = Where(*call.model);
  if (call.deadline <= now) {
    const char* doing = call.state == Call::State::kRunning ? "was computed" : "waited";
    return FailureOf(
        DeadlineExceeded("{}: the deadline passed while the request {}", model, doing));
  }
  const auto limit =
      std::chrono::duration_cast<std::chrono::microseconds>(call.queue_limit - call.enqueued);
  return TurnedAway(
      Unavailable("{}: the request waited longer than its timeout of {} us", model, limit.count()),
      FailureReason::kQueueTimeout);
}

// A run that ends sooner than a hand-over to another thread is worth.
bool IsShort(const Call& call) {
  constexpr double kShortSeconds = 50e-6;
  const std::optional<double>& item_seconds = call.model->model->info().item_seconds;
  return item_seconds && *item_seconds * static_cast<double>(call.items) < kShortSeconds;
}

// now + wait, or max() beyond the end of time.
Clock::TimePoint After(Clock::TimePoint now, std::chrono::microseconds wait) {
  const auto left =
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::TimePoint::max() - now);
  return wait >= left ? Clock::TimePoint::max() : now + wait;
}

// Waits until notified or, as the clock goes now, `until`. Spurious returns are allowed.
void WaitFor(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
             Clock::TimePoint until, const Clock& clock) {
  // Far more than any wait, far less than what overflows in the library.
  constexpr Clock::Duration kLongest = std::chrono::hours(1);
  if (until == Clock::TimePoint::max()) {
    condition.wait(lock);
    return;
  }
  const Clock::TimePoint now = clock.Now();
  if (until > now) condition.wait_for(lock, std::min<Clock::Duration>(until - now, kLongest));
}

// Results by member; none when there is no memory even for the bookkeeping.
std::vector<MemberResult> RunCalls(const std::vector<CallRef>& members) try {
  std::vector<BatchItem> items;
  std::vector<RunMember> run;
  for (const CallRef& call : members) {
    items.push_back(std::move(call->item));
    run.push_back({call->items, [call] { return call->Abandoned(); }});
  }
  return RunMembers(*members.front()->model, items, run);
} catch (const std::exception& error) {
  spdlog::error("run failed model={} error={:?}", members.front()->model->name, error.what());
  return {};
}

}  // namespace

class Batcher::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(BatcherOptions options, const Clock& clock) : options_(options), clock_(clock) {
    CHECK(options_.runners >= 1, "{} runners", options_.runners);
  }

  void StartThreads();
  std::shared_ptr<InferCall> Submit(InferRequest request, Done done);
  void Cancel(const CallRef& call);
  bool Drain(std::chrono::milliseconds timeout);
  void Wake();
  void Shutdown();

 private:
  class Handle;
  struct Pick {
    std::vector<CallRef> members;  // none: nothing to run before `until`
    Clock::TimePoint until = Clock::TimePoint::max();
  };

  // Those with Locked in their name are called with mutex_ held.
  std::optional<Failure> EnqueueLocked(const CallRef& call);
  ModelQueue& QueueLocked(const ServedModelRef& model);
  void EraseIfIdleLocked(const ServedModel& model);
  Pick PickLocked(Answers& answers);
  void StartLocked(const std::vector<CallRef>& members, Clock::TimePoint now);
  bool SettleLocked(Call& call, Answers& answers, StatusOr<InferReply> reply);
  void FailLocked(Call& call, Answers& answers, Failure failure);
  // Fails whatever is not answered yet with what `why` makes of it.
  void FailAllLocked(Answers& answers, const std::function<Failure(const Call&)>& why);
  void ExpireLocked(Answers& answers);
  void FinishLocked(Call& call, MemberResult result, Clock::TimePoint now, Answers& answers);

  void Deliver(Answers answers);
  void Execute(const std::vector<CallRef>& members);
  void RunnerLoop();
  void ExpiryLoop();
  template <typename Loop>
  void Guard(const char* name, Loop loop);

  const BatcherOptions options_;
  const Clock& clock_;

  std::mutex mutex_;
  std::condition_variable work_;     // for runners: something may run, or stop
  std::condition_variable expiry_;   // for the expiry thread: an earlier time, or stop
  std::condition_variable drained_;  // unanswered_ fell to 0
  bool draining_ = false;
  bool stopping_ = false;
  uint64_t next_sequence_ = 0;
  int64_t unanswered_ = 0;  // accepted, and the callback has not returned yet
  std::unordered_map<const ServedModel*, ModelQueue> queues_;  // none is idle
  std::unordered_set<CallRef> running_;
  int active_runs_ = 0;  // of runners, and of callers whose short run was started at once
  ExpiryMap expiries_;
  std::vector<std::thread> threads_;
};

class Batcher::Impl::Handle final : public InferCall {
 public:
  Handle(std::weak_ptr<Impl> batcher, std::weak_ptr<Call> call)
      : batcher_(std::move(batcher)), call_(std::move(call)) {}

  void Cancel() override {
    const std::shared_ptr<Impl> batcher = batcher_.lock();
    const CallRef call = call_.lock();
    if (batcher != nullptr && call != nullptr) batcher->Cancel(call);
  }

 private:
  const std::weak_ptr<Impl> batcher_;
  const std::weak_ptr<Call> call_;
};

void Batcher::Impl::StartThreads() {
  threads_.emplace_back([this] { Guard("expiry", [this] { ExpiryLoop(); }); });
  for (int i = 0; i < options_.runners; ++i) {
    threads_.emplace_back([this] { Guard("runner", [this] { RunnerLoop(); }); });
  }
}

// A loop returns when the batcher stops; whatever it throws before that is logged and it goes on.
template <typename Loop>
void Batcher::Impl::Guard(const char* name, Loop loop) {
  for (;;) {
    try {
      loop();
      return;
    } catch (const std::exception& error) {
      spdlog::error("batcher thread caught an exception thread={} error={:?}", name, error.what());
    } catch (...) {
      spdlog::error("batcher thread caught an exception thread={} error=\"unknown\"", name);
    }
  }
}

std::shared_ptr<InferCall> Batcher::Impl::Submit(InferRequest request, Done done) {
  ModelMetrics& metrics = *request.model->metrics;
  StatusOr<Admission> admission = Admit(request);
  if (!admission.ok()) {
    metrics.Refused(ReasonOf(admission.status()));
    done(admission.status());
    return std::make_shared<Handle>(std::weak_ptr<Impl>(), std::weak_ptr<Call>());
  }
  auto call = std::make_shared<Call>();
  call->model = std::move(request.model);
  call->item = {std::move(request.inputs), std::move(request.outputs)};
  call->items = admission->items;
  call->group = std::move(admission->group);
  call->deadline = request.deadline;
  call->enqueued = clock_.Now();
  if (request.queue_timeout) call->queue_limit = After(call->enqueued, *request.queue_timeout);
  call->done = std::move(done);

  std::unique_lock lock(mutex_);
  if (std::optional<Failure> refused = EnqueueLocked(call)) {
    lock.unlock();
    metrics.Refused(refused->reason);
    call->done(std::move(refused->status));
    return std::make_shared<Handle>(std::weak_ptr<Impl>(), std::weak_ptr<Call>());
  }
  const bool alone = queues_.size() == 1 && queues_.begin()->second.pending().size() == 1;
  Answers answers;
  Pick pick;
  if (alone && IsShort(*call)) pick = PickLocked(answers);
  lock.unlock();
  if (pick.members.empty()) work_.notify_one();
  Deliver(std::move(answers));
  if (!pick.members.empty()) {
    call->cancelled = std::move(request.cancelled);
    Execute(pick.members);
  }
  return std::make_shared<Handle>(weak_from_this(), call);
}

std::optional<Failure> Batcher::Impl::EnqueueLocked(const CallRef& call) {
  if (draining_) return ShuttingDown();
  if (call->Expires() <= call->enqueued) return Expired(*call, call->enqueued);
  ModelQueue& queue = QueueLocked(call->model);
  if (queue.full()) {
    return TurnedAway(Unavailable("{}: the queue is full, {} requests wait and more may not",
                                  Where(*call->model), queue.bound()),
                      FailureReason::kQueueFull);
  }
  call->sequence = next_sequence_++;
  queue.Push(call);
  call->expiry = expiries_.emplace(call->Expires(), call.get());
  if (call->expiry == expiries_.begin()) expiry_.notify_one();
  ++unanswered_;
  call->model->metrics->received.Add();
  call->model->metrics->queued.Add(1);
  return std::nullopt;
}

ModelQueue& Batcher::Impl::QueueLocked(const ServedModelRef& model) {
  const auto found = queues_.find(model.get());
  if (found != queues_.end()) return found->second;
  constexpr int64_t kLeastBound = 64;
  const int64_t bound = options_.max_queue > 0 ? options_.max_queue
                                               : std::max(kLeastBound, 4 * model->max_batch_size);
  const int max_runs = model->max_runs > 0 ? model->max_runs : options_.runners;
  return queues_.try_emplace(model.get(), model, bound, max_runs).first->second;
}

void Batcher::Impl::EraseIfIdleLocked(const ServedModel& model) {
  const auto found = queues_.find(&model);
  if (found != queues_.end() && found->second.idle()) queues_.erase(found);
}

// The oldest run that may start now, over all models, when fewer than the runners are busy. Fills
// `answers` with what has expired.
Batcher::Impl::Pick Batcher::Impl::PickLocked(Answers& answers) {
  ExpireLocked(answers);
  const Clock::TimePoint now = clock_.Now();
  Pick pick;
  if (active_runs_ == options_.runners) return pick;
  ModelQueue* oldest = nullptr;
  RunNow run;
  for (auto& [model, queue] : queues_) {
    const bool younger = oldest != nullptr && !queue.pending().empty() &&
                         queue.pending().front()->sequence > oldest->pending().front()->sequence;
    if (younger) continue;
    Decision decision = queue.DecideAt(now);
    if (auto* wait = std::get_if<WaitUntil>(&decision)) {
      pick.until = std::min(pick.until, wait->until);
    } else if (auto* run_now = std::get_if<RunNow>(&decision)) {
      oldest = &queue;
      run = std::move(*run_now);
    } else {
      pick.until = now;  // something expired just now: look again
    }
  }
  if (oldest != nullptr) {
    pick.members = oldest->Start(run);
    ++active_runs_;
    StartLocked(pick.members, now);
  }
  return pick;
}

void Batcher::Impl::StartLocked(const std::vector<CallRef>& members, Clock::TimePoint now) {
  for (const CallRef& call : members) {
    call->state = Call::State::kRunning;
    call->started = now;
    expiries_.erase(call->expiry);
    call->expiry = expiries_.emplace(call->Expires(), call.get());
    call->model->metrics->queued.Add(-1);
    call->model->metrics->running.Add(1);
    running_.insert(call);
  }
}

// False when the request was answered before.
bool Batcher::Impl::SettleLocked(Call& call, Answers& answers, StatusOr<InferReply> reply) {
  if (call.state == Call::State::kAnswered) return false;
  ModelMetrics& metrics = *call.model->metrics;
  (call.state == Call::State::kQueued ? metrics.queued : metrics.running).Add(-1);
  call.state = Call::State::kAnswered;
  call.answered.store(true, std::memory_order_release);
  expiries_.erase(call.expiry);
  answers.push_back({std::move(call.done), std::move(reply)});
  return true;
}

void Batcher::Impl::FailLocked(Call& call, Answers& answers, Failure failure) {
  const bool queued = call.state == Call::State::kQueued;
  if (!SettleLocked(call, answers, std::move(failure.status))) return;
  call.model->metrics->Failed(failure.reason);
  if (!queued) return;
  // Last, since it may end the life of the call.
  const ServedModelRef model = call.model;
  queues_.at(model.get()).Remove(call);
  EraseIfIdleLocked(*model);
}

void Batcher::Impl::FailAllLocked(Answers& answers,
                                  const std::function<Failure(const Call&)>& why) {
  const auto next_waiting = [this] {
    return std::find_if(queues_.begin(), queues_.end(),
                        [](const auto& entry) { return !entry.second.pending().empty(); });
  };
  for (auto queue = next_waiting(); queue != queues_.end(); queue = next_waiting()) {
    Call& call = *queue->second.pending().front();
    FailLocked(call, answers, why(call));
  }
  for (const CallRef& call : running_) FailLocked(*call, answers, why(*call));
}

void Batcher::Impl::ExpireLocked(Answers& answers) {
  const Clock::TimePoint now = clock_.Now();
  while (!expiries_.empty() && expiries_.begin()->first <= now) {
    Call& call = *expiries_.begin()->second;
    FailLocked(call, answers, Expired(call, now));
  }
}

void Batcher::Impl::FinishLocked(Call& call, MemberResult result, Clock::TimePoint now,
                                 Answers& answers) {
  if (call.state == Call::State::kAnswered) return;
  if (call.deadline <= now) return FailLocked(call, answers, Expired(call, now));
  if (!result.result.ok()) return FailLocked(call, answers, FailureOf(result.result.status()));
  InferReply reply{.outputs = std::move(result.result->outputs),
                   .timing = {.queue = call.started - call.enqueued,
                              .compute = now - call.started,
                              .batch_items = result.run_items}};
  ModelMetrics& metrics = *call.model->metrics;
  metrics.request_duration.Observe((now - call.enqueued).count());
  metrics.queue_duration.Observe(reply.timing.queue.count());
  metrics.compute_duration.Observe(reply.timing.compute.count());
  metrics.inferences.Add(static_cast<uint64_t>(call.items));
  metrics.succeeded.Add();
  SettleLocked(call, answers, std::move(reply));
}

void Batcher::Impl::Deliver(Answers answers) {
  if (answers.empty()) return;
  for (Answer& answer : answers) {
    try {
      answer.done(std::move(answer.reply));
    } catch (const std::exception& error) {
      spdlog::error("callback of a request threw error={:?}", error.what());
    } catch (...) {
      spdlog::error("callback of a request threw error=\"unknown\"");
    }
  }
  const std::scoped_lock lock(mutex_);
  unanswered_ -= static_cast<int64_t>(answers.size());
  if (unanswered_ == 0) drained_.notify_all();
}

void Batcher::Impl::Execute(const std::vector<CallRef>& members) {
  const ServedModelRef model = members.front()->model;
  std::vector<MemberResult> results = RunCalls(members);
  Answers answers;
  {
    const std::scoped_lock lock(mutex_);
    const Clock::TimePoint now = clock_.Now();
    for (size_t i = 0; i < members.size(); ++i) {
      if (results.empty()) {
        FailLocked(*members[i], answers, FailureOf(Internal("the run could not be prepared")));
      } else {
        FinishLocked(*members[i], std::move(results[i]), now, answers);
      }
      running_.erase(members[i]);
    }
    queues_.at(model.get()).FinishRun();
    EraseIfIdleLocked(*model);
    --active_runs_;
    if (!queues_.empty()) work_.notify_one();
  }
  Deliver(std::move(answers));
}

void Batcher::Impl::RunnerLoop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Answers answers;
    Pick pick = PickLocked(answers);
    if (!answers.empty() || !pick.members.empty()) {
      const bool more = !queues_.empty();
      lock.unlock();
      if (more) work_.notify_one();
      Deliver(std::move(answers));
      if (!pick.members.empty()) Execute(pick.members);
      lock.lock();
      continue;
    }
    if (stopping_) return;
    WaitFor(work_, lock, pick.until, clock_);
  }
}

void Batcher::Impl::ExpiryLoop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    Answers answers;
    ExpireLocked(answers);
    if (!answers.empty()) {
      lock.unlock();
      Deliver(std::move(answers));
      lock.lock();
      continue;
    }
    const auto next = expiries_.empty() ? Clock::TimePoint::max() : expiries_.begin()->first;
    WaitFor(expiry_, lock, next, clock_);
  }
}

void Batcher::Impl::Cancel(const CallRef& call) {
  Answers answers;
  {
    const std::scoped_lock lock(mutex_);
    FailLocked(*call, answers,
               FailureOf(Cancelled("{}: the request was cancelled", Where(*call->model))));
  }
  Deliver(std::move(answers));
}

bool Batcher::Impl::Drain(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  const Clock::TimePoint until = After(clock_.Now(), timeout);
  while (unanswered_ > 0 && clock_.Now() < until) WaitFor(drained_, lock, until, clock_);
  if (unanswered_ == 0) return true;
  Answers answers;
  FailAllLocked(answers, [&](const Call& call) { return OutOfDrainTime(call, timeout); });
  lock.unlock();
  Deliver(std::move(answers));
  return false;
}

void Batcher::Impl::Wake() {
  // With the mutex, so that no thread is between looking at the clock and waiting.
  const std::scoped_lock lock(mutex_);
  work_.notify_all();
  expiry_.notify_all();
  drained_.notify_all();
}

void Batcher::Impl::Shutdown() {
  Answers answers;
  {
    const std::scoped_lock lock(mutex_);
    draining_ = true;
    stopping_ = true;
    FailAllLocked(answers, [](const Call&) { return ShuttingDown(); });
    work_.notify_all();
    expiry_.notify_all();
  }
  Deliver(std::move(answers));
  for (std::thread& thread : threads_) thread.join();
}

Batcher::Batcher(BatcherOptions options, const Clock& clock)
    : impl_(std::make_shared<Impl>(options, clock)) {
  impl_->StartThreads();
}

Batcher::~Batcher() { impl_->Shutdown(); }

std::shared_ptr<InferCall> Batcher::Submit(InferRequest request, Done done) {
  return impl_->Submit(std::move(request), std::move(done));
}

bool Batcher::Drain(std::chrono::milliseconds timeout) { return impl_->Drain(timeout); }

void Batcher::Wake() { impl_->Wake(); }

}  // namespace tandem::server
