#include "engine/plan/memory.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/base/arena.h"

namespace tandem::plan {
namespace {

TEST(PlaceBuffers, BuffersThatNeverLiveTogetherShareAPlace) {
  const Placement placement = PlaceBuffers({{1000, 0, 1}, {1000, 2, 3}});
  EXPECT_EQ(placement.offsets[0], placement.offsets[1]);
  EXPECT_EQ(placement.bytes, AlignUp(1000));
}

TEST(PlaceBuffers, LifetimesThatTouchAreApart) {
  const Placement placement = PlaceBuffers({{64, 0, 1}, {64, 1, 2}});
  EXPECT_NE(placement.offsets[0], placement.offsets[1]);
}

TEST(PlaceBuffers, ASmallBufferFillsAHole) {
  // 2 dies before 3 is born between two long-lived ones.
  const Placement placement = PlaceBuffers({{640, 0, 9}, {640, 0, 2}, {640, 0, 9}, {64, 3, 9}});
  EXPECT_EQ(placement.bytes, 3u * 640);
}

TEST(PlaceBuffers, RandomLifetimesNeverOverlap) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::vector<Lifetime> lifetimes;
    for (int i = 0; i < 40; ++i) {
      const int begin = static_cast<int>(random() % 30);
      lifetimes.push_back({random() % 5000, begin, begin + static_cast<int>(random() % 6)});
    }
    const Placement placement = PlaceBuffers(lifetimes);
    for (size_t a = 0; a < lifetimes.size(); ++a) {
      ASSERT_EQ(placement.offsets[a] % kBufferAlignment, 0u);
      ASSERT_LE(placement.offsets[a] + lifetimes[a].bytes, placement.bytes);
      for (size_t b = 0; b < a; ++b) {
        const bool in_time =
            lifetimes[a].begin <= lifetimes[b].end && lifetimes[b].begin <= lifetimes[a].end;
        const bool in_space = placement.offsets[a] < placement.offsets[b] + lifetimes[b].bytes &&
                              placement.offsets[b] < placement.offsets[a] + lifetimes[a].bytes;
        ASSERT_FALSE(in_time && in_space) << "seed " << seed << " buffers " << a << ", " << b;
      }
    }
  }
}

}  // namespace
}  // namespace tandem::plan
