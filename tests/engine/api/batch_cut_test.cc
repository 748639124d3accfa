// Models that mix the items of a batch on the way: what comes before runs in parts, the rest on the
// merged rows, and the answer has the bits of a run that was never cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Answers;
using test::Exact;
using test::ExpectClose;
using test::ExpectMeans;
using test::InputsOf;
using test::LoadModel;
using test::ModelBuilder;
using test::RandomFloats;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Ints = std::vector<int64_t>;
using Names = std::vector<std::string>;

const graph::Dim kN = graph::Dim::Symbol("N");

Tensor IntVector(const Ints& values) {
  return Tensor::Of<int64_t>({static_cast<int64_t>(values.size())}, values);
}

// c = Relu(Conv(x)), [N,16,24,24]: enough work for a part of its own.
ModelBuilder Front() {
  ModelBuilder builder(13);
  builder.Input("x", DType::kFloat, {kN, 16, 24, 24})
      .Initializer("w", RandomFloats({16, 16, 3, 3}, 1))
      .Node("Conv", {"x", "w"}, {"z"}, {{"pads", Ints{1, 1, 1, 1}}})
      .Node("Relu", {"z"}, {"c"});
  return builder;
}

struct Case {
  std::string bytes;
  Names merged;  // "" for one whose name is not this test's business
};

std::map<std::string, Case> Cases() {
  std::map<std::string, Case> cases;
  const auto add = [&cases](const std::string& name, const ModelBuilder& builder, Names merged) {
    cases[name] = {builder.Serialize(), std::move(merged)};
  };
  add("softmax over the items",
      Front()
          .Node("Softmax", {"c"}, {"y"}, {{"axis", int64_t{0}}})
          .Output("y", DType::kFloat, {kN, 16, 24, 24}),
      {"c"});
  add("a mean over the items that each is compared with",
      Front()
          .Node("ReduceMean", {"c"}, {"m"}, {{"axes", Ints{0}}})
          .Node("Sub", {"c", "m"}, {"y"})
          .Output("y", DType::kFloat, {kN, 16, 24, 24}),
      {"c"});
  add("outputs of the parts next to others",
      Front()
          .Node("ReduceMax", {"c"}, {"m"}, {{"axes", Ints{0}}})
          .Node("Tanh", {"c"}, {"t"})
          .Output("c", DType::kFloat, {kN, 16, 24, 24})
          .Output("m", DType::kFloat, {1, 16, 24, 24})
          .Output("t", DType::kFloat, {kN, 16, 24, 24}),
      {});
  add("items along another axis when they are mixed",
      Front()
          .Node("Transpose", {"c"}, {"t"}, {{"perm", Ints{1, 0, 2, 3}}})
          .Node("Softmax", {"t"}, {"y"}, {{"axis", int64_t{1}}})
          .Output("y", DType::kFloat, {16, kN, 24, 24}),
      {"c"});
  add("several rows of an item",
      Front()
          .Initializer("rows", IntVector({-1, 24}))
          .Node("Reshape", {"c", "rows"}, {"r"})
          .Node("Softmax", {"r"}, {"y"}, {{"axis", int64_t{0}}})
          .Output("y", DType::kFloat, {graph::Dim::Symbol("R"), 24}),
      {"r"});
  add("the number of all items",
      Front()
          .Initializer("first", Tensor::Scalar<int64_t>(0))
          .Node("Shape", {"c"}, {"shape"})
          .Node("Gather", {"shape", "first"}, {"n"})
          .Node("Cast", {"n"}, {"count"}, {{"to", int64_t{1}}})
          .Node("ReduceMax", {"c"}, {"m"}, {{"axes", Ints{0}}})
          .Node("Mul", {"m", "count"}, {"y"})
          .Output("y", DType::kFloat, {1, 16, 24, 24}),
      {"c"});
  add("an input that all items share",
      ModelBuilder(13)
          .Input("x", DType::kFloat, {kN, 16, 24, 24})
          .Input("s", DType::kFloat, {24})
          .Initializer("w", RandomFloats({16, 16, 3, 3}, 2))
          .Node("Conv", {"x", "w"}, {"z"})
          .Node("Tanh", {"s"}, {"scale"})
          .Initializer("from", IntVector({0}))
          .Initializer("to", IntVector({22}))
          .Node("Slice", {"scale", "from", "to"}, {"part"})
          .Node("Mul", {"z", "part"}, {"c"})
          .Node("Softmax", {"c"}, {"d"}, {{"axis", int64_t{0}}})
          .Node("Mul", {"d", "part"}, {"y"})
          .Output("y", DType::kFloat, {kN, 16, 22, 22}),
      {"c"});
  add("results whose size depends on data",
      Front()
          .Node("NonZero", {"c"}, {"y"})
          .Output("y", DType::kInt64, {4, graph::Dim::Symbol("K")}),
      {"c"});
  return cases;
}

Names MergedOf(const PlanReport& report) {
  Names names;
  for (const int value : report.merged) {
    names.push_back(report.values[static_cast<size_t>(value)].name);
  }
  return names;
}

