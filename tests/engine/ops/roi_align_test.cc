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

// The 4 x 4 image 0, 1, 2 ... 15.
Tensor Image() {
  std::vector<float> values(16);
  std::iota(values.begin(), values.end(), 0.0F);
  return Tensor::Of<float>({1, 1, 4, 4}, std::span<const float>(values));
}

test::OpCall Call(graph::Attributes attributes, int opset = 16) {
  return {.op_type = "RoiAlign", .opset = opset, .attributes = std::move(attributes)};
}

const Tensor kFirstItem = Tensor::Of<int64_t>({1}, {0});

TEST(RoiAlign, AveragesTheSamplesOfEachBin) {
  const graph::Attributes two{{"output_height", int64_t{2}}, {"output_width", int64_t{2}}};
  // Bins of two elements: each average is that of its four elements.
  EXPECT_TRUE(Close(Apply(Call(two), {Image(), Floats({1, 4}, {0, 0, 4, 4}), kFirstItem}),
                    Floats({1, 1, 2, 2}, {2.5F, 4.5F, 10.5F, 12.5F}), Exact()));
  graph::Attributes scaled = two;
  scaled["spatial_scale"] = 0.5F;
  EXPECT_TRUE(Close(Apply(Call(scaled), {Image(), Floats({1, 4}, {0, 0, 8, 8}), kFirstItem}),
                    Floats({1, 1, 2, 2}, {2.5F, 4.5F, 10.5F, 12.5F}), Exact()));
}

TEST(RoiAlign, WithoutHalfAPixelCoordinatesCountFromTheCentres) {
  graph::Attributes one{{"sampling_ratio", int64_t{1}}};
  const std::vector<Tensor> inputs = {Image(), Floats({1, 4}, {1, 1, 3, 3}), kFirstItem};
  EXPECT_TRUE(Close(Apply(Call(one, 10), inputs), Floats({1, 1, 1, 1}, {10}), Exact()));
  EXPECT_TRUE(Close(Apply(Call(one, 16), inputs), Floats({1, 1, 1, 1}, {7.5F}), Exact()));
  one["coordinate_transformation_mode"] = "output_half_pixel";
  EXPECT_TRUE(Close(Apply(Call(one, 16), inputs), Floats({1, 1, 1, 1}, {10}), Exact()));
}

TEST(RoiAlign, TheMaximumIsOverWeightedElements) {
  const graph::Attributes max{{"mode", "max"}, {"sampling_ratio", int64_t{1}}};
  EXPECT_TRUE(Close(Apply(Call(max), {Image(), Floats({1, 4}, {1, 1, 3, 3}), kFirstItem}),
                    Floats({1, 1, 1, 1}, {2.5F}), Exact()))
      << "the place 1.5, 1.5 is a quarter of each of 5, 6, 9 and 10";
}

TEST(RoiAlign, RegionsBeyondTheImageAreZeroThereAndCostNoMore) {
  const std::vector<Tensor> far = {Image(), Floats({1, 4}, {100, 100, 200, 200}), kFirstItem};
  EXPECT_TRUE(Close(Apply(Call({}), far), Floats({1, 1, 1, 1}, {0}), Exact()));
  const std::vector<Tensor> huge = {Image(), Floats({1, 4}, {-1e9F, -1e9F, 1e9F, 1e9F}),
                                    kFirstItem};
  EXPECT_LT(Apply(Call({}), huge).data<float>()[0], 1e-6F);
  EXPECT_EQ(Apply(Call({{"mode", "max"}}), far).data<float>()[0], 0);
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(
      Apply(Call({}), {Image(), Floats({1, 4}, {kNaN, 0, 4, 4}), kFirstItem}).data<float>()[0], 0);
}

TEST(RoiAlign, EachRegionNamesItsImage) {
  const Tensor x = test::RandomFloats({3, 2, 5, 6}, 1);
  const Tensor regions = Floats({2, 4}, {0, 0, 3, 4, 1, 1, 6, 5});
  const graph::Attributes size{{"output_height", int64_t{2}}, {"output_width", int64_t{3}}};
  const Tensor y = Apply(Call(size), {x, regions, Tensor::Of<int64_t>({2}, {2, 0})});
  EXPECT_EQ(y.shape(), Shape({2, 2, 2, 3}));
  for (int64_t i = 0; i < 2; ++i) {
    const int64_t item = i == 0 ? 2 : 0;
    EXPECT_TRUE(
        Close(Apply(Call(size), {x.Rows(item, item + 1), regions.Rows(i, i + 1), kFirstItem}),
              y.Rows(i, i + 1), Exact()));
  }
  EXPECT_EQ(Apply(Call(size), {x, Floats({0, 4}, {}), Tensor::Of<int64_t>({0}, {})}).shape(),
            Shape({0, 2, 2, 3}));
}

TEST(RoiAlign, SaysWhatIsWrong) {
  const auto error = [](const test::OpCall& call, const std::vector<Tensor>& inputs) {
    const auto outputs = test::RunOp(call, inputs);
    return outputs.ok() ? "ok" : std::string(Message(outputs.status()));
  };
  const Tensor region = Floats({1, 4}, {0, 0, 1, 1});
  EXPECT_EQ(error(Call({}), {Image(), region, Tensor::Of<int64_t>({1}, {1})}),
            "element 0 of batch_indices is 1 where 0 to 0 are expected");
  EXPECT_EQ(error(Call({}), {Image(), region, Tensor::Of<int64_t>({2}, {0, 0})}),
            "input 2 (batch_indices) has shape [2] where [1] is expected");
  EXPECT_EQ(error(Call({}), {Image(), Floats({1, 5}, {0, 0, 0, 1, 1}), kFirstItem}),
            "input 1 (rois) has shape [1,5] where [regions,4] is expected");
  EXPECT_EQ(error(Call({{"mode", "sum"}}), {Image(), region, kFirstItem}),
            "attribute 'mode' is 'sum' where avg or max is expected");
  EXPECT_EQ(error(Call({{"output_width", int64_t{0}}}), {Image(), region, kFirstItem}),
            "attributes 'output_height' and 'output_width' are 1 and 0 where 1 to 32768 are "
            "expected");
}

}  // namespace
}  // namespace tandem
