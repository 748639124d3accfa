// Runs, batches, refusals and errors of the batcher.
#include "server/batching/batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/server/batching/batcher_fixture.h"

namespace tandem::server {
namespace {

using std::chrono::milliseconds;
using test::BatcherTest;
using test::FakeServed;
using test::Filled;
using test::Ledger;
using test::RequestOf;
using testing::ElementsAre;

TEST_F(BatcherTest, AnswersWithTheModelsOutputs) {
  Batcher batcher({.runners = 1}, clock_);
  Submit(batcher, 1, {2, 3}, 5);
  ExpectTwice(1, {2, 3}, 5);
  EXPECT_TRUE(batcher.Drain(std::chrono::hours(1)));
  test::ExpectSettled(model_.metrics());
  EXPECT_EQ(model_.metrics().succeeded.value(), 1u);
  EXPECT_EQ(model_.metrics().inferences.value(), 2u);
}

TEST_F(BatcherTest, TellsHowLongTheRequestWaitedAndWasComputed) {
  Batcher batcher({.runners = 1}, clock_);
  OccupyRunner(batcher);
  Submit(batcher, 1, {2, 3}, 1);
  Submit(batcher, 2, {3, 3}, 1);
  clock_.Advance(milliseconds(7));
  model_.model->gate.Open();
  const StatusOr<InferReply> first = ledger_.Wait(1000);
  const StatusOr<InferReply> second = ledger_.Wait(1);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->timing.queue, milliseconds(0));
  EXPECT_EQ(first->timing.compute, milliseconds(7));
  EXPECT_EQ(first->timing.batch_items, 1);
  EXPECT_EQ(second->timing.queue, milliseconds(7));
  EXPECT_EQ(second->timing.compute, milliseconds(0));
  EXPECT_EQ(second->timing.batch_items, 5);
  EXPECT_TRUE(batcher.Drain(std::chrono::hours(1)));
  EXPECT_EQ(model_.metrics().queue_duration.sum(), 2 * 7'000'000);
  EXPECT_EQ(model_.metrics().compute_duration.sum(), 7'000'000);
  EXPECT_EQ(model_.metrics().request_duration.sum(), 3 * 7'000'000);
  EXPECT_EQ(model_.metrics().run_items.count(), 2u);
  EXPECT_EQ(model_.metrics().run_items.sum(), 6);
}

TEST_F(BatcherTest, WhatQueuedWhileTheRunnerWasBusyRunsTogether) {
  Batcher batcher({.runners = 1}, clock_);
  OccupyRunner(batcher);
  for (int id = 0; id < 5; ++id) Submit(batcher, id, {1, 3}, static_cast<float>(id));
  model_.model->gate.Open();
  for (int id = 0; id < 5; ++id) ExpectTwice(id, {1, 3}, static_cast<float>(id));
  ASSERT_EQ(model_.model->runs().size(), 2u);
  EXPECT_EQ(model_.model->runs()[1].size(), 5u);
}

TEST_F(BatcherTest, ARunHoldsNoMoreThanMaxBatchSizeItems) {
  Batcher batcher({.runners = 1}, clock_);
  OccupyRunner(batcher);
  for (int id = 0; id < 4; ++id) Submit(batcher, id, {3, 3}, 1);
  model_.model->gate.Open();
  for (int id = 0; id < 4; ++id) ExpectTwice(id, {3, 3}, 1);
  ASSERT_EQ(model_.model->runs().size(), 3u);
  EXPECT_EQ(model_.model->runs()[1].size(), 2u);
  EXPECT_EQ(model_.model->runs()[2].size(), 2u);
}

TEST_F(BatcherTest, OtherShapesRideInOtherRuns) {
  Batcher batcher({.runners = 1}, clock_);
  OccupyRunner(batcher);
  Submit(batcher, 0, {1, 3}, 1);
  Submit(batcher, 1, {1, 4}, 1);
  Submit(batcher, 2, {2, 3}, 1);
  Submit(batcher, 3, {1, 3, 1}, 1);
  model_.model->gate.Open();
  ExpectTwice(3, {1, 3, 1}, 1);
  const auto runs = model_.model->runs();
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_THAT(runs[1], ElementsAre(Shape({1, 3}), Shape({2, 3})));
  EXPECT_THAT(runs[2], ElementsAre(Shape({1, 4})));
  EXPECT_THAT(runs[3], ElementsAre(Shape({1, 3, 1})));
}

TEST_F(BatcherTest, OtherDtypesRideInOtherRunsAndTheOrderOfInputsIsFree) {
  Batcher batcher({.runners = 1}, clock_);
  OccupyRunner(batcher);
  const NamedTensor x{"x", Filled({1, 3}, 1)};
  const NamedTensor z_float{"z", Filled({1, 2}, 1)};
  const NamedTensor z_int{"z", Tensor::Of<int32_t>({1, 2}, {1, 1})};
  int id = 0;
  for (const auto& inputs : {std::vector{x, z_float}, {x, z_int}, {z_float, x}}) {
    InferRequest request;
    request.model = model_.served;
    request.inputs = inputs;
    batcher.Submit(std::move(request), ledger_.Enter(id++));
  }
  model_.model->gate.Open();
  ledger_.WaitForCount(4);
  const auto runs = model_.model->runs();
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[1].size(), 2u);
  EXPECT_EQ(runs[2].size(), 1u);
}

