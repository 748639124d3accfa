#include <gtest/gtest.h>

#include "engine/runtime/session.h"

namespace tandem::runtime {
namespace {

std::shared_ptr<const plan::ShapePlan> NewPlan() {
  return std::make_shared<const plan::ShapePlan>();
}

// The shapes of a stage.
ShapePlanCache::Key Of(std::vector<Shape> shapes, const plan::Stage* stage = nullptr) {
  return {stage, std::move(shapes)};
}

TEST(ShapePlanCache, FindsWhatWasInsertedForTheSameShapes) {
  ShapePlanCache cache(4);
  const auto plan = NewPlan();
  cache.Insert(Of({{1, 3}, {2}}), plan);
  EXPECT_EQ(cache.Find(Of({{1, 3}, {2}})), plan);
  EXPECT_EQ(cache.Find(Of({{1, 3}, {3}})), nullptr);
  EXPECT_EQ(cache.Find(Of({{1, 3}})), nullptr);
  EXPECT_EQ(cache.Find(Of({{2}, {1, 3}})), nullptr);
  const plan::Stage other;
  EXPECT_EQ(cache.Find(Of({{1, 3}, {2}}, &other)), nullptr);
}

TEST(ShapePlanCache, TheFirstPlanOfTheSameShapesStays) {
  ShapePlanCache cache(4);
  const auto first = NewPlan();
  cache.Insert(Of({{1}}), first);
  cache.Insert(Of({{1}}), NewPlan());
  EXPECT_EQ(cache.Find(Of({{1}})), first);
  EXPECT_EQ(cache.size(), 1u);
}

TEST(ShapePlanCache, TheOneThatWasNotUsedForLongestGoesFirst) {
  ShapePlanCache cache(2);
  cache.Insert(Of({{1}}), NewPlan());
  cache.Insert(Of({{2}}), NewPlan());
  EXPECT_NE(cache.Find(Of({{1}})), nullptr);
  cache.Insert(Of({{3}}), NewPlan());
  EXPECT_EQ(cache.Find(Of({{2}})), nullptr);
  EXPECT_NE(cache.Find(Of({{1}})), nullptr);
  EXPECT_NE(cache.Find(Of({{3}})), nullptr);
  EXPECT_EQ(cache.size(), 2u);
}

TEST(ShapePlanCache, APlanInUseOutlivesItsPlace) {
  ShapePlanCache cache(1);
  cache.Insert(Of({{1}}), NewPlan());
  const auto held = cache.Find(Of({{1}}));
  cache.Insert(Of({{2}}), NewPlan());
  EXPECT_EQ(cache.Find(Of({{1}})), nullptr);
  EXPECT_NE(held, nullptr);
}

}  // namespace
}  // namespace tandem::runtime
