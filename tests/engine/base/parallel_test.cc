#include "engine/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

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

}  // namespace
}  // namespace tandem
