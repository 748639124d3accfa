// A clock that the test sets, and a ledger of answers.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/base/clock.h"
#include "server/batching/batcher.h"
#include "tests/server/fake_model.h"

namespace tandem::server::test {

class FakeClock final : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(Duration(now_.load())); }
  void Advance(Duration by) { now_ += by.count(); }

 private:
  std::atomic<int64_t> now_{std::chrono::nanoseconds(std::chrono::hours(1)).count()};
};

// Collects answers by the caller's numbers; a second answer to the same number fails the test.
class Ledger {
 public:
  // A callback that enters the answer under `id`.
  Batcher::Done Enter(int id) {
    return [this, id](StatusOr<InferReply> reply) {
      const std::scoped_lock lock(mutex_);
      EXPECT_TRUE(answers_.emplace(id, std::move(reply)).second) << "second answer to " << id;
      changed_.notify_all();
    };
  }
  // The answer to `id`, waiting for it.
  StatusOr<InferReply> Wait(int id) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return answers_.contains(id); });
    return answers_.at(id);
  }
  void WaitForCount(size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return answers_.size() >= n; });
  }
  bool Has(int id) const {
    const std::scoped_lock lock(mutex_);
    return answers_.contains(id);
  }
  std::map<int, StatusOr<InferReply>> answers() const {
    const std::scoped_lock lock(mutex_);
    return answers_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, StatusOr<InferReply>> answers_;
};

inline Tensor Filled(Shape shape, float value) {
  const std::vector<float> values(static_cast<size_t>(shape.elements()), value);
  return Tensor::Of<float>(std::move(shape), std::span<const float>(values));
}

inline InferRequest RequestOf(const FakeServed& model, Shape shape, float value) {
  InferRequest request;
  request.model = model.served;
  request.inputs.push_back({"x", Filled(std::move(shape), value)});
  return request;
}

// received = succeeded + failed, nothing queued or running.
inline void ExpectSettled(const ModelMetrics& metrics) {
  uint64_t failed = 0;
  for (const Counter& counter : metrics.failed) failed += counter.value();
  EXPECT_EQ(metrics.received.value(), metrics.succeeded.value() + failed);
  EXPECT_EQ(metrics.queued.value(), 0);
  EXPECT_EQ(metrics.running.value(), 0);
}

inline uint64_t Failures(const FakeServed& model, FailureReason reason) {
  return model.metrics().failed[static_cast<size_t>(reason)].value();
}

}  // namespace tandem::server::test
