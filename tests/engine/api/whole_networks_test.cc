// Small networks of several kinds, with passes and without, in any order of their nodes, on any
// number of threads, packed and not, in shapes that come and go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/api/comparison.h"
#include "tests/engine/api/small_networks.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::LoadModel;
using test::Network;
using test::Networks;
using test::RandomFloats;

std::vector<NamedTensor> Images(int64_t items) {
  return {{"x", RandomFloats({items, 3, 16, 16}, 42)}};
}

test::NamedTensors AnswersWith(const std::string& bytes, const EngineOptions& options,
                               int64_t items) {
  const Engine engine(options);
  const auto model = LoadModel(engine, bytes);
  return model == nullptr ? test::NamedTensors() : test::Answers(*model, Images(items));
}

TEST(WholeNetworks, OrderAndThreadsLeaveTheBitsAndPassesTheNumbers) {
  for (const Network& network : Networks()) {
    const auto reference = AnswersWith(network.bytes, test::WithoutPacks(), 3);
    for (const bool passes : {true, false}) {
      EngineOptions options = passes ? EngineOptions{} : test::WithoutPasses();
      options.threads = 1;
      const auto expected = AnswersWith(network.bytes, options, 3);
      test::ExpectClose(expected, reference, test::OfScale(1e-5));
      const std::vector<std::string> orders = test::OrdersOf(network.bytes);
      for (size_t order = 0; order < orders.size(); ++order) {
        for (const int threads : {1, 4}) {
          SCOPED_TRACE(fmt::format("{}, passes {}, order {}, {} threads", network.name, passes,
                                   order, threads));
          options.threads = threads;
          test::ExpectClose(AnswersWith(orders[order], options, 3), expected, test::Exact());
        }
      }
    }
  }
}

TEST(WholeNetworks, AnyPassMayBeSwitchedOff) {
  for (const Network& network : Networks()) {
    const auto reference = AnswersWith(network.bytes, test::WithoutPacks(), 2);
    for (const std::string& pass : test::WithoutPasses().disabled_passes) {
      SCOPED_TRACE(network.name + " without " + pass);
      test::ExpectClose(AnswersWith(network.bytes, {.threads = 1, .disabled_passes = {pass}}, 2),
                        reference, test::OfScale(1e-5));
    }
  }
}

TEST(WholeNetworks, ABatchHasTheBitsOfItsItems) {
  for (const Network& network : Networks()) {
    for (const int threads : {1, 4}) {
      const Engine engine(EngineOptions{.threads = threads});
      const auto model = LoadModel(engine, network.bytes);
      ASSERT_NE(model, nullptr);
      for (const int64_t items : {2, 3, 7}) {
        const auto inputs = Images(items);
        const Tensor together = test::Answers(*model, inputs).at("y");
        for (int64_t item = 0; item < items; ++item) {
          SCOPED_TRACE(fmt::format("{}, item {} of {}", network.name, item, items));
          const Tensor alone =
              test::Answers(*model, {{"x", inputs[0].tensor.Rows(item, item + 1)}}).at("y");
          EXPECT_TRUE(test::Close(alone, together.Rows(item, item + 1), test::Exact()));
        }
      }
    }
  }
}

TEST(WholeNetworks, ShapesThatNodesComputeAreThoseWrittenDown) {
  test::ExpectMeans(
      test::Detector(test::Shapes::kComputed),
      {.oracle = test::Detector(test::Shapes::kWritten), .batches = {1}, .given = Images(1)});
}

