// A vector of as many elements as an image has channels, behind a convolution: ONNX aligns it with
// the width, whatever the number of channels is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::ExpectMeans;
using test::LoadModel;
using test::ModelBuilder;
using test::RandomFloats;
using testing::AllOf;
using testing::HasSubstr;

const graph::Dim kN = graph::Dim::Symbol("N");
constexpr int64_t kChannels = 5;

// y = op(Conv(x) [N,5,4,width], v [5])
std::string Build(const std::string& op, int64_t width) {
  return ModelBuilder(17)
      .Input("x", DType::kFloat, {kN, 3, 4, width})
      .Initializer("w", RandomFloats({kChannels, 3, 1, 1}, 1))
      .Initializer("v", RandomFloats({kChannels}, 2))
      .Node("Conv", {"x", "w"}, {"c"}, {}, "filter")
      .Node(op, {"c", "v"}, {"y"}, {}, "vector")
      .Output("y")
      .Serialize();
}

PlanReport ReportOf(const std::string& bytes, int64_t width) {
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = LoadModel(engine, bytes);
  if (model == nullptr) return {};
  const auto report = model->Report(std::vector<NamedShape>{{"x", {2, 3, 4, width}}});
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *report : PlanReport();
}

// Tasks that compute, without copies from one layout to another.
int64_t StepsOf(const PlanReport& report) {
  return std::ranges::count_if(report.tasks, [](const TaskReport& task) {
    return task.kernel != "view" && !task.kernel.starts_with("convert_layout");
  });
}

TEST(ChannelVectors, ScaleColumnsWhereTheWidthIsTheNumberOfChannels) {
  for (const std::string op : {"Mul", "Add", "Sub", "Div"}) {
    SCOPED_TRACE(op);
    const std::string bytes = Build(op, kChannels);
    ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses()});
    // By hand: c of the convolution alone, times v by column.
    const Engine engine(EngineOptions{.threads = 1});
    const auto model = LoadModel(engine, bytes);
    ASSERT_NE(model, nullptr);
    const auto alone =
        LoadModel(engine, ModelBuilder(17)
                              .Input("x", DType::kFloat, {kN, 3, 4, kChannels})
                              .Initializer("w", RandomFloats({kChannels, 3, 1, 1}, 1))
                              .Node("Conv", {"x", "w"}, {"c"})
                              .Output("c")
                              .Serialize());
    ASSERT_NE(alone, nullptr);
    const auto inputs = test::InputsOf(*model, 2);
    const Tensor y = test::Answers(*model, inputs).at("y");
    const Tensor c = test::Answers(*alone, inputs).at("c");
    const Tensor v = RandomFloats({kChannels}, 2);
    if (op != "Mul") continue;
    for (int64_t i = 0; i < y.elements(); ++i) {
      ASSERT_EQ(y.data<float>()[i], c.data<float>()[i] * v.data<float>()[i % kChannels]) << i;
    }
  }
}

TEST(ChannelVectors, AreNoScaleOfTheChannelsInAnyPlan) {
  for (const std::string op : {"Mul", "Add"}) {
    EXPECT_EQ(StepsOf(ReportOf(Build(op, kChannels), kChannels)), 2) << op;
    EXPECT_EQ(StepsOf(ReportOf(Build(op, 1), 1)), 2) << op;
  }
}

TEST(ChannelVectors, SpreadAColumnOverTheirLength) {
  for (const std::string op : {"Mul", "Add", "Sub", "Div"}) {
    SCOPED_TRACE(op);
    const std::string bytes = Build(op, 1);
    ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses()});
    const Engine engine(EngineOptions{.threads = 1});
    const auto model = LoadModel(engine, bytes);
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(test::Answers(*model, test::InputsOf(*model, 2)).at("y").shape(),
              Shape({2, kChannels, 4, kChannels}));
    const auto declines = ReportOf(bytes, 1).declines;
    EXPECT_TRUE(std::ranges::any_of(declines, [&](const Decline& decline) {
      return decline.pass == "fuse_epilogue" && decline.role == "epilogue " + op;
    }));
  }
}

TEST(ChannelVectors, AreRefusedAtLoadWhereTheyFitNoWidth) {
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = engine.LoadBytes(Build("Mul", 7));
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(std::string(Message(model.status())),
              AllOf(HasSubstr("'vector' (Mul)"), HasSubstr("[N,5,4,7]"), HasSubstr("[5]")));
}

}  // namespace
}  // namespace tandem
