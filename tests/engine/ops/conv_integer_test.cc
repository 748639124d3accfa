// ConvInteger and QLinearConv.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_bytes.h"

namespace tandem {
namespace {

using test::Apply;
using test::Close;
using test::Exact;
using test::RandomBytes;
using testing::HasSubstr;
using Ints = std::vector<int64_t>;

// The same elements as double, less their zero points: Conv in double is exact for them.
template <typename T>
Tensor Centred(const Tensor& bytes, const Tensor& zero) {
  Tensor y = *Tensor::Allocate(DType::kDouble, bytes.shape());
  const int64_t each = bytes.elements() / bytes.shape()[0];
  for (int64_t i = 0; i < y.elements(); ++i) {
    const T z = zero.data<T>()[zero.elements() == 1 ? 0 : i / each];
    y.mutable_data<double>()[i] = static_cast<double>(bytes.data<T>()[i]) - z;
  }
  return y;
}

template <typename X, typename W>
Tensor Sums(const test::OpCall& call, const std::vector<Tensor>& inputs) {
  test::OpCall conv = call;
  conv.op_type = "Conv";
  const Tensor sums =
      Apply(conv, {Centred<X>(inputs[0], inputs[2]), Centred<W>(inputs[1], inputs[3])});
  Tensor y = *Tensor::Allocate(DType::kInt32, sums.shape());
  for (int64_t i = 0; i < y.elements(); ++i) {
    y.mutable_data<int32_t>()[i] = static_cast<int32_t>(sums.data<double>()[i]);
  }
  return y;
}

struct Case {
  Shape x, w;
  graph::Attributes attributes;
};

std::vector<Case> Cases() {
  const int64_t two = 2;
  const int64_t six = 6;
  return {
      {{2, 3, 7, 5}, {4, 3, 3, 3}, {{"pads", Ints{1, 0, 2, 1}}}},
      {{1, 4, 6, 6}, {6, 2, 3, 2}, {{"group", two}, {"strides", Ints{2, 1}}}},
      {{3, 6, 9}, {12, 1, 3}, {{"group", six}, {"dilations", Ints{2}}, {"pads", Ints{2, 2}}}},
      {{1, 2, 3, 4, 5}, {3, 2, 2, 3, 2}, {{"auto_pad", std::string("SAME_UPPER")}}},
      {{1, 700, 2, 2}, {2, 700, 1, 1}, {}},
      {{1, 150, 3, 3}, {2, 150, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}}},
  };
}

template <typename X, typename W>
void ExpectExactSums() {
  for (const Case& conv : Cases()) {
    for (const bool each : {false, true}) {
      const std::vector<Tensor> inputs = {RandomBytes<X>(conv.x, 1), RandomBytes<W>(conv.w, 2),
                                          RandomBytes<X>({}, 3),
                                          RandomBytes<W>(each ? Shape{conv.w[0]} : Shape{}, 4)};
      test::OpCall call{.op_type = "ConvInteger", .attributes = conv.attributes};
      const Tensor expected = Sums<X, W>(call, inputs);
      for (const int threads : {1, 3}) {
        call.threads = threads;
        EXPECT_TRUE(Close(Apply(call, inputs), expected, Exact())) << ToString(conv.x);
      }
    }
  }
}

TEST(ConvInteger, EverySignGivesTheExactSumsWithZeroPointsOfEveryFilter) {
  ExpectExactSums<uint8_t, uint8_t>();
  ExpectExactSums<uint8_t, int8_t>();
  ExpectExactSums<int8_t, uint8_t>();
  ExpectExactSums<int8_t, int8_t>();
}

TEST(ConvInteger, ThePaddingCountsAsTheZeroPoint) {
  const Tensor x = Tensor::Of<uint8_t>({1, 1, 1}, {7});
  const Tensor w = Tensor::Of<uint8_t>({1, 1, 3}, {1, 2, 3});
  const test::OpCall call{.op_type = "ConvInteger", .attributes = {{"pads", Ints{1, 1}}}};
  EXPECT_TRUE(Close(Apply(call, {x, w, Tensor::Scalar<uint8_t>(5)}),
                    Tensor::Of<int32_t>({1, 1, 1}, {4}), Exact()));
  EXPECT_TRUE(Close(Apply(call, {x, w}), Tensor::Of<int32_t>({1, 1, 1}, {14}), Exact()));
}

TEST(QLinearConv, AddsTheBiasThenScalesRoundsToEvenAndSaturates) {
  for (const Case& conv : Cases()) {
    const int64_t filters = conv.w[0];
    const Tensor x = RandomBytes<uint8_t>(conv.x, 1);
    const Tensor w = RandomBytes<int8_t>(conv.w, 2);
    const Tensor x_zero = Tensor::Scalar<uint8_t>(131);
    const Tensor w_zero = RandomBytes<int8_t>({filters}, 3);
    const Tensor w_scale = test::RandomFloats({filters}, 4, 0.001f, 0.01f);
    Tensor bias = *Tensor::Allocate(DType::kInt32, {filters});
    for (int64_t m = 0; m < filters; ++m) {
      bias.mutable_data<int32_t>()[m] = static_cast<int32_t>(m * 1000 - 2000);
    }
    const test::OpCall call{.op_type = "QLinearConv", .attributes = conv.attributes};
    const Tensor sums = Sums<uint8_t, int8_t>(call, {x, w, x_zero, w_zero});
    Tensor expected = *Tensor::Allocate(DType::kUint8, sums.shape());
    const int64_t pixels = sums.shape().Product(2, sums.shape().rank());
    for (int64_t i = 0; i < sums.elements(); ++i) {
      const int64_t m = i / pixels % filters;
      const float multiplier = 0.02f * w_scale.data<float>()[m] / 0.5f;
      const int32_t sum = sums.data<int32_t>()[i] + bias.data<int32_t>()[m];
      const float value = std::nearbyint(static_cast<float>(sum) * multiplier) + 100;
      expected.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(std::clamp(value, 0.f, 255.f));
    }
    EXPECT_TRUE(
        Close(Apply(call, {x, Tensor::Scalar<float>(0.02f), x_zero, w, w_scale, w_zero,
                           Tensor::Scalar<float>(0.5f), Tensor::Scalar<uint8_t>(100), bias}),
              expected, Exact()))
        << ToString(conv.x);
  }
}

TEST(ConvInteger, ItemsOfABatchHaveTheBitsOfSingleRuns) {
  const Tensor x = RandomBytes<uint8_t>({3, 4, 5, 5}, 1);
  const Tensor w = RandomBytes<int8_t>({6, 4, 3, 3}, 2);
  const Tensor whole = Apply({.op_type = "ConvInteger"}, {x, w});
  for (int64_t item = 0; item < 3; ++item) {
    EXPECT_TRUE(Close(Apply({.op_type = "ConvInteger"}, {x.Rows(item, item + 1), w}),
                      whole.Rows(item, item + 1), Exact()));
  }
}

TEST(ConvInteger, WhatDoesNotFitIsRefused) {
  const auto error = [](const std::string& op, const std::vector<Tensor>& inputs) {
    return std::string(Message(test::RunOp({.op_type = op}, inputs).status()));
  };
  const Tensor x = RandomBytes<uint8_t>({1, 2, 3, 3}, 1);
  const Tensor w = RandomBytes<uint8_t>({4, 2, 1, 1}, 1);
  EXPECT_THAT(error("ConvInteger", {test::RandomFloats({1, 2, 3, 3}, 1), w}),
              HasSubstr("input 0 is of type float"));
  EXPECT_EQ(error("ConvInteger", {x, w, RandomBytes<uint8_t>({2}, 1)}),
            "input 2 has shape [2] where one element is expected");
  EXPECT_EQ(error("ConvInteger", {x, w, Tensor(), RandomBytes<uint8_t>({3}, 1)}),
            "input 3 has shape [3] where one element or [4] is expected");
  const Tensor one = Tensor::Scalar<float>(1);
  const Tensor zero = Tensor::Scalar<uint8_t>(0);
  EXPECT_EQ(error("QLinearConv",
                  {x, one, zero, w, one, zero, one, zero, Tensor::Of<int32_t>({2}, {1, 2})}),
            "B has shape [2] where [4] is expected");
}

}  // namespace
}  // namespace tandem
