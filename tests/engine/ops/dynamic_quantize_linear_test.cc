#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

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
Quantised Quantise(const Tensor& x, int threads = 1, Isa isa = DetectIsa()) {
  const auto outputs = test::RunOp(
      {.op_type = "DynamicQuantizeLinear", .outputs = 3, .isa = isa, .threads = threads}, {x});
  CHECK(outputs.ok(), "{}", Message(outputs.status()));
  return {(*outputs)[0], (*outputs)[1], (*outputs)[2]};
}

// The whole number nearest to `value`, the even one of two.
double HalfToEven(double value) {
  const double below = std::floor(value);
  const double rest = value - below;
  if (rest != 0.5) return rest < 0.5 ? below : below + 1;
  return 2 * std::floor(below / 2 + 0.5);
}

// What the operator's page says, for a range that is not empty: numbers are divided in float,
// rounded and only then moved by the zero point.
Quantised Formula(const Tensor& x) {
  float low = 0;
  float high = 0;
  for (const float value : x.span<float>()) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  const float scale = (high - low) / 255;
  const double zero = std::clamp(HalfToEven(double{-low / scale}), 0.0, 255.0);
  Tensor y = *Tensor::Allocate(DType::kUint8, x.shape());
  for (int64_t i = 0; i < x.elements(); ++i) {
    const double steps = HalfToEven(double{x.data<float>()[i] / scale});
    y.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(std::clamp(steps + zero, 0.0, 255.0));
  }
  return {y, Tensor::Scalar(scale), Tensor::Scalar(static_cast<uint8_t>(zero))};
}

void ExpectFormula(const Tensor& x) {
  const Quantised expected = Formula(x);
  for (const Isa isa : test::IsaLevels()) {
    for (const int threads : {1, 3}) {
      const Quantised actual = Quantise(x, threads, isa);
      EXPECT_TRUE(Close(actual.y, expected.y, Exact())) << IsaName(isa) << " " << x.elements();
      EXPECT_TRUE(Close(actual.scale, expected.scale, Exact())) << IsaName(isa);
      EXPECT_TRUE(Close(actual.zero_point, expected.zero_point, Exact())) << IsaName(isa);
    }
  }
}

TEST(DynamicQuantizeLinear, EveryNumberOfElementsFollowsTheFormula) {
  for (int64_t n = 1; n <= 70; ++n) {
    const auto seed = static_cast<uint32_t>(n);
    ExpectFormula(test::RandomFloats({n}, seed, -3, 2));
    ExpectFormula(test::RandomFloats({n}, seed, 0.5f, 2));
    ExpectFormula(test::RandomFloats({n}, seed, -200, -1));
    // Halves of steps: the range is 255 steps of 2.
    Tensor ties = test::RandomWholeFloats({n + 2}, seed, -100, 400);
    ties.mutable_data<float>()[n / 2] = -103;
    ties.mutable_data<float>()[n + 1] = 407;
    ExpectFormula(ties);
  }
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
