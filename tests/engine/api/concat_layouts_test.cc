// Concat between kernels that work channels-last: it joins what lies as they leave it.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::ModelBuilder;
using test::RandomFloats;

const graph::Dim kN = graph::Dim::Symbol("N");

int Conversions(const std::string& bytes) {
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = test::LoadModel(engine, bytes);
  const auto report = model->Report(std::vector<NamedShape>{{"x", {2, 3, 9, 7}}});
  EXPECT_TRUE(report.ok()) << report.status();
  return static_cast<int>(std::ranges::count_if(report->tasks, [](const TaskReport& task) {
    return task.kernel.starts_with("convert_layout");
  }));
}

// Two convolutions of x [N, 3, 9, 7], joined along `axis`.
ModelBuilder Joined(int64_t axis) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 3, 9, 7})
      .Initializer("wa", RandomFloats({5, 3, 3, 3}, 1))
      .Initializer("wb", RandomFloats({5, 3, 3, 3}, 2))
      .Node("Conv", {"x", "wa"}, {"a"})
      .Node("Conv", {"x", "wb"}, {"b"})
      .Node("Concat", {"a", "b"}, {"joined"}, {{"axis", axis}});
  return builder;
}

TEST(ConcatLayouts, BetweenConvolutionsNothingIsTransposed) {
  for (const int64_t axis : {1, 2, -1}) {
    SCOPED_TRACE(fmt::format("axis {}", axis));
    const int64_t channels = axis == 1 ? 10 : 5;
    const std::string bytes = Joined(axis)
                                  .Initializer("w", RandomFloats({4, channels, 3, 3}, 3))
                                  .Node("Conv", {"joined", "w"}, {"y"})
                                  .Output("y", DType::kFloat, {kN, 4, graph::Dim(), graph::Dim()})
                                  .Serialize();
    EXPECT_EQ(Conversions(bytes), 2);  // of x and of y
    test::ExpectMeans(
        bytes,
        {.oracle = bytes, .options = test::WithoutPacks(), .tolerance = test::Reduction(90)});
  }
}

// x joined with a convolution of it.
ModelBuilder JoinedWithInput() {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 3, 9, 7})
      .Initializer("w", RandomFloats({5, 3, 1, 1}, 1))
      .Node("Conv", {"x", "w"}, {"a"})
      .Node("Concat", {"x", "a"}, {"joined"}, {{"axis", int64_t{1}}});
  return builder;
}

// A native part is not brought to channels-last where the result is wanted natively.
TEST(ConcatLayouts, ANativePartAndANativeReaderKeepItNative) {
  const std::string read = JoinedWithInput()
                               .Initializer("flat", Tensor::Of<int64_t>({2}, {0, -1}))
                               .Node("Reshape", {"joined", "flat"}, {"y"})
                               .Output("y", DType::kFloat, {kN, 504})
                               .Serialize();
  const std::string answered =
      JoinedWithInput().Output("joined", DType::kFloat, {kN, 8, 9, 7}).Serialize();
  for (const std::string& bytes : {read, answered}) {
    EXPECT_EQ(Conversions(bytes), 2);  // before and after the convolution
    test::ExpectMeans(
        bytes, {.oracle = bytes, .options = test::WithoutPacks(), .tolerance = test::Reduction(3)});
  }
}

}  // namespace
}  // namespace tandem
