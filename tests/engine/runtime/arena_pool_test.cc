#include "engine/runtime/arena_pool.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace tandem::runtime {
namespace {

// Takes `bytes` and gives them back at once; where they were.
const void* Use(ArenaPool& pool, size_t bytes) {
  StatusOr<ArenaPool::Lease> lease = pool.Take(bytes);
  EXPECT_TRUE(lease.ok()) << lease.status();
  return lease->bytes().data();
}

// Takes all sizes at the same time, then gives them back in this order.
void UseTogether(ArenaPool& pool, const std::vector<size_t>& sizes) {
  std::vector<std::optional<ArenaPool::Lease>> leases;
  for (const size_t bytes : sizes) leases.emplace_back(*pool.Take(bytes));
  for (auto& lease : leases) lease.reset();
}

TEST(ArenaPool, ASteadyLoadAllocatesOnce) {
  ArenaPool pool;
  const void* first = Use(pool, 1024);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(Use(pool, 1024), first);
  EXPECT_EQ(pool.bytes(), 1024u);
}

TEST(ArenaPool, GivesTheSmallestArenaThatIsLargeEnough) {
  ArenaPool pool;
  UseTogether(pool, {4096, 256, 1024});
  EXPECT_EQ(pool.Take(1000)->bytes().size(), 1024u);
  EXPECT_EQ(pool.Take(1025)->bytes().size(), 4096u);
}

TEST(ArenaPool, AnArenaThatNoRunTookAtTheLast64TakesIsFreed) {
  ArenaPool pool;
  UseTogether(pool, {1 << 20, 1024});
  for (int i = 0; i < 64; ++i) Use(pool, 1024);
  EXPECT_EQ(pool.bytes(), (size_t{1} << 20) + 1024);
  Use(pool, 1024);
  EXPECT_EQ(pool.bytes(), 1024u);
}

TEST(ArenaPool, AnArenaInUseStaysHoweverLong) {
  ArenaPool pool;
  StatusOr<ArenaPool::Lease> held = pool.Take(1 << 20);
  ASSERT_TRUE(held.ok());
  for (int i = 0; i < 200; ++i) Use(pool, 1024);
  EXPECT_EQ(pool.bytes(), (size_t{1} << 20) + 1024);
}

TEST(ArenaPool, WhenItIsFullTheLeastRecentlyUsedGoesFirstNotTheSmallest) {
  ArenaPool pool;
  std::vector<size_t> sizes = {1 << 20};
  for (size_t i = 1; i <= 16; ++i) sizes.push_back(64 * i);
  UseTogether(pool, sizes);  // 17, of which 16 may stay; the large one came back first
  size_t small = 0;
  for (size_t i = 1; i <= 16; ++i) small += 64 * i;
  EXPECT_EQ(pool.bytes(), small);
}

}  // namespace
}  // namespace tandem::runtime
