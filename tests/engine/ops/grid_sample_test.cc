#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Apply;
using test::Close;
using test::Exact;

Tensor Floats(Shape shape, std::initializer_list<float> values) {
  return Tensor::Of<float>(std::move(shape), values);
}

std::string Error(const test::OpCall& call, const std::vector<Tensor>& inputs) {
  const auto outputs = test::RunOp(call, inputs);
  return outputs.ok() ? "ok" : std::string(Message(outputs.status()));
}

// Samples of the row 1 2 3 at the given places of its axis, by opset 20 with centred ends: -1, 0
// and 1 are its elements.
std::vector<float> Sampled(const char* mode, const char* padding, std::vector<float> places) {
  std::vector<float> grid;
  for (const float place : places) {
    grid.push_back(place);
    grid.push_back(0);
  }
  const auto count = static_cast<int64_t>(places.size());
  const Tensor y = Apply(
      {.op_type = "GridSample",
       .opset = 20,
       .attributes = {{"mode", mode}, {"padding_mode", padding}, {"align_corners", int64_t{1}}}},
      {Floats({1, 1, 1, 3}, {1, 2, 3}),
       Tensor::Of<float>({1, 1, count, 2}, std::span<const float>(grid))});
  return {y.data<float>(), y.data<float>() + count};
}

using Row = std::vector<float>;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(GridSample, InterpolatesBetweenElements) {
  EXPECT_EQ(Sampled("linear", "zeros", {-1, -0.5F, 0.25F, 1}), (Row{1, 1.5F, 2.25F, 3}));
  EXPECT_EQ(Sampled("nearest", "zeros", {-1, -0.5F, 0.5F, 0.6F}), (Row{1, 1, 3, 3}))
      << "halves go to the even place";
  EXPECT_EQ(Sampled("cubic", "border", {-1, 0, 0.5F, 1}), (Row{1, 2, 2.59375F, 3}));
}

TEST(GridSample, PadsWithZerosTheBorderOrReflections) {
  const std::vector<float> places = {-1.5F, 1.5F, 2.5F};
  EXPECT_EQ(Sampled("linear", "zeros", places), (Row{0.5F, 1.5F, 0}));
  EXPECT_EQ(Sampled("linear", "border", places), (Row{1, 3, 3}));
  EXPECT_EQ(Sampled("linear", "reflection", places), (Row{1.5F, 2.5F, 1.5F}));
}

TEST(GridSample, PlacesThatAreNoNumberOrFarAwayAreDefined) {
  const std::vector<float> places = {kNaN, kInfinity, -kInfinity, 1e30F, -1e30F};
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    EXPECT_EQ(Sampled(mode, "zeros", places), Row(5, 0)) << mode;
    EXPECT_EQ(Sampled(mode, "border", places), (Row{1, 3, 1, 3, 1})) << mode;
    for (const float value : Sampled(mode, "reflection", places)) {
      EXPECT_TRUE(value >= 0.8F && value <= 3.2F) << mode << " " << value;
    }
  }
}

TEST(GridSample, EndsAreEdgesUnlessCornersAreAligned) {
  const Tensor x = Floats({1, 1, 2, 2}, {1, 2, 3, 4});
  const Tensor grid = Floats({1, 1, 2, 2}, {-0.5F, -0.5F, 0.5F, 0.5F});
  EXPECT_TRUE(Close(Apply({.op_type = "GridSample", .opset = 16}, {x, grid}),
                    Floats({1, 1, 1, 2}, {1, 4}), Exact()));
  EXPECT_TRUE(Close(
      Apply({.op_type = "GridSample", .opset = 16, .attributes = {{"align_corners", int64_t{1}}}},
            {x, grid}),
      Floats({1, 1, 1, 2}, {1.75F, 3.25F}), Exact()));
}

