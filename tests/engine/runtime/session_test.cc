// A session specialises its plan for the shapes of a request once.
#include "engine/runtime/session.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/plan/plan.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem::runtime {
namespace {

// y = Relu(x W) of x [N,4], bound, with a session that keeps so many shape plans.
struct Served {
  explicit Served(size_t shape_plans) {
    builder.Input("x", DType::kFloat, {graph::Dim::Symbol("N"), 4})
        .Constant("w", test::RandomFloats({4, 3}, 1))
        .Node("MatMul", {"x", "w"}, {"h"})
        .Node("Relu", {"h"}, {"y"})
        .Output("y");
    auto built = plan::BuildPlan(builder.Build(), {}, builder.constants(), packs);
    EXPECT_TRUE(built.ok()) << built.status();
    if (!built.ok()) return;
    plan = *std::move(built);
    session = std::make_unique<const Session>(*plan, SessionOptions{.shape_plans = shape_plans},
                                              *parallel, arenas);
  }

  // Runs so many items; which shape plan stands for them afterwards.
  std::shared_ptr<const plan::ShapePlan> Run(int64_t items) {
    const Tensor x = test::RandomFloats({items, 4}, 2);
    const std::vector<TensorView> inputs = {x.view()};
    const auto result = session->Run(inputs, RunControl{.stopped = never});
    EXPECT_TRUE(result.ok()) << result.status();
    const auto parts = session->PartsOf(inputs);
    EXPECT_TRUE(parts.ok()) << parts.status();
    return parts.ok() ? parts->shape_plan : nullptr;
  }

  test::GraphBuilder builder;
  plan::PackStore packs;
  ArenaPool arenas;
  const std::unique_ptr<Parallel> parallel = MakeThreadParallel(1);
  const std::function<bool()> never;
  std::unique_ptr<const plan::Plan> plan;
  std::unique_ptr<const Session> session;
};

// How many plans two shapes take that alternate; all are held, so that none takes another's place.
size_t PlansOfTwoShapes(size_t shape_plans) {
  Served served(shape_plans);
  std::set<std::shared_ptr<const plan::ShapePlan>> plans;
  for (int run = 0; run < 100; ++run) plans.insert(served.Run(run % 2 == 0 ? 2 : 5));
  return plans.size();
}

TEST(Session, TwoShapesThatAlternateArePlannedOnce) { EXPECT_EQ(PlansOfTwoShapes(64), 2u); }

TEST(Session, AShapeThatHadToGoIsPlannedAgain) { EXPECT_EQ(PlansOfTwoShapes(1), 100u); }

}  // namespace
}  // namespace tandem::runtime
