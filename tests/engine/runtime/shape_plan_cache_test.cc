#include <gtest/gtest.h>

#include "engine/runtime/session.h"

namespace tandem::runtime {
namespace {

std::shared_ptr<const plan::ShapePlan> NewPlan() {
  return std::make_shared<const plan::ShapePlan>();
}

TEST(ShapePlanCache, FindsWhatWasInsertedForTheSameShapes) {
  ShapePlanCache cache(4);
  const auto plan = NewPlan();
  cache.Insert({{1, 3}, {2}}, plan);
  EXPECT_EQ(cache.Find({{1, 3}, {2}}), plan);
  EXPECT_EQ(cache.Find({{1, 3}, {3}}), nullptr);
  EXPECT_EQ(cache.Find({{1, 3}}), nullptr);
  EXPECT_EQ(cache.Find({{2}, {1, 3}}), nullptr);
}

TEST(ShapePlanCache, TheFirstPlanOfTheSameShapesStays) {
  ShapePlanCache cache(4);
  const auto first = NewPlan();
  cache.Insert({{1}}, first);
  cache.Insert({{1}}, NewPlan());
  EXPECT_EQ(cache.Find({{1}}), first);
  EXPECT_EQ(cache.size(), 1u);
}

TEST(ShapePlanCache, TheOneThatWasNotUsedForLongestGoesFirst) {
  ShapePlanCache cache(2);
  cache.Insert({{1}}, NewPlan());
  cache.Insert({{2}}, NewPlan());
  EXPECT_NE(cache.Find({{1}}), nullptr);
  cache.Insert({{3}}, NewPlan());
  EXPECT_EQ(cache.Find({{2}}), nullptr);
  EXPECT_NE(cache.Find({{1}}), nullptr);
  EXPECT_NE(cache.Find({{3}}), nullptr);
  EXPECT_EQ(cache.size(), 2u);
}

TEST(ShapePlanCache, APlanInUseOutlivesItsPlace) {
  ShapePlanCache cache(1);
  cache.Insert({{1}}, NewPlan());
  const auto held = cache.Find({{1}});
  cache.Insert({{2}}, NewPlan());
  EXPECT_EQ(cache.Find({{1}}), nullptr);
  EXPECT_NE(held, nullptr);
}

}  // namespace
}  // namespace tandem::runtime