TEST(GridSample, VolumesNameTheInnermostAxisFirst) {
  const Tensor x = Floats({1, 1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  const test::OpCall call = {
      .op_type = "GridSample", .opset = 20, .attributes = {{"align_corners", int64_t{1}}}};
  EXPECT_TRUE(Close(Apply(call, {x, Floats({1, 1, 1, 3, 3}, {1, -1, -1, -1, 1, -1, 0, 0, 1})}),
                    Floats({1, 1, 1, 1, 3}, {1, 2, 5.5F}), Exact()));
}

TEST(GridSample, HalvesGoToTheEvenPlaceInVolumesToo) {
  const Tensor x = Floats({1, 1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  graph::Attributes nearest{{"mode", "nearest"}};
  // With ends at the edges -1 is the place -0.5, whose even neighbour is 0.
  EXPECT_TRUE(Close(Apply({.op_type = "GridSample", .opset = 20, .attributes = nearest},
                          {x, Floats({1, 1, 1, 1, 3}, {-1, -1, -1})}),
                    Floats({1, 1, 1, 1, 1}, {1}), Exact()));
  nearest["align_corners"] = int64_t{1};
  EXPECT_TRUE(Close(Apply({.op_type = "GridSample", .opset = 20, .attributes = nearest},
                          {x, Floats({1, 1, 1, 1, 3}, {-1, -1, 0})}),
                    Floats({1, 1, 1, 1, 1}, {1}), Exact()));
}

TEST(GridSample, EachItemHasItsOwnGridAndABatchHasTheBitsOfItsItems) {
  const Tensor x = test::RandomFloats({3, 2, 4, 5}, 1);
  const Tensor grid = test::RandomFloats({3, 2, 3, 2}, 2, -1.5F, 1.5F);
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    const test::OpCall call = {
        .op_type = "GridSample", .opset = 20, .attributes = {{"mode", mode}}};
    const Tensor y = Apply(call, {x, grid});
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(
          Close(Apply(call, {x.Rows(i, i + 1), grid.Rows(i, i + 1)}), y.Rows(i, i + 1), Exact()));
    }
  }
}

TEST(GridSample, EmptyGridsAndOtherTypes) {
  const test::OpCall call = {.op_type = "GridSample", .opset = 20};
  EXPECT_EQ(Apply(call, {Floats({1, 1, 1, 1}, {2}), Floats({1, 0, 3, 2}, {})}).shape(),
            Shape({1, 1, 0, 3}));
  EXPECT_TRUE(
      Close(Apply(call, {Tensor::Of<double>({1, 1, 1, 1}, {2}), Floats({1, 1, 1, 2}, {0, 0})}),
            Tensor::Of<double>({1, 1, 1, 1}, {2}), Exact()));
  EXPECT_EQ(Error(call, {Floats({1, 1, 0, 1}, {}), Floats({1, 1, 1, 2}, {0, 0})}),
            "input 0 of shape [1,1,0,1] has nothing to sample");
}

TEST(GridSample, SaysWhatIsWrong) {
  const Tensor x = Floats({1, 1, 1, 1}, {2});
  const test::OpCall call = {.op_type = "GridSample", .opset = 16};
  EXPECT_EQ(Error(call, {x, Floats({2, 1, 1, 2}, {0, 0, 0, 0})}),
            "input 1 (grid) has 2 items where 1 are expected");
  EXPECT_EQ(Error(call, {x, Floats({1, 1, 1, 3}, {0, 0, 0})}),
            "input 1 (grid) is float[1,1,1,3] where rank 4 and a last extent of 2 are expected");
  EXPECT_EQ(Error(call, {Floats({1, 1, 1, 1, 1}, {2}), Floats({1, 1, 1, 1, 3}, {0, 0, 0})}),
            "input 0 is float[1,1,1,1,1] where rank 4 is expected");
  EXPECT_EQ(
      Error({.op_type = "GridSample", .opset = 16, .attributes = {{"mode", "linear"}}}, {x, x}),
      "attribute 'mode' is 'linear' where nearest, bilinear or bicubic is expected");
  EXPECT_EQ(
      Error({.op_type = "GridSample", .opset = 20, .attributes = {{"mode", "bilinear"}}}, {x, x}),
      "attribute 'mode' is 'bilinear' where nearest, linear or cubic is expected");
}

}  // namespace
}  // namespace tandem
