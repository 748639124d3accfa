#include "server/batching/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tandem::server {
namespace {

using std::chrono::microseconds;
using testing::ElementsAre;

constexpr Clock::TimePoint kNow{std::chrono::hours(1)};

std::vector<size_t> Members(const Decision& decision) {
  const auto* run = std::get_if<RunNow>(&decision);
  EXPECT_NE(run, nullptr);
  return run == nullptr ? std::vector<size_t>() : run->members;
}

Clock::TimePoint Until(const Decision& decision) {
  const auto* wait = std::get_if<WaitUntil>(&decision);
  EXPECT_NE(wait, nullptr);
  return wait == nullptr ? Clock::TimePoint() : wait->until;
}

Decision DecideNow(const std::vector<PendingRequest>& pending, const BatchPolicy& policy,
                   int active_runs = 0) {
  return Decide({.pending = pending, .active_runs = active_runs}, policy, kNow);
}

PendingRequest Waiting(int64_t items, std::string_view group = "a") {
  return {.items = items, .group = group, .enqueued = kNow - microseconds(10)};
}

TEST(Policy, AnEmptyQueueWaitsForARequest) {
  EXPECT_EQ(Until(DecideNow({}, {})), Clock::TimePoint::max());
}

TEST(Policy, TheOldestRunsAtOnceAlone) {
  EXPECT_THAT(Members(DecideNow({Waiting(1)}, {.max_batch_size = 8})), ElementsAre(0));
}

TEST(Policy, EverythingThatFitsJoinsTheOldest) {
  EXPECT_THAT(Members(DecideNow({Waiting(1), Waiting(2), Waiting(3)}, {.max_batch_size = 8})),
              ElementsAre(0, 1, 2));
}

TEST(Policy, ARequestThatDoesNotFitIsPassedOverForOneThatDoes) {
  const std::vector<PendingRequest> pending = {Waiting(4), Waiting(5), Waiting(4), Waiting(1)};
  EXPECT_THAT(Members(DecideNow(pending, {.max_batch_size = 8})), ElementsAre(0, 2));
}

TEST(Policy, OnlyTheSameGroupJoins) {
  const std::vector<PendingRequest> pending = {Waiting(1, "a"), Waiting(1, "b"), Waiting(1, "a")};
  EXPECT_THAT(Members(DecideNow(pending, {.max_batch_size = 8})), ElementsAre(0, 2));
}

TEST(Policy, AModelThatDoesNotBatchRunsOneRequestATime) {
  EXPECT_THAT(Members(DecideNow({Waiting(1), Waiting(1)}, {.max_batch_size = 0})), ElementsAre(0));
}

TEST(Policy, ABatchSizeOfOneRunsOneItemATime) {
  EXPECT_THAT(Members(DecideNow({Waiting(1), Waiting(1)}, {.max_batch_size = 1})), ElementsAre(0));
}

TEST(Policy, RequestsWithoutItemsShareNothing) {
  EXPECT_THAT(Members(DecideNow({Waiting(0), Waiting(1)}, {.max_batch_size = 8})), ElementsAre(0));
  EXPECT_THAT(Members(DecideNow({Waiting(1), Waiting(0), Waiting(1)}, {.max_batch_size = 8})),
              ElementsAre(0, 2));
}

TEST(Policy, WaitsWhileTheModelHasAllItsRuns) {
  const BatchPolicy policy{.max_batch_size = 8, .max_runs = 2};
  EXPECT_THAT(Members(DecideNow({Waiting(1)}, policy, 1)), ElementsAre(0));
  EXPECT_EQ(Until(DecideNow({Waiting(1)}, policy, 2)), Clock::TimePoint::max());
}

TEST(Policy, ExpiredRequestsAreShedEvenWhenNothingCanRun) {
  std::vector<PendingRequest> pending = {Waiting(1), Waiting(1), Waiting(1)};
  pending[0].expires = kNow + Clock::Duration(1);
  pending[1].expires = kNow;
  pending[2].expires = kNow - Clock::Duration(1);
  for (int active : {0, 1}) {
    const Decision decision = DecideNow(pending, {.max_batch_size = 8}, active);
    const auto* shed = std::get_if<Shed>(&decision);
    ASSERT_NE(shed, nullptr);
    EXPECT_THAT(shed->expired, ElementsAre(1, 2));
  }
}

TEST(Policy, ADelayWaitsForCompanyUntilItIsOver) {
  BatchPolicy policy{.max_batch_size = 4, .max_queue_delay = microseconds(100)};
  EXPECT_EQ(Until(DecideNow({Waiting(1)}, policy)), kNow + microseconds(90));
  policy.max_queue_delay = microseconds(10);
  EXPECT_THAT(Members(DecideNow({Waiting(1)}, policy)), ElementsAre(0));
}

TEST(Policy, AFullBatchDoesNotWaitForTheDelay) {
  const BatchPolicy policy{.max_batch_size = 4, .max_queue_delay = microseconds(100)};
  EXPECT_THAT(Members(DecideNow({Waiting(3), Waiting(1)}, policy)), ElementsAre(0, 1));
  EXPECT_EQ(Until(DecideNow({Waiting(3), Waiting(2)}, policy)), kNow + microseconds(90));
}

TEST(Policy, AModelThatDoesNotBatchDoesNotWaitForTheDelay) {
  const BatchPolicy policy{.max_batch_size = 0, .max_queue_delay = microseconds(100)};
  EXPECT_THAT(Members(DecideNow({Waiting(1)}, policy)), ElementsAre(0));
}

}  // namespace
}  // namespace tandem::server
