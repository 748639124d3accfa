// The fixture of the batcher's tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "server/models/retry_hint.h"
#include "tests/server/batching/fixtures.h"
#include "tests/support/compare.h"

namespace tandem::server::test {

// One runner unless said otherwise; the gate of `model_` is open at first.
class BatcherTest : public testing::Test {
 protected:
  // The runner is busy with request `id` of one item from here until the gate opens.
  void OccupyRunner(Batcher& batcher, int id = 1000) {
    model_.model->gate.Close();
    const int before = model_.model->gate.arrived();
    batcher.Submit(RequestOf(model_, {1, 3}, 1), ledger_.Enter(id));
    model_.model->gate.WaitForArrivals(before + 1);
  }
  void Submit(Batcher& batcher, int id, Shape shape, float value) {
    batcher.Submit(RequestOf(model_, std::move(shape), value), ledger_.Enter(id));
  }
  void ExpectTwice(int id, const Shape& shape, float value) {
    const StatusOr<InferReply> reply = ledger_.Wait(id);
    ASSERT_TRUE(reply.ok()) << id << ": " << reply.status();
    ASSERT_EQ(reply->outputs.size(), 1u);
    EXPECT_TRUE(tandem::test::Close(reply->outputs[0].tensor, Filled(shape, 2 * value),
                                    tandem::test::Exact()));
  }
  void ExpectError(int id, absl::StatusCode code, const std::string& text) {
    const StatusOr<InferReply> reply = ledger_.Wait(id);
    ASSERT_FALSE(reply.ok()) << id;
    EXPECT_EQ(reply.status().code(), code) << reply.status();
    EXPECT_THAT(std::string(Message(reply.status())), testing::HasSubstr(text));
  }

  // What request `id` was told of a retry.
  std::optional<std::chrono::milliseconds> RetryOf(int id) {
    return RetryAfter(ledger_.Wait(id).status());
  }

  FakeClock clock_;
  FakeServed model_{8};
  Ledger ledger_;
};

}  // namespace tandem::server::test
