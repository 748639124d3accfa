#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Close;
using test::Exact;

struct Quantised {
  Tensor y, scale, zero_point;
};
Quantised Quantise(const Tensor& x, int threads = 1) {
  const auto outputs =
      test::RunOp({.op_type = "DynamicQuantizeLinear", .outputs = 3, .threads = threads}, {x});
  CHECK(outputs.ok(), "{}", Message(outputs.status()));
  return {(*outputs)[0], (*outputs)[1], (*outputs)[2]};
}

TEST(DynamicQuantizeLinear, TiesGoToEvenInValuesAndInTheZeroPoint) {
  const Quantised values = Quantise(Tensor::Of<float>({3}, {-127, 128, 0.5f}));
  EXPECT_TRUE(Close(values.y, Tensor::Of<uint8_t>({3}, {0, 255, 127}), Exact()));
  EXPECT_TRUE(Close(values.scale, Tensor::Scalar<float>(1), Exact()));
  EXPECT_TRUE(Close(values.zero_point, Tensor::Scalar<uint8_t>(127), Exact()));
  // 253 / 2 = 126.5 steps.
  const Quantised tie = Quantise(Tensor::Of<float>({2}, {-253, 257}));
  EXPECT_TRUE(Close(tie.scale, Tensor::Scalar<float>(2), Exact()));
  EXPECT_TRUE(Close(tie.zero_point, Tensor::Scalar<uint8_t>(126), Exact()));
}

TEST(DynamicQuantizeLinear, TheRangeHoldsZero) {
  const Quantised positive = Quantise(Tensor::Of<float>({2}, {51, 255}));
  EXPECT_TRUE(Close(positive.y, Tensor::Of<uint8_t>({2}, {51, 255}), Exact()));
  EXPECT_TRUE(Close(positive.zero_point, Tensor::Scalar<uint8_t>(0), Exact()));
  const Quantised negative = Quantise(Tensor::Of<float>({2}, {-51, -255}));
  EXPECT_TRUE(Close(negative.y, Tensor::Of<uint8_t>({2}, {204, 0}), Exact()));
  EXPECT_TRUE(Close(negative.zero_point, Tensor::Scalar<uint8_t>(255), Exact()));
}

TEST(DynamicQuantizeLinear, ZerosAndNothingHaveScaleOne) {
  for (const Tensor& x : {Tensor::Of<float>({2}, {0, 0}), Tensor::Of<float>({0}, {})}) {
    const Quantised zeros = Quantise(x);
    EXPECT_EQ(zeros.y.shape(), x.shape());
    for (const uint8_t value : zeros.y.span<uint8_t>()) EXPECT_EQ(value, 0);
    EXPECT_TRUE(Close(zeros.scale, Tensor::Scalar<float>(1), Exact()));
    EXPECT_TRUE(Close(zeros.zero_point, Tensor::Scalar<uint8_t>(0), Exact()));
  }
}

TEST(DynamicQuantizeLinear, ThreadsDoNotChangeABit) {
  const Tensor x = test::RandomFloats({70001}, 1, -3, 2);
  const Quantised one = Quantise(x);
  const Quantised four = Quantise(x, 4);
  EXPECT_TRUE(Close(four.y, one.y, Exact()));
  EXPECT_TRUE(Close(four.scale, one.scale, Exact()));
  EXPECT_TRUE(Close(four.zero_point, one.zero_point, Exact()));
}

TEST(DynamicQuantizeLinear, OnlyFloatIsQuantised) {
  const auto y = test::RunOp({.op_type = "DynamicQuantizeLinear", .outputs = 3},
                             {Tensor::Of<double>({1}, {1})});
  EXPECT_EQ(Message(y.status()), "input 0 is of type double where one of float is expected");
}

}  // namespace
}  // namespace tandem
