// ConvInteger and QLinearConv.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/ops/registry.h"
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
      for (const Isa isa : test::IsaLevels()) {
        call.isa = isa;
        for (const int threads : {1, 3}) {
          call.threads = threads;
          EXPECT_TRUE(Close(Apply(call, inputs), expected, Exact()))
              << IsaName(isa) << " " << ToString(conv.x);
        }
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

// sum, rounded to even after the scales and moved by the zero point, in int64 and float.
template <typename Y>
Y Rounded(int64_t sum, float multiplier, Y zero) {
  const float value =
      std::nearbyint(static_cast<float>(sum) * multiplier) + static_cast<float>(zero);
  return static_cast<Y>(std::clamp(value, static_cast<float>(std::numeric_limits<Y>::lowest()),
                                   static_cast<float>(std::numeric_limits<Y>::max())));
}

// The same bytes within `most` of the zero point of their row.
template <typename T>
Tensor Near(Tensor bytes, const Tensor& zero, int most) {
  const int64_t each = bytes.elements() / bytes.shape()[0];
  for (int64_t i = 0; i < bytes.elements(); ++i) {
    T& byte = bytes.mutable_data<T>()[i];
    const int z = zero.data<T>()[zero.elements() == 1 ? 0 : i / each];
    const int step = static_cast<uint8_t>(byte) % (2 * most) - most;
    byte = static_cast<T>(
        std::clamp<int>(z + step, std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max()));
  }
  return bytes;
}

// Scales are powers of two and sums small, so that many results are ties.
TEST(QLinearConv, EachFilterHasItsScaleZeroPointAndBiasAndTiesGoToEven) {
  for (const int64_t filters : {1, 4, 12, 24, 72, 88, 120}) {
    for (const int64_t group : {int64_t{1}, filters}) {
      const int64_t channels = group == 1 ? 20 : filters;
      const Tensor x_zero = Tensor::Scalar<uint8_t>(131);
      const Tensor w_zero = RandomBytes<int8_t>({filters}, 3);
      const Tensor x = Near<uint8_t>(RandomBytes<uint8_t>({2, channels, 5, 6}, 1), x_zero, 4);
      const Tensor w =
          Near<int8_t>(RandomBytes<int8_t>({filters, channels / group, 3, 3}, 2), w_zero, 2);
      Tensor w_scale = *Tensor::Allocate(DType::kFloat, {filters});
      Tensor bias = *Tensor::Allocate(DType::kInt32, {filters});
      for (int64_t m = 0; m < filters; ++m) {
        w_scale.mutable_data<float>()[m] = std::ldexp(1.0f, static_cast<int>(2 - m % 4));
        bias.mutable_data<int32_t>()[m] = static_cast<int32_t>(2 * (m % 11) - 9);
      }
      test::OpCall call{.op_type = "QLinearConv", .attributes = {{"group", group}}};
      const Tensor sums = Sums<uint8_t, int8_t>(call, {x, w, x_zero, w_zero});
      Tensor expected = *Tensor::Allocate(DType::kInt8, sums.shape());
      int64_t ties = 0;
      for (int64_t i = 0; i < sums.elements(); ++i) {
        const int64_t m = i / (3 * 4) % filters;
        const float multiplier = 0.5f * w_scale.data<float>()[m] / 4.0f;
        const int64_t sum = int64_t{sums.data<int32_t>()[i]} + bias.data<int32_t>()[m];
        const float scaled = static_cast<float>(sum) * multiplier;
        ties += scaled - std::floor(scaled) == 0.5f ? 1 : 0;
        expected.mutable_data<int8_t>()[i] = Rounded<int8_t>(sum, multiplier, -7);
      }
      EXPECT_GT(ties, 0);
      for (const Isa isa : test::IsaLevels()) {
        call.isa = isa;
        EXPECT_TRUE(Close(Apply(call, {x, Tensor::Scalar<float>(0.5f), x_zero, w, w_scale, w_zero,
                                       Tensor::Scalar<float>(4), Tensor::Scalar<int8_t>(-7), bias}),
                          expected, Exact()))
            << IsaName(isa) << ", " << filters << " filters, group " << group;
      }
    }
  }
}

TEST(QLinearConv, AClipBehindItBoundsTheResult) {
  const Tensor x = RandomBytes<uint8_t>({1, 20, 5, 5}, 1);
  const Tensor w = RandomBytes<int8_t>({6, 20, 3, 3}, 2);
  const std::vector<Tensor> inputs = {x,
                                      Tensor::Scalar<float>(0.02f),
                                      Tensor::Scalar<uint8_t>(120),
                                      w,
                                      Tensor::Scalar<float>(0.01f),
                                      Tensor::Scalar<int8_t>(0),
                                      Tensor::Scalar<float>(0.5f),
                                      Tensor::Scalar<uint8_t>(100)};
  const Tensor plain = Apply({.op_type = "QLinearConv"}, inputs);
  graph::Node node;
  node.op_type = "QLinearConv";
  node.opset = 17;
  node.outputs = {1000};
  for (int port = 0; port < 8; ++port) node.inputs.push_back(port);
  node.op = *ops::ParseNode(node);
  graph::EpilogueStage clip;
  clip.op = "Clip";
  clip.attributes = {{"min", 90.0f}, {"max", 130.0f}};
  node.epilogue = {clip};
  const std::vector<Tensor> bounded =
      *ops::Evaluate(node, inputs, DetectIsa(), SequentialParallel());
  bool cuts = false;
  for (int64_t i = 0; i < plain.elements(); ++i) {
    const uint8_t y = plain.data<uint8_t>()[i];
    cuts = cuts || y < 90 || y > 130;
    EXPECT_EQ(bounded[0].data<uint8_t>()[i], std::clamp<uint8_t>(y, 90, 130));
  }
  EXPECT_TRUE(cuts);
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
