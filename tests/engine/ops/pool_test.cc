#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using Ints = std::vector<int64_t>;

Tensor Arange(Shape shape, float start = 0) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<float>(i);
  return Tensor::Of<float>(shape, std::span<const float>(values));
}

Tensor Result(const test::OpCall& call, const Tensor& x, size_t port = 0) {
  const auto y = test::RunOp(call, {x});
  EXPECT_TRUE(y.ok()) << y.status();
  return y.ok() ? (*y)[port] : Tensor();
}

TEST(MaxPool, CeilModeDropsWindowsThatStartInThePadding) {
  const Tensor y = Result({.op_type = "MaxPool",
                           .opset = 14,
                           .attributes = {{"kernel_shape", Ints{3, 3, 3}},
                                          {"strides", Ints{3, 3, 3}},
                                          {"pads", Ints{1, 1, 1, 1, 1, 1}},
                                          {"ceil_mode", int64_t{1}}}},
                          test::RandomFloats({1, 2, 3, 6, 5}, 1));
  EXPECT_EQ(y.shape(), (Shape{1, 2, 2, 3, 2}));
}

TEST(MaxPool, IndicesCountThroughTheTensorInBothOrders) {
  const Tensor x = Tensor::Of<float>({1, 2, 2, 3}, {1, 5, 2, 5, 3, 4, 9, 8, 7, 6, 5, 9});
  test::OpCall call{.op_type = "MaxPool",
                    .opset = 12,
                    .attributes = {{"kernel_shape", Ints{2, 2}}},
                    .outputs = 2};
  EXPECT_TRUE(
      test::Close(Result(call, x), Tensor::Of<float>({1, 2, 1, 2}, {5, 5, 9, 9}), test::Exact()));
  EXPECT_TRUE(test::Close(Result(call, x, 1), Tensor::Of<int64_t>({1, 2, 1, 2}, {1, 1, 6, 11}),
                          test::Exact()));
  call.attributes["storage_order"] = int64_t{1};
  EXPECT_TRUE(test::Close(Result(call, x, 1), Tensor::Of<int64_t>({1, 2, 1, 2}, {2, 2, 6, 11}),
                          test::Exact()));
}

TEST(MaxPool, BytesAndHalves) {
  const test::OpCall call{.op_type = "MaxPool", .attributes = {{"kernel_shape", Ints{2}}}};
  EXPECT_TRUE(test::Close(Result(call, Tensor::Of<int8_t>({1, 1, 3}, {-128, -5, -7})),
                          Tensor::Of<int8_t>({1, 1, 2}, {-5, -5}), test::Exact()));
  EXPECT_TRUE(test::Close(Result(call, Tensor::Of<uint8_t>({1, 1, 3}, {0, 255, 7})),
                          Tensor::Of<uint8_t>({1, 1, 2}, {255, 255}), test::Exact()));
  const Tensor half = Tensor::Of<Float16>({1, 1, 3}, {ToFloat16(1), ToFloat16(-2), ToFloat16(3)});
  EXPECT_TRUE(test::Close(Result(call, half),
                          Tensor::Of<Float16>({1, 1, 2}, {ToFloat16(1), ToFloat16(3)}),
                          test::Exact()));
}

TEST(AveragePool, CeilModeCountsNoMoreThanThePadding) {
  for (const int opset : {10, 11, 18, 19, 22}) {
    const Tensor y = Result({.op_type = "AveragePool",
                             .opset = opset,
                             .attributes = {{"kernel_shape", Ints{3, 3}},
                                            {"strides", Ints{2, 2}},
                                            {"pads", Ints{1, 1, 1, 1}},
                                            {"ceil_mode", int64_t{1}},
                                            {"count_include_pad", int64_t{1}}}},
                            Arange({1, 1, 4, 4}, 1));
    EXPECT_TRUE(test::Close(
        y,
        Tensor::Of<float>({1, 1, 3, 3}, {14.0f / 9, 20.0f / 6, 2, 38.0f / 6, 11, 6, 4.5f, 7.5f, 4}),
        test::Ulp(1)))
        << "opset " << opset;
  }
}

