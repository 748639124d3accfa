// Runs that are estimated shorter than a hand-over to another thread.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "server/batching/batcher.h"
#include "tests/server/batching/fixtures.h"

namespace tandem::server {
namespace {

using test::FakeClock;
using test::FakeServed;
using test::Ledger;
using test::RequestOf;

// Who answered a request of `items` items of a model with this estimate.
std::thread::id Answerer(std::optional<double> item_seconds, int64_t items) {
  const FakeClock clock;
  const FakeServed model(64, {.item_seconds = item_seconds});
  std::thread::id answerer;
  Batcher batcher({.runners = 1}, clock);
  batcher.Submit(RequestOf(model, {items, 3}, 1), [&](const StatusOr<InferReply>& reply) {
    EXPECT_TRUE(reply.ok()) << reply.status();
    answerer = std::this_thread::get_id();
  });
  EXPECT_TRUE(batcher.Drain(std::chrono::hours(1)));
  test::ExpectSettled(model.metrics());
  return answerer;
}

TEST(ShortRunTest, IsComputedByTheThreadThatSubmitsIt) {
  EXPECT_EQ(Answerer(1e-6, 1), std::this_thread::get_id());
  EXPECT_EQ(Answerer(1e-6, 49), std::this_thread::get_id());
}

TEST(ShortRunTest, ALongOrUnknownRunIsComputedByARunner) {
  EXPECT_NE(Answerer(51e-6, 1), std::this_thread::get_id());
  EXPECT_NE(Answerer(1e-6, 51), std::this_thread::get_id());
  EXPECT_NE(Answerer(std::nullopt, 1), std::this_thread::get_id());
}

// Repeated, since the fault needs a runner that is quicker than the thread that opens the gate.
TEST(ShortRunTest, CountsAsARunner) {
  const FakeClock clock;
  for (int repeat = 0; repeat < 100; ++repeat) {
    const FakeServed short_model(0, {.item_seconds = 1e-6}, "short");
    const FakeServed other(0, {}, "other");
    Ledger ledger;
    Batcher batcher({.runners = 1}, clock);
    short_model.model->gate.Close();
    std::thread first([&] { batcher.Submit(RequestOf(short_model, {3}, 1), ledger.Enter(0)); });
    short_model.model->gate.WaitForArrivals(1);
    batcher.Submit(RequestOf(other, {3}, 1), [&](const StatusOr<InferReply>& reply) {
      EXPECT_TRUE(reply.ok()) << reply.status();
      EXPECT_EQ(short_model.model->active(), 0) << "ran beside the only runner";
    });
    std::this_thread::yield();
    short_model.model->gate.Open();
    first.join();
    EXPECT_TRUE(batcher.Drain(std::chrono::hours(1)));
    test::ExpectSettled(short_model.metrics());
    test::ExpectSettled(other.metrics());
  }
}

// Whoever calls Submit has no InferCall to cancel while the run is inside it.
TEST(ShortRunTest, EndsWhenTheRequestSaysThatItIsCancelled) {
  const FakeClock clock;
  const FakeServed model(8, {.item_seconds = 1e-6});
  Ledger ledger;
  Batcher batcher({.runners = 1}, clock);
  InferRequest request = RequestOf(model, {1, 3}, test::kEndless);
  std::atomic<bool> submitting{true};
  std::atomic<int> asked{0};
  request.cancelled = [&] {
    EXPECT_TRUE(submitting);
    return ++asked > 1000;
  };
  batcher.Submit(std::move(request), ledger.Enter(0));
  submitting = false;
  const StatusOr<InferReply> reply = ledger.Wait(0);
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kCancelled) << reply.status();
  EXPECT_EQ(model.model->stopped_runs(), 1);
  EXPECT_EQ(test::Failures(model, FailureReason::kCancelled), 1u);
  test::ExpectSettled(model.metrics());
}

// The request may be gone when a runner computes it.
TEST(ShortRunTest, ARunnerDoesNotAskTheRequest) {
  const FakeClock clock;
  const FakeServed model(8);
  Ledger ledger;
  Batcher batcher({.runners = 1}, clock);
  InferRequest request = RequestOf(model, {1, 3}, 1);
  request.cancelled = [] {
    ADD_FAILURE() << "asked by a runner";
    return true;
  };
  batcher.Submit(std::move(request), ledger.Enter(0));
  EXPECT_TRUE(ledger.Wait(0).ok());
}

TEST(ShortRunTest, WaitsWhereTheModelsConfigAsksForADelay) {
  FakeClock clock;
  const FakeServed model(8, {.item_seconds = 1e-6});
  model.served->max_queue_delay = std::chrono::milliseconds(5);
  Ledger ledger;
  Batcher batcher({.runners = 1}, clock);
  batcher.Submit(RequestOf(model, {1, 3}, 1), ledger.Enter(0));
  EXPECT_FALSE(ledger.Has(0));
  clock.Advance(std::chrono::milliseconds(5));
  batcher.Wake();
  EXPECT_TRUE(ledger.Wait(0).ok());
}

}  // namespace
}  // namespace tandem::server
