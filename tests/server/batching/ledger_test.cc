// Every accepted request is answered exactly once and with its own result, whatever happens around
// it.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "server/batching/batcher.h"
#include "tests/server/batching/fixtures.h"

namespace tandem::server {
namespace {

using std::chrono::microseconds;
using test::FakeServed;
using test::RequestOf;

constexpr int kThreads = 8;
constexpr int kRequests = 400;  // of each thread

// What the client of one request remembers.
struct Record {
  std::atomic<int> answers{0};
  float value = 0;
  Shape shape;
  StatusOr<InferReply> reply = Internal("no answer");
};

bool IsAllowed(const Record& record) {
  switch (record.reply.status().code()) {
    case absl::StatusCode::kOk:
      return true;
    case absl::StatusCode::kInvalidArgument:
      return record.value == test::kPoison;
    case absl::StatusCode::kInternal:
      return record.value == test::kThrow;
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnavailable:
      return true;
    default:
      return false;
  }
}

void ExpectOwnResult(const Record& record) {
  const Tensor& y = record.reply->outputs.at(0).tensor;
  EXPECT_EQ(y.shape(), record.shape);
  for (float value : y.span<float>()) EXPECT_EQ(value, 2 * record.value);
}

// Sends kRequests at random; cancels some at once, some later.
void Client(Batcher& batcher, const std::vector<FakeServed*>& models, uint32_t seed,
            std::vector<Record>& records) {
  const SteadyClock clock;
  std::mt19937 random(seed);
  const auto one_in = [&](uint32_t n) { return random() % n == 0; };
  std::vector<std::shared_ptr<InferCall>> calls;
  for (Record& record : records) {
    record.shape = {1 + static_cast<int64_t>(random() % 4), 1 + static_cast<int64_t>(random() % 2)};
    record.value = static_cast<float>(random() % 500);
    if (one_in(20)) record.value = test::kPoison;
    if (one_in(50)) record.value = test::kThrow;
    InferRequest request = RequestOf(*models[random() % models.size()], record.shape, record.value);
    if (one_in(4)) request.deadline = clock.Now() + microseconds(random() % 2000);
    if (one_in(6)) request.queue_timeout = microseconds(random() % 1000);
    calls.push_back(batcher.Submit(std::move(request), [&record](StatusOr<InferReply> reply) {
      record.reply = std::move(reply);
      ++record.answers;
    }));
    if (one_in(5)) calls[random() % calls.size()]->Cancel();
    if (one_in(10)) std::this_thread::yield();
  }
}

class LedgerTest : public testing::Test {
 protected:
  LedgerTest() {
    for (auto& records : records_) records = std::vector<Record>(kRequests);
  }
  void RunClients(Batcher& batcher) {
    std::vector<std::thread> clients;
    for (int t = 0; t < kThreads; ++t) {
      clients.emplace_back(
          [&, t] { Client(batcher, models_, static_cast<uint32_t>(17 + t), records_[t]); });
    }
    for (std::thread& client : clients) client.join();
  }
  // Returns the number of results.
  int ExpectAllAnsweredOnce() {
    int results = 0;
    for (const auto& records : records_) {
      for (const Record& record : records) {
        EXPECT_EQ(record.answers.load(), 1);
        EXPECT_TRUE(IsAllowed(record)) << record.reply.status();
        if (!record.reply.ok()) continue;
        ++results;
        ExpectOwnResult(record);
      }
    }
    for (const FakeServed* model : models_) test::ExpectSettled(model->metrics());
    return results;
  }

  const SteadyClock clock_;
  FakeServed batching_{8, {}, "batching"};
  FakeServed alone_{0, {}, "alone"};
  std::vector<FakeServed*> models_{&batching_, &alone_};
  std::vector<std::vector<Record>> records_ = std::vector<std::vector<Record>>(kThreads);
};

TEST_F(LedgerTest, UnderRandomCancelsDeadlinesAndFaultsEveryRequestIsAnsweredOnce) {
  Batcher batcher({.runners = 3}, clock_);
  RunClients(batcher);
  EXPECT_TRUE(batcher.Drain(std::chrono::minutes(1)));
  EXPECT_GT(ExpectAllAnsweredOnce(), 0);
  uint64_t received = 0;
  for (const FakeServed* model : models_) received += model->metrics().received.value();
  EXPECT_EQ(received, uint64_t{kThreads} * kRequests);
}

TEST_F(LedgerTest, WhenTheBatcherEndsUnderLoadEveryRequestIsAnsweredOnce) {
  {
    Batcher batcher({.max_queue = 1000, .runners = 2}, clock_);
    std::thread ending([&] {
      while (batching_.metrics().received.value() < 200) std::this_thread::yield();
      batcher.Drain(std::chrono::milliseconds(0));
    });
    RunClients(batcher);
    ending.join();
  }
  ExpectAllAnsweredOnce();
}

}  // namespace
}  // namespace tandem::server