TEST(AveragePool, SameLowerCountsItsPadding) {
  const Tensor y = Result({.op_type = "AveragePool",
                           .opset = 19,
                           .attributes = {{"kernel_shape", Ints{5, 1}},
                                          {"auto_pad", std::string("SAME_LOWER")},
                                          {"count_include_pad", int64_t{1}}}},
                          Arange({1, 1, 6, 2}));
  EXPECT_TRUE(test::Close(
      y,
      Tensor::Of<float>({1, 1, 6, 2}, {1.2f, 1.8f, 2.4f, 3.2f, 4, 5, 6, 7, 5.6f, 6.4f, 4.8f, 5.4f}),
      test::Ulp(2)));
}

TEST(AveragePool, LeavesThePaddingOutByDefault) {
  const Tensor y = Result({.op_type = "AveragePool",
                           .opset = 7,
                           .attributes = {{"kernel_shape", Ints{3}}, {"pads", Ints{1, 1}}}},
                          Arange({1, 1, 3}, 1));
  EXPECT_TRUE(test::Close(y, Tensor::Of<float>({1, 1, 3}, {1.5f, 2, 2.5f}), test::Exact()));
}

TEST(LpPool, TakesMagnitudes) {
  const Tensor y = Result({.op_type = "LpPool",
                           .opset = 18,
                           .attributes = {{"kernel_shape", Ints{2}}, {"p", int64_t{3}}}},
                          Tensor::Of<float>({1, 1, 4}, {-1, 2, -3, 4}));
  EXPECT_TRUE(test::Close(
      y, Tensor::Of<float>({1, 1, 3}, {std::cbrt(9.0f), std::cbrt(35.0f), std::cbrt(91.0f)}),
      test::Ulp(4)));
}

TEST(GlobalPool, ReducesEveryChannelOfAnyRank) {
  const Tensor x = Arange({2, 2, 3, 1, 1, 2});
  EXPECT_TRUE(test::Close(Result({.op_type = "GlobalAveragePool"}, x),
                          Tensor::Of<float>({2, 2, 1, 1, 1, 1}, {2.5f, 8.5f, 14.5f, 20.5f}),
                          test::Exact()));
  EXPECT_TRUE(test::Close(Result({.op_type = "GlobalMaxPool"}, x),
                          Tensor::Of<float>({2, 2, 1, 1, 1, 1}, {5, 11, 17, 23}), test::Exact()));
  EXPECT_TRUE(test::Close(Result({.op_type = "GlobalLpPool", .attributes = {{"p", int64_t{1}}}}, x),
                          Tensor::Of<float>({2, 2, 1, 1, 1, 1}, {15, 51, 87, 123}), test::Exact()));
}

TEST(Pool, RefusesWhatItCannotDo) {
  const auto error = [](const test::OpCall& call, const Tensor& x) {
    const auto y = test::RunOp(call, {x});
    return y.ok() ? std::string("ok") : std::string(Message(y.status()));
  };
  EXPECT_EQ(error({.op_type = "MaxPool"}, Arange({1, 1, 3})),
            "attribute 'kernel_shape' is missing or empty");
  EXPECT_EQ(error({.op_type = "MaxPool", .attributes = {{"kernel_shape", Ints{2, 2}}}},
                  Arange({1, 1, 3})),
            "the window has 2 axes where the input has 1 spatial axes");
  EXPECT_EQ(error({.op_type = "AveragePool", .attributes = {{"kernel_shape", Ints{2}}}},
                  Tensor::Of<int8_t>({1, 1, 2}, {1, 2})),
            "AveragePool of int8 is not supported");
  EXPECT_EQ(error({.op_type = "AveragePool",
                   .opset = 11,
                   .attributes = {{"kernel_shape", Ints{2}}, {"dilations", Ints{2}}}},
                  Arange({1, 1, 3})),
            "opset 11 of AveragePool has no attribute 'dilations' ([2])");
}

TEST(Pool, EmptyBatchesGiveEmptyOutputs) {
  EXPECT_EQ(
      Result({.op_type = "MaxPool", .attributes = {{"kernel_shape", Ints{2}}}}, Arange({0, 3, 5}))
          .shape(),
      (Shape{0, 3, 4}));
}

}  // namespace
}  // namespace tandem