TEST(BatchCut, TheAnswerHasTheBitsOfARunThatWasNotCut) {
  const Engine whole({.threads = 1});
  for (const auto& [name, one] : Cases()) {
    SCOPED_TRACE(name);
    const auto oracle = LoadModel(whole, one.bytes);
    for (const int threads : {2, 4}) {
      const Engine engine({.threads = threads});
      const auto model = LoadModel(engine, one.bytes);
      ASSERT_NE(model, nullptr);
      EXPECT_FALSE(model->info().joinable);
      for (const int64_t items : {0, 1, 2, 3, 7, 8}) {
        SCOPED_TRACE(fmt::format("{} items on {} threads", items, threads));
        const auto inputs = InputsOf(*model, items);
        ExpectClose(Answers(*model, inputs), Answers(*oracle, inputs), Exact());
      }
    }
  }
}

TEST(BatchCut, TheReportSaysHowFarTheBatchIsCut) {
  const Engine engine({.threads = 4});
  for (const auto& [name, one] : Cases()) {
    SCOPED_TRACE(name);
    const auto model = LoadModel(engine, one.bytes);
    ASSERT_NE(model, nullptr);
    const PlanReport report = test::ReportOf(*model, InputsOf(*model, 7));
    EXPECT_EQ(report.parts, 4);
    if (!one.merged.empty()) {
      EXPECT_EQ(MergedOf(report), one.merged);
    }
    EXPECT_TRUE(report.tasks.front().in_parts);
    if (name == "softmax over the items") {
      EXPECT_GE(report.arena_bytes, size_t{7} * 16 * 24 * 24 * 4) << "the merged rows count";
    }
    EXPECT_THAT(ToText(report),
                AllOf(HasSubstr("tasks in parts, up to '"), HasSubstr(", in parts of a batch")));
    EXPECT_EQ(test::ReportOf(*model, InputsOf(*model, 1)).parts, 1);
  }
}

TEST(BatchCut, AnyOrderOfTheNodesMeansTheSame) {
  for (const auto& [name, one] : Cases()) {
    SCOPED_TRACE(name);
    ExpectMeans(one.bytes, {.oracle = one.bytes});
  }
}

// Nothing is cut where nothing is computed before the items are mixed, and where they are not told
// apart.
TEST(BatchCut, NothingIsCutThatHasNoWorkBefore) {
  const Engine engine({.threads = 2});
  const std::string mixed = ModelBuilder(13)
                                .Input("x", DType::kFloat, {kN, 40})
                                .Node("Softmax", {"x"}, {"s"}, {{"axis", int64_t{0}}})
                                .Node("Relu", {"s"}, {"y"})
                                .Output("y", DType::kFloat, {kN, 40})
                                .Serialize();
  const auto model = LoadModel(engine, mixed);
  ASSERT_NE(model, nullptr);
  EXPECT_THAT(MergedOf(test::ReportOf(*model, InputsOf(*model, 8))), ElementsAre());
}

// Every task is timed once for each part it runs in, under its own name.
TEST(BatchCut, TheProfileHasTheTasksOfThePartsAndTheRest) {
  const Engine engine({.threads = 2});
  const auto model = LoadModel(engine, Cases().at("softmax over the items").bytes);
  ASSERT_NE(model, nullptr);
  const auto result = model->Run(InputsOf(*model, 8), {.profile = true});
  ASSERT_TRUE(result.ok()) << result.status();
  const PlanReport report = test::ReportOf(*model, InputsOf(*model, 8));
  ASSERT_EQ(result->profile.size(), report.tasks.size());
  for (size_t task = 0; task < report.tasks.size(); ++task) {
    if (report.tasks[task].kernel == "view") continue;
    EXPECT_GT(result->profile[task].time.count(), 0) << report.tasks[task].name;
  }
}

TEST(BatchCut, TheMemoryOfAllPartsAndTheRestIsLimited) {
  const std::string bytes = Cases().at("softmax over the items").bytes;
  const Engine engine({.threads = 2,
                       .precision = Precision::kF32Plain,
                       .max_run_bytes = size_t{8} * 16 * 24 * 24 * 4 * 2});
  const auto model = LoadModel(engine, bytes);
  ASSERT_NE(model, nullptr);
  const auto result = model->Run(InputsOf(*model, 8), {});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(model->Run(InputsOf(*model, 2), {}).ok());
}

TEST(BatchCut, AnOutputOfThePartsCountsOnceAgainstTheLimit) {
  const std::string bytes = Cases().at("outputs of the parts next to others").bytes;
  const auto load = [&](size_t limit) {
    return LoadModel(Engine({.threads = 2, .max_run_bytes = limit}), bytes);
  };
  const auto free = load(0);
  ASSERT_NE(free, nullptr);
  constexpr size_t kItem = size_t{16} * 24 * 24 * sizeof(float);
  const PlanReport report = test::ReportOf(*free, InputsOf(*free, 8));
  const size_t needed = report.arena_bytes.value() + (8 + 1 + 8) * kItem;  // c, m and t
  EXPECT_TRUE(load(needed)->Run(InputsOf(*free, 8), {}).ok());
  EXPECT_EQ(load(needed - 1)->Run(InputsOf(*free, 8), {}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace tandem