TEST_F(BatcherTest, AModelThatDoesNotBatchRunsEachRequestAlone) {
  const FakeServed alone(0);
  Batcher batcher({.runners = 1}, clock_);
  OccupyRunner(batcher);
  for (int id = 0; id < 3; ++id) {
    batcher.Submit(RequestOf(alone, {100}, 1), ledger_.Enter(id));
  }
  batcher.Submit(RequestOf(alone, {}, 1), ledger_.Enter(3));
  model_.model->gate.Open();
  ledger_.WaitForCount(5);
  EXPECT_EQ(alone.model->runs().size(), 4u);
  ExpectTwice(3, {}, 1);
}

TEST_F(BatcherTest, ARequestWithoutItemsRunsAlone) {
  Batcher batcher({.runners = 1}, clock_);
  OccupyRunner(batcher);
  Submit(batcher, 0, {1, 3}, 1);
  Submit(batcher, 1, {0, 3}, 1);
  Submit(batcher, 2, {1, 3}, 1);
  model_.model->gate.Open();
  ExpectTwice(1, {0, 3}, 1);
  ledger_.WaitForCount(4);
  EXPECT_THAT(model_.model->runs()[1], ElementsAre(Shape({1, 3}), Shape({1, 3})));
  EXPECT_THAT(model_.model->runs()[2], ElementsAre(Shape({0, 3})));
}

TEST_F(BatcherTest, SeveralItemsForAFileWithABatchOfOneGoThroughTheModelsOwnSplit) {
  ModelInfo info;
  info.batch_fixed_at_one = true;
  const FakeServed fixed(8, info);
  Batcher batcher({.runners = 1}, clock_);
  batcher.Submit(RequestOf(fixed, {3, 2}, 4), ledger_.Enter(0));
  ExpectTwice(0, {3, 2}, 4);
}

TEST_F(BatcherTest, WhatTheModelDoesNotAcceptIsRefusedBeforeTheQueue) {
  Batcher batcher({.runners = 1}, clock_);
  InferRequest request;
  request.model = model_.served;
  request.inputs.push_back({"w", Filled({1, 3}, 1)});
  batcher.Submit(std::move(request), ledger_.Enter(0));
  ASSERT_TRUE(ledger_.Has(0));
  ExpectError(0, absl::StatusCode::kInvalidArgument,
              "model 'fake' version 1: input 'w' is unknown");
  Submit(batcher, 1, {9, 3}, 1);
  ExpectError(1, absl::StatusCode::kInvalidArgument,
              "input 'x': shape [9,3] came, with 9 items, more than max_batch_size, which is 8");
  Submit(batcher, 2, {}, 1);
  ExpectError(2, absl::StatusCode::kInvalidArgument, "'x' is a scalar");
  InferRequest uneven = RequestOf(model_, {2, 3}, 1);
  uneven.inputs.push_back({"z", Filled({3, 3}, 1)});
  batcher.Submit(std::move(uneven), ledger_.Enter(3));
  ExpectError(3, absl::StatusCode::kInvalidArgument, "'z' has shape [3,3]");
  model_.model->throw_in_validate = true;
  Submit(batcher, 4, {1, 3}, 1);
  ExpectError(4, absl::StatusCode::kInternal, "validation broke");
  EXPECT_TRUE(model_.model->runs().empty());
  EXPECT_EQ(test::Failures(model_, FailureReason::kInvalidArgument), 4u);
  test::ExpectSettled(model_.metrics());
}