// Nothing is packed again, and no arena is added, once both shapes have been there.
TEST(WholeNetworks, TwoShapesThatAlternateAreAnsweredAsByFreshModels) {
  for (const Network& network : Networks()) {
    if (network.name == "detector") continue;  // its anchors are for one shape
    SCOPED_TRACE(network.name);
    std::vector<NamedTensor> images = {{"x", RandomFloats({1, 3, 16, 16}, 1)},
                                       {"x", RandomFloats({2, 3, 20, 28}, 2)}};
    std::vector<Tensor> expected;
    for (const NamedTensor& image : images) {
      const Engine fresh(EngineOptions{.threads = 2});
      const auto model = LoadModel(fresh, network.bytes);
      ASSERT_NE(model, nullptr);
      expected.push_back(test::Answers(*model, {image}).at("y"));
    }
    for (const size_t shape_plans : {1, 64}) {
      const Engine engine(EngineOptions{.threads = 2, .shape_plans = shape_plans});
      const auto model = LoadModel(engine, network.bytes);
      ASSERT_NE(model, nullptr);
      const EngineStats loaded = engine.stats();
      size_t arenas = 0;
      for (int run = 0; run < 100; ++run) {
        const size_t i = static_cast<size_t>(run % 2);
        ASSERT_TRUE(
            test::Close(test::Answers(*model, {images[i]}).at("y"), expected[i], test::Exact()))
            << "run " << run;
        if (run < 2) arenas = engine.stats().arena_bytes;
        ASSERT_EQ(engine.stats().arena_bytes, arenas) << "run " << run;
      }
      EXPECT_GT(arenas, 0u);
      EXPECT_EQ(engine.stats().packs_built, loaded.packs_built);
      EXPECT_EQ(engine.stats().packs_shared, loaded.packs_shared);
      EXPECT_THAT(test::PackingOfConstantsInRuns(test::ReportOf(*model, {images[0]})),
                  testing::IsEmpty());
    }
  }
}

// What tells one plan from another: all of the report but the times of the passes.
std::string PlanText(const Model& model, int64_t items) {
  PlanReport report = test::ReportOf(model, Images(items));
  for (PassReport& pass : report.passes) pass.time = {};
  return ToText(report);
}

TEST(WholeNetworks, AThousandRunsLeavePlanAndPacksAsTheyWere) {
  for (const Network& network : Networks()) {
    SCOPED_TRACE(network.name);
    const Engine engine(EngineOptions{.threads = 2});
    const auto model = LoadModel(engine, network.bytes);
    ASSERT_NE(model, nullptr);
    const std::vector<int64_t> batches = {1, 3};
    std::vector<std::string> plans;
    std::vector<test::NamedTensors> expected;
    for (const int64_t items : batches) {
      plans.push_back(PlanText(*model, items));
      expected.push_back(test::Answers(*model, Images(items)));
    }
    const EngineStats before = engine.stats();
    for (size_t run = 0; run < 1000; ++run) {
      const size_t i = run % batches.size();
      const auto answers = test::Answers(*model, Images(batches[i]));
      if (run < 998) continue;
      test::ExpectClose(answers, expected[i], test::Exact());
    }
    const EngineStats after = engine.stats();
    EXPECT_EQ(after.packs_built, before.packs_built);
    EXPECT_EQ(after.packs_shared, before.packs_shared);
    EXPECT_EQ(after.pack_bytes, before.pack_bytes);
    EXPECT_EQ(after.constant_bytes, before.constant_bytes);
    for (size_t i = 0; i < batches.size(); ++i) EXPECT_EQ(PlanText(*model, batches[i]), plans[i]);
  }
}

TEST(WholeNetworks, WithoutPrepackingNothingIsPackedAndAllRunsOnReferenceKernels) {
  for (const Network& network : Networks()) {
    SCOPED_TRACE(network.name);
    const EngineOptions options{.threads = 2, .prepack = false};
    const Engine engine(options);
    const auto model = LoadModel(engine, network.bytes);
    ASSERT_NE(model, nullptr);
    const PlanReport report = test::ReportOf(*model, Images(2));
    EXPECT_EQ(engine.stats().packs_built, 0u);
    EXPECT_EQ(engine.stats().pack_bytes, 0u);
    EXPECT_EQ(report.pack_bytes, 0u);
    EXPECT_TRUE(report.packs.empty());
    for (const TaskReport& task : report.tasks) {
      EXPECT_EQ(std::ranges::count(task.packed, true), 0) << task.name;
      for (const Isa isa : test::IsaLevels()) {
        if (isa == Isa::kReference) continue;
        EXPECT_EQ(task.kernel.find(IsaName(isa)), std::string::npos)
            << task.name << ": " << task.kernel;
      }
    }
    test::ExpectClose(test::Answers(*model, Images(2)),
                      AnswersWith(network.bytes, {.threads = 2}, 2), test::OfScale(1e-5));
  }
}

}  // namespace
}  // namespace tandem
