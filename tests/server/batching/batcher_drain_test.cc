// The end of the batcher.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "server/batching/batcher.h"
#include "tests/server/batching/batcher_fixture.h"

namespace tandem::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::BatcherTest;
using test::RequestOf;

TEST_F(BatcherTest, DrainingRefusesTheNewAndWaitsForTheAccepted) {
  Batcher batcher({.runners = 1}, clock_);
  OccupyRunner(batcher);
  Submit(batcher, 0, {1, 3}, 1);
  bool drained = false;
  std::thread draining([&] { drained = batcher.Drain(std::chrono::hours(1)); });
  // Draining has begun once an expired request, which never queues, is refused for that reason.
  for (int id = 1;; ++id) {
    InferRequest expired = RequestOf(model_, {1, 3}, 1);
    expired.deadline = clock_.Now();
    batcher.Submit(std::move(expired), ledger_.Enter(id));
    if (ledger_.Wait(id).status().code() == absl::StatusCode::kUnavailable) {
      ExpectError(id, absl::StatusCode::kUnavailable, "shutting down");
      break;
    }
    ExpectError(id, absl::StatusCode::kDeadlineExceeded, "");
    std::this_thread::yield();
  }
  EXPECT_EQ(test::Failures(model_, FailureReason::kDraining), 1u);
  model_.model->gate.Open();
  draining.join();
  EXPECT_TRUE(drained);
  ExpectTwice(0, {1, 3}, 1);
  test::ExpectSettled(model_.metrics());
}

TEST_F(BatcherTest, DrainingGivesUpAfterItsTimeAndAnswersWhatIsLeft) {
  Batcher batcher({.runners = 1}, clock_);
  model_.model->gate.Close();
  Submit(batcher, 0, {1, 3}, test::kEndless);
  model_.model->gate.WaitForArrivals(1);
  Submit(batcher, 1, {1, 3}, 1);
  std::atomic<bool> ended{false};
  std::thread draining([&] {
    EXPECT_FALSE(batcher.Drain(seconds(30)));
    ended = true;
  });
  while (!ended) {
    clock_.Advance(seconds(10));
    batcher.Wake();
    std::this_thread::yield();
  }
  draining.join();
  model_.model->gate.Open();
  for (const int id : {0, 1}) {
    ASSERT_TRUE(ledger_.Has(id));
    ExpectError(
        id, absl::StatusCode::kUnavailable,
        "model 'fake' version 1: the server is shutting down and did not answer the request within "
        "the drain timeout of 30000 ms");
    EXPECT_EQ(RetryOf(id), milliseconds(100));
  }
  EXPECT_EQ(test::Failures(model_, FailureReason::kDraining), 2u);
  test::ExpectSettled(model_.metrics());
  EXPECT_TRUE(batcher.Drain(milliseconds(0)));
  while (model_.model->stopped_runs() == 0) std::this_thread::yield();
}

TEST_F(BatcherTest, ItsEndAnswersEverything) {
  auto batcher = std::make_unique<Batcher>(BatcherOptions{.runners = 2}, clock_);
  for (int id = 0; id < 2; ++id) Submit(*batcher, id, {8, 3}, test::kEndless);
  model_.model->gate.WaitForArrivals(2);
  for (int id = 2; id < 5; ++id) Submit(*batcher, id, {1, 3}, 1);
  batcher.reset();
  for (int id = 0; id < 5; ++id) {
    ASSERT_TRUE(ledger_.Has(id));
    ExpectError(id, absl::StatusCode::kUnavailable, "shutting down");
  }
  EXPECT_EQ(model_.model->stopped_runs(), 2);
  test::ExpectSettled(model_.metrics());
}

}  // namespace
}  // namespace tandem::server