TEST_F(BatcherTest, AFullQueueRefusesAndNamesItsBound) {
  Batcher batcher({.max_queue = 2, .runners = 1}, clock_);
  OccupyRunner(batcher);
  Submit(batcher, 0, {1, 3}, 1);
  Submit(batcher, 1, {1, 3}, 1);
  Submit(batcher, 2, {1, 3}, 1);
  ASSERT_TRUE(ledger_.Has(2));
  ExpectError(2, absl::StatusCode::kUnavailable,
              "model 'fake' version 1: the queue is full, 2 requests wait and more may not");
  EXPECT_EQ(RetryOf(2), milliseconds(100));
  EXPECT_EQ(test::Failures(model_, FailureReason::kQueueFull), 1u);
  EXPECT_EQ(model_.metrics().queued.value(), 2);
  EXPECT_EQ(model_.metrics().running.value(), 1);
  model_.model->gate.Open();
  ledger_.WaitForCount(4);
}

TEST_F(BatcherTest, TheQueueHoldsFourBatchesAndAtLeast64ByDefault) {
  for (const auto& [max_batch_size, bound] :
       std::vector<std::pair<int64_t, int>>{{0, 64}, {8, 64}, {16, 64}, {17, 68}, {32, 128}}) {
    const FakeServed model(max_batch_size);
    Ledger ledger;
    Batcher batcher({.runners = 1}, clock_);
    model.model->gate.Close();
    batcher.Submit(RequestOf(model, {1, 3}, 1), ledger.Enter(-1));
    model.model->gate.WaitForArrivals(1);
    for (int id = 0; id <= bound; ++id) {
      batcher.Submit(RequestOf(model, {1, 3}, 1), ledger.Enter(id));
    }
    EXPECT_FALSE(ledger.Has(bound - 1)) << max_batch_size;
    EXPECT_TRUE(ledger.Has(bound)) << max_batch_size;
    model.model->gate.Open();
    ledger.WaitForCount(static_cast<size_t>(bound) + 2);
  }
}

TEST_F(BatcherTest, AnErrorInABatchStaysWithTheRequestThatCausedIt) {
  Batcher batcher({.runners = 1}, clock_);
  OccupyRunner(batcher);
  Submit(batcher, 0, {1, 3}, 1);
  Submit(batcher, 1, {2, 3}, test::kPoison);
  Submit(batcher, 2, {3, 3}, 3);
  model_.model->gate.Open();
  ExpectTwice(0, {1, 3}, 1);
  ExpectTwice(2, {3, 3}, 3);
  ExpectError(1, absl::StatusCode::kInvalidArgument, "model 'fake' version 1: ");
  ExpectError(1, absl::StatusCode::kInvalidArgument, "is poison");
  EXPECT_EQ(RetryOf(1), std::nullopt);
  EXPECT_EQ(ledger_.Wait(2)->timing.batch_items, 3);
  // The occupant, the batch, and one run for each of its members.
  EXPECT_EQ(model_.model->runs().size(), 5u);
  EXPECT_TRUE(batcher.Drain(std::chrono::hours(1)));
  test::ExpectSettled(model_.metrics());
  EXPECT_EQ(model_.metrics().run_items.count(), 3u);
}

TEST_F(BatcherTest, AnExceptionBecomesAnInternalErrorOfTheRequestThatCausedIt) {
  Batcher batcher({.runners = 1}, clock_);
  OccupyRunner(batcher);
  Submit(batcher, 0, {1, 3}, test::kThrow);
  Submit(batcher, 1, {1, 3}, 3);
  model_.model->gate.Open();
  ExpectError(0, absl::StatusCode::kInternal,
              "model 'fake' version 1: the run threw: the kernel broke");
  ExpectTwice(1, {1, 3}, 3);
  Submit(batcher, 2, {1, 3}, 5);
  ExpectTwice(2, {1, 3}, 5);
}

TEST_F(BatcherTest, ACallbackThatThrowsHarmsNobodyElse) {
  Batcher batcher({.runners = 1}, clock_);
  batcher.Submit(RequestOf(model_, {1, 3}, 1),
                 [](const StatusOr<InferReply>&) { throw std::runtime_error("callback"); });
  Submit(batcher, 1, {1, 3}, 5);
  ExpectTwice(1, {1, 3}, 5);
  EXPECT_TRUE(batcher.Drain(std::chrono::hours(1)));
}

