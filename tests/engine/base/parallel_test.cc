#include "engine/base/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <vector>

#include "tests/support/fine_parallel.h"

namespace tandem {
namespace {

TEST(ThreadParallel, CoversEveryIndexOnceAtAnyThreadCountAndGrain) {
  for (const int threads : {1, 2, 4, 8}) {
    const auto parallel = MakeThreadParallel(threads);
    for (const int64_t n : {0, 1, 2, 7, 64, 1000}) {
      for (const int64_t grain : {1, 3, 100}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
        parallel->For(n, grain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
        });
        for (const auto& count : seen) ASSERT_EQ(count, 1) << threads << " threads, n " << n;
      }
    }
  }
}

TEST(ThreadParallel, LoopsNest) {
  const auto parallel = MakeThreadParallel(4);
  std::atomic<int> total{0};
  for (int round = 0; round < 50; ++round) {
    parallel->For(8, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        parallel->For(16, 1, [&](int64_t b, int64_t e) { total += static_cast<int>(e - b); });
      }
    });
  }
  EXPECT_EQ(total, 50 * 8 * 16);
}

TEST(GrainOf, IsTheFewestIndicesThatDoTheLeastWork) {
  EXPECT_EQ(GrainOf(100, 1), 100);
  EXPECT_EQ(GrainOf(100, 50), 2);
  EXPECT_EQ(GrainOf(100, 51), 2);
  EXPECT_EQ(GrainOf(100, 49), 3);
  EXPECT_EQ(GrainOf(100, 99), 2);
  EXPECT_EQ(GrainOf(100, 100), 1);
  EXPECT_EQ(GrainOf(100, std::numeric_limits<int64_t>::max()), 1);
  EXPECT_EQ(GrainOf(100, 0), 100) << "an index takes some time whatever it does";
}

TEST(Shares, AreAtLeastOneAndNoMoreThanThreads) {
  const auto parallel = MakeThreadParallel(4);
  EXPECT_EQ(parallel->Shares(0, 1), 1);
  EXPECT_EQ(parallel->Shares(3, 1), 3);
  EXPECT_EQ(parallel->Shares(9, 1), 4);
  EXPECT_EQ(parallel->Shares(9, 4), 2);
  EXPECT_EQ(parallel->Shares(9, 10), 1);
  EXPECT_EQ(SequentialParallel().Shares(9, 1), 1);
}

TEST(FineParallel, CutsWhateverTheGrain) {
  const test::FineParallel parallel(4);
  for (const int64_t n : {0, 1, 7, 1000}) {
    std::atomic<int64_t> seen{0};
    std::atomic<int> ranges{0};
    parallel.For(n, 1000, [&](int64_t begin, int64_t end) {
      seen += end - begin;
      ++ranges;
    });
    EXPECT_EQ(seen, n);
    EXPECT_GE(ranges, std::min<int64_t>(n, 4));
  }
  EXPECT_EQ(parallel.Shares(9, 1000), 4);
}

}  // namespace
}  // namespace tandem
