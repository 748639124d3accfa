// Affine, ImageScaler and Crop, which opset 10 took away.
#include <gtest/gtest.h>

#include "tests/support/bound_step.h"
#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Close;
using test::Exact;
using test::OpCall;
using test::RandomFloats;
using Ints = std::vector<int64_t>;

std::string ErrorOf(const OpCall& call, const Tensor& x) {
  return std::string(Message(test::RunOp(call, {x}).status()));
}

TEST(Affine, ScalesAndShiftsEveryElement) {
  const Tensor x = Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  for (const Isa isa : test::IsaLevels()) {
    const OpCall call{.op_type = "Affine",
                      .opset = 7,
                      .attributes = {{"alpha", 2.0f}, {"beta", 1.0f}},
                      .isa = isa};
    EXPECT_TRUE(
        Close(test::Apply(call, {x}), Tensor::Of<float>({2, 3}, {3, 5, 7, 9, 11, 13}), Exact()));
    EXPECT_TRUE(Close(test::Apply({.op_type = "Affine", .opset = 7, .isa = isa}, {x}), x, Exact()));
  }
  EXPECT_EQ(ErrorOf({.op_type = "Affine", .opset = 10}, x),
            "opset 10 has no Affine, which is gone since opset 10");
}

TEST(ImageScaler, ShiftsEveryChannelByItsBiasInEitherLayout) {
  const Shape shape{2, 3, 4, 5};
  const Tensor x = RandomFloats(shape, 1);
  const graph::Attributes attributes = {{"scale", 0.5f}, {"bias", std::vector<float>{1, 2, 3}}};
  Tensor expected = *Tensor::Allocate(DType::kFloat, shape);
  for (int64_t i = 0; i < x.elements(); ++i) {
    expected.mutable_data<float>()[i] =
        x.data<float>()[i] * 0.5f + static_cast<float>(i / 20 % 3 + 1);
  }
  for (const Isa isa : test::IsaLevels()) {
    EXPECT_TRUE(Close(
        test::Apply({.op_type = "ImageScaler", .opset = 7, .attributes = attributes, .isa = isa},
                    {x}),
        expected, Exact()));
    EXPECT_TRUE(Close(test::BindAndRun({.op_type = "ImageScaler",
                                        .opset = 7,
                                        .attributes = attributes,
                                        .out = shape,
                                        .isa = isa,
                                        .channels_last = test::kInputZero | test::kOutput},
                                       {x}),
                      expected, Exact()));
  }
  EXPECT_EQ(ErrorOf({.op_type = "ImageScaler",
                     .opset = 7,
                     .attributes = {{"bias", std::vector<float>{1, 2}}}},
                    x),
            "attribute 'bias' has 2 values, which are not the channels of float[2,3,4,5]");
}

TEST(Crop, CutsBordersOrAPartOfAGivenSize) {
  Tensor x = *Tensor::Allocate(DType::kFloat, {1, 2, 4, 5});
  for (int64_t i = 0; i < x.elements(); ++i) x.mutable_data<float>()[i] = static_cast<float>(i);
  // Left 1, top 2, right 2, bottom 1.
  OpCall call{.op_type = "Crop", .opset = 7, .attributes = {{"border", Ints{1, 2, 2, 1}}}};
  EXPECT_TRUE(
      Close(test::Apply(call, {x}), Tensor::Of<float>({1, 2, 1, 2}, {11, 12, 31, 32}), Exact()));
  call.attributes["scale"] = Ints{2, 1};
  EXPECT_TRUE(
      Close(test::Apply(call, {x}), Tensor::Of<float>({1, 2, 2, 1}, {11, 16, 31, 36}), Exact()));
  call.attributes["scale"] = Ints{3, 1};
  EXPECT_EQ(ErrorOf(call, x), "borders [1,2,2,1] leave nothing of axis 2 of float[1,2,4,5]");
  EXPECT_EQ(
      ErrorOf({.op_type = "Crop", .opset = 7, .attributes = {{"border", Ints{0, 3, 0, 2}}}}, x),
      "borders [0,3,0,2] leave nothing of axis 2 of float[1,2,4,5]");
  EXPECT_EQ(ErrorOf({.op_type = "Crop", .opset = 7, .attributes = {{"border", Ints{0, 3}}}}, x),
            "attribute 'border' is [0,3] where 4 values >= 0 are expected");
}

}  // namespace
}  // namespace tandem