TEST_F(BatcherTest, TheOldestRequestOfAllModelsRunsNext) {
  const FakeServed other(8, {}, "other");
  std::vector<std::string> order;
  std::mutex mutex;
  const auto note = [&](const char* name) {
    return [&, name](const StatusOr<InferReply>&) {
      const std::scoped_lock lock(mutex);
      order.emplace_back(name);
    };
  };
  Batcher batcher({.runners = 1}, clock_);
  OccupyRunner(batcher);
  // Shapes differ, so that nothing is joined.
  batcher.Submit(RequestOf(other, {1, 1}, 1), note("other 1"));
  batcher.Submit(RequestOf(model_, {1, 1}, 1), note("fake 1"));
  batcher.Submit(RequestOf(model_, {1, 2}, 1), note("fake 2"));
  batcher.Submit(RequestOf(other, {1, 2}, 1), note("other 2"));
  model_.model->gate.Open();
  EXPECT_TRUE(batcher.Drain(std::chrono::hours(1)));
  EXPECT_THAT(order, ElementsAre("other 1", "fake 1", "fake 2", "other 2"));
}

TEST_F(BatcherTest, AModelHasNoMoreRunsAtATimeThanItMay) {
  FakeServed narrow(0, {}, "narrow");
  narrow.served->max_runs = 1;
  Batcher batcher({.runners = 3}, clock_);
  narrow.model->gate.Close();
  batcher.Submit(RequestOf(narrow, {1}, 1), ledger_.Enter(0));
  narrow.model->gate.WaitForArrivals(1);
  batcher.Submit(RequestOf(narrow, {1}, 2), ledger_.Enter(1));
  // Other models use the runners that are left.
  Submit(batcher, 2, {1, 3}, 3);
  ExpectTwice(2, {1, 3}, 3);
  EXPECT_EQ(narrow.model->gate.arrived(), 1);
  narrow.model->gate.Open();
  ExpectTwice(1, {1}, 2);
  EXPECT_EQ(narrow.model->most_active(), 1);
}

TEST_F(BatcherTest, AsManyRunsAreUnderWayAsThereAreRunners) {
  const FakeServed alone(0);
  Batcher batcher({.runners = 3}, clock_);
  alone.model->gate.Close();
  for (int id = 0; id < 9; ++id) batcher.Submit(RequestOf(alone, {1}, 1), ledger_.Enter(id));
  alone.model->gate.WaitForArrivals(3);
  alone.model->gate.Open();
  ledger_.WaitForCount(9);
  EXPECT_EQ(alone.model->most_active(), 3);
}

TEST_F(BatcherTest, ADelayThatTheModelAsksForGathersABatch) {
  model_.served->max_queue_delay = milliseconds(50);
  Batcher batcher({.runners = 1}, clock_);
  Submit(batcher, 0, {1, 3}, 1);
  Submit(batcher, 1, {1, 3}, 1);
  clock_.Advance(milliseconds(49));
  batcher.Wake();
  EXPECT_FALSE(ledger_.Has(0));
  clock_.Advance(milliseconds(1));
  batcher.Wake();
  ledger_.WaitForCount(2);
  ASSERT_EQ(model_.model->runs().size(), 1u);
  EXPECT_EQ(model_.model->runs()[0].size(), 2u);
  Submit(batcher, 2, {8, 3}, 1);
  ExpectTwice(2, {8, 3}, 1);
}

TEST_F(BatcherTest, ACallbackMaySubmitTheNextRequest) {
  Batcher batcher({.runners = 1}, clock_);
  std::function<void(int)> next = [&](int id) {
    batcher.Submit(RequestOf(model_, {1, 3}, 1), [&, id](StatusOr<InferReply> reply) {
      ledger_.Enter(id)(std::move(reply));
      if (id < 20) next(id + 1);
    });
  };
  next(0);
  ledger_.WaitForCount(21);
  EXPECT_TRUE(batcher.Drain(std::chrono::hours(1)));
}

TEST_F(BatcherTest, LetsGoOfAModelOnceItsRequestsAreAnswered) {
  Batcher batcher({.runners = 1}, clock_);
  auto gone = std::make_unique<FakeServed>(8);
  const std::weak_ptr<const ServedModel> watch = gone->served;
  batcher.Submit(RequestOf(*gone, {1, 3}, 1), ledger_.Enter(0));
  ledger_.WaitForCount(1);
  EXPECT_TRUE(batcher.Drain(std::chrono::hours(1)));
  gone.reset();
  // The runner drops its last reference shortly after the answer.
  while (!watch.expired()) std::this_thread::yield();
}

}  // namespace
}  // namespace tandem::server
