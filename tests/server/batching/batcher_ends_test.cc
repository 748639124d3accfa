// Requests that end before their run does: cancelled, or out of time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/batching/batcher.h"
#include "tests/server/batching/batcher_fixture.h"

namespace tandem::server {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::BatcherTest;
using test::RequestOf;

TEST_F(BatcherTest, ACancelledRequestGivesItsPlaceInTheQueueBackOnce) {
  Batcher batcher({.max_queue = 1, .runners = 1}, clock_);
  OccupyRunner(batcher);
  auto call = batcher.Submit(RequestOf(model_, {1, 3}, 1), ledger_.Enter(0));
  call->Cancel();
  call->Cancel();
  ASSERT_TRUE(ledger_.Has(0));
  ExpectError(0, absl::StatusCode::kCancelled, "was cancelled");
  Submit(batcher, 1, {1, 3}, 1);
  Submit(batcher, 2, {1, 3}, 1);
  EXPECT_FALSE(ledger_.Has(1));
  ExpectError(2, absl::StatusCode::kUnavailable, "full");
  model_.model->gate.Open();
  ExpectTwice(1, {1, 3}, 1);
  EXPECT_EQ(model_.model->runs().size(), 2u);
}

TEST_F(BatcherTest, ADeadlineThatHasPassedIsAnsweredAtOnce) {
  Batcher batcher({.runners = 1}, clock_);
  InferRequest request = RequestOf(model_, {1, 3}, 1);
  request.deadline = clock_.Now();
  batcher.Submit(std::move(request), ledger_.Enter(0));
  ASSERT_TRUE(ledger_.Has(0));
  ExpectError(0, absl::StatusCode::kDeadlineExceeded, "the deadline passed");
  EXPECT_TRUE(model_.model->runs().empty());
  test::ExpectSettled(model_.metrics());
}

TEST_F(BatcherTest, ADeadlineThatPassesInTheQueueIsAnsweredWhileTheRunnerIsBusy) {
  Batcher batcher({.runners = 1}, clock_);
  OccupyRunner(batcher);
  InferRequest request = RequestOf(model_, {1, 3}, 1);
  request.deadline = clock_.Now() + milliseconds(10);
  batcher.Submit(std::move(request), ledger_.Enter(0));
  EXPECT_FALSE(ledger_.Has(0));
  clock_.Advance(milliseconds(10));
  batcher.Wake();
  ExpectError(0, absl::StatusCode::kDeadlineExceeded, "passed while the request waited");
  EXPECT_FALSE(ledger_.Has(1000));
  model_.model->gate.Open();
  ExpectTwice(1000, {1, 3}, 1);
  EXPECT_TRUE(batcher.Drain(std::chrono::hours(1)));
  EXPECT_EQ(model_.model->runs().size(), 1u);
  EXPECT_EQ(test::Failures(model_, FailureReason::kDeadlineExceeded), 1u);
}

TEST_F(BatcherTest, WithTheRealClockADeadlineIsAnsweredWhileTheRunnerIsBusy) {
  const SteadyClock clock;
  Batcher batcher({.runners = 1}, clock);
  OccupyRunner(batcher);
  InferRequest late = RequestOf(model_, {1, 3}, 1);
  late.deadline = clock.Now() + std::chrono::hours(1);
  batcher.Submit(std::move(late), ledger_.Enter(0));
  InferRequest request = RequestOf(model_, {1, 3}, 1);
  request.deadline = clock.Now() + milliseconds(5);
  const Clock::TimePoint deadline = request.deadline;
  batcher.Submit(std::move(request), ledger_.Enter(1));
  ExpectError(1, absl::StatusCode::kDeadlineExceeded, "waited");
  EXPECT_GE(clock.Now(), deadline);
  RecordProperty("late_by_us",
                 std::to_string((clock.Now() - deadline) / std::chrono::microseconds(1)));
  EXPECT_FALSE(ledger_.Has(0));
  model_.model->gate.Open();
  ExpectTwice(0, {1, 3}, 1);
}

TEST_F(BatcherTest, ADeadlineThatPassesDuringTheRunIsAnsweredAtOnceAndEndsTheRun) {
  Batcher batcher({.runners = 1}, clock_);
  model_.model->gate.Close();
  InferRequest request = RequestOf(model_, {1, 3}, test::kEndless);
  request.deadline = clock_.Now() + milliseconds(10);
  batcher.Submit(std::move(request), ledger_.Enter(0));
  model_.model->gate.WaitForArrivals(1);
  clock_.Advance(milliseconds(10));
  batcher.Wake();
  ExpectError(0, absl::StatusCode::kDeadlineExceeded, "passed while the request was computed");
  model_.model->gate.Open();
  Submit(batcher, 1, {1, 3}, 1);
  ExpectTwice(1, {1, 3}, 1);
  EXPECT_EQ(model_.model->stopped_runs(), 1);
  EXPECT_TRUE(batcher.Drain(std::chrono::hours(1)));
  test::ExpectSettled(model_.metrics());
}

TEST_F(BatcherTest, AResultThatComesAfterTheDeadlineIsNoResult) {
  Batcher batcher({.runners = 1}, clock_);
  model_.model->gate.Close();
  InferRequest request = RequestOf(model_, {1, 3}, 1);
  request.deadline = clock_.Now() + std::chrono::hours(2);
  batcher.Submit(std::move(request), ledger_.Enter(0));
  model_.model->gate.WaitForArrivals(1);
  clock_.Advance(std::chrono::hours(2));
  model_.model->gate.Open();
  ExpectError(0, absl::StatusCode::kDeadlineExceeded, "the deadline passed");
}

TEST_F(BatcherTest, ATimeoutCountsInTheQueueOnly) {
  Batcher batcher({.runners = 1}, clock_);
  model_.model->gate.Close();
  InferRequest running = RequestOf(model_, {1, 3}, 1);
  running.queue_timeout = microseconds(500);
  batcher.Submit(std::move(running), ledger_.Enter(0));
  model_.model->gate.WaitForArrivals(1);
  InferRequest waiting = RequestOf(model_, {1, 3}, 1);
  waiting.queue_timeout = microseconds(1000);
  batcher.Submit(std::move(waiting), ledger_.Enter(1));
  InferRequest forever = RequestOf(model_, {1, 3}, 1);
  forever.queue_timeout = microseconds::max();
  batcher.Submit(std::move(forever), ledger_.Enter(2));
  clock_.Advance(milliseconds(1));
  batcher.Wake();
  ExpectError(1, absl::StatusCode::kUnavailable, "longer than its timeout of 1000 us");
  EXPECT_EQ(RetryOf(1), milliseconds(100));
  EXPECT_EQ(test::Failures(model_, FailureReason::kQueueTimeout), 1u);
  EXPECT_FALSE(ledger_.Has(0));
  model_.model->gate.Open();
  ExpectTwice(0, {1, 3}, 1);
  ExpectTwice(2, {1, 3}, 1);
}

TEST_F(BatcherTest, ACancelledRequestIsAnsweredDuringItsRunAndTheRunEnds) {
  Batcher batcher({.runners = 1}, clock_);
  model_.model->gate.Close();
  auto call = batcher.Submit(RequestOf(model_, {1, 3}, test::kEndless), ledger_.Enter(0));
  model_.model->gate.WaitForArrivals(1);
  call->Cancel();
  ASSERT_TRUE(ledger_.Has(0));
  ExpectError(0, absl::StatusCode::kCancelled, "was cancelled");
  model_.model->gate.Open();
  Submit(batcher, 1, {1, 3}, 1);
  ExpectTwice(1, {1, 3}, 1);
  EXPECT_EQ(model_.model->stopped_runs(), 1);
}

TEST_F(BatcherTest, CancellingOneOfABatchLeavesTheOthersAlone) {
  Batcher batcher({.runners = 1}, clock_);
  OccupyRunner(batcher);
  auto call = batcher.Submit(RequestOf(model_, {1, 3}, 1), ledger_.Enter(0));
  Submit(batcher, 1, {1, 3}, 7);
  model_.model->gate.LetOnePass();
  // Both ride in the second run, which stands at the closed gate.
  model_.model->gate.WaitForArrivals(2);
  EXPECT_EQ(model_.model->runs()[1].size(), 2u);
  call->Cancel();
  ExpectError(0, absl::StatusCode::kCancelled, "was cancelled");
  model_.model->gate.Open();
  ExpectTwice(1, {1, 3}, 7);
  ledger_.WaitForCount(3);
  EXPECT_TRUE(batcher.Drain(std::chrono::hours(1)));
  test::ExpectSettled(model_.metrics());
}

TEST_F(BatcherTest, ABatchEndsEarlyWhenNobodyWaitsForItAnyMore) {
  Batcher batcher({.runners = 1}, clock_);
  OccupyRunner(batcher);
  std::vector<std::shared_ptr<InferCall>> calls;
  for (int id = 0; id < 3; ++id) {
    calls.push_back(batcher.Submit(RequestOf(model_, {1, 3}, test::kEndless), ledger_.Enter(id)));
  }
  model_.model->gate.Open();
  model_.model->gate.WaitForArrivals(2);
  for (const auto& call : calls) call->Cancel();
  Submit(batcher, 3, {1, 3}, 1);
  ExpectTwice(3, {1, 3}, 1);
  EXPECT_EQ(model_.model->stopped_runs(), 1);
  EXPECT_EQ(model_.model->runs().size(), 3u);
}

TEST_F(BatcherTest, CancellingAfterTheAnswerChangesNothing) {
  std::shared_ptr<InferCall> call;
  std::shared_ptr<InferCall> refused;
  {
    Batcher batcher({.runners = 1}, clock_);
    call = batcher.Submit(RequestOf(model_, {1, 3}, 1), ledger_.Enter(0));
    refused = batcher.Submit(RequestOf(model_, {9, 3}, 1), ledger_.Enter(1));
    ExpectTwice(0, {1, 3}, 1);
    call->Cancel();
    refused->Cancel();
  }
  call->Cancel();
  refused->Cancel();
  test::ExpectSettled(model_.metrics());
}

}  // namespace
}  // namespace tandem::server
