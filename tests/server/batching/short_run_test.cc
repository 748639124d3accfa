// Runs that are estimated shorter than a hand-over to another thread.
#include <gtest/gtest.h>

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

TEST(ShortRunTest, CountsAsARunner) {
  const FakeClock clock;
  const FakeServed model(0, {.item_seconds = 1e-6});
  Ledger ledger;
  Batcher batcher({.runners = 1}, clock);
  model.model->gate.Close();
  std::thread first([&] { batcher.Submit(RequestOf(model, {3}, 1), ledger.Enter(0)); });
  model.model->gate.WaitForArrivals(1);
  for (int id = 1; id < 5; ++id) batcher.Submit(RequestOf(model, {3}, 1), ledger.Enter(id));
  model.model->gate.Open();
  first.join();
  EXPECT_TRUE(batcher.Drain(std::chrono::hours(1)));
  EXPECT_EQ(ledger.answers().size(), 5u);
  EXPECT_EQ(model.model->most_active(), 1);
  test::ExpectSettled(model.metrics());
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
