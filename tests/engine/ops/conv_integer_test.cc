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

// A convolution: shapes of x and w, and for each spatial axis its numbers.
struct Case {
  Shape x, w;
  int64_t group = 1;
  Ints strides = {};
  Ints dilations = {};
  Ints pads = {};           // those before each axis, then those behind
  bool same_upper = false;  // the node says auto_pad where `pads` has what that means

  int axes() const { return x.rank() - 2; }
  int64_t stride(int axis) const { return strides.empty() ? 1 : strides[At(axis)]; }
  int64_t dilation(int axis) const { return dilations.empty() ? 1 : dilations[At(axis)]; }
  int64_t begin(int axis) const { return pads.empty() ? 0 : pads[At(axis)]; }
  int64_t end(int axis) const { return pads.empty() ? 0 : pads[At(axis + axes())]; }
  int64_t out(int axis) const {
    const int64_t window = (w[axis + 2] - 1) * dilation(axis) + 1;
    return (x[axis + 2] + begin(axis) + end(axis) - window) / stride(axis) + 1;
  }

  graph::Attributes attributes() const {
    graph::Attributes attributes = {{"group", group}};
    if (!strides.empty()) attributes["strides"] = strides;
    if (!dilations.empty()) attributes["dilations"] = dilations;
    if (same_upper) {
      attributes["auto_pad"] = std::string("SAME_UPPER");
    } else if (!pads.empty()) {
      attributes["pads"] = pads;
    }
    return attributes;
  }

 private:
  static size_t At(int i) { return static_cast<size_t>(i); }
};

std::vector<Case> Cases() {
  return {
      {.x = {2, 3, 7, 5}, .w = {4, 3, 3, 3}, .pads = {1, 0, 2, 1}},
      {.x = {1, 4, 6, 6}, .w = {6, 2, 3, 2}, .group = 2, .strides = {2, 1}},
      {.x = {3, 6, 9}, .w = {12, 1, 3}, .group = 6, .dilations = {2}, .pads = {2, 2}},
      {.x = {1, 2, 3, 4, 5}, .w = {3, 2, 2, 3, 2}, .pads = {0, 1, 0, 1, 1, 1}, .same_upper = true},
      {.x = {1, 700, 2, 2}, .w = {2, 700, 1, 1}},
      {.x = {1, 150, 3, 3}, .w = {2, 150, 3, 3}, .pads = {1, 1, 1, 1}},
  };
}

// One sum of the formula, at filter m and output pixel `at` of item n, in int64.
template <typename X, typename W>
int64_t SumAt(const Case& conv, const std::vector<Tensor>& inputs, int64_t n, int64_t m,
              const Ints& at) {
  const int64_t per_group = conv.w[1];
  const int64_t first = m / (conv.w[0] / conv.group) * per_group;
  const Tensor& w_zeros = inputs[3];
  const int64_t x_zero = inputs[2].data<X>()[0];
  const int64_t w_zero = w_zeros.data<W>()[w_zeros.elements() == 1 ? 0 : m];
  const int64_t taps = conv.w.Product(2, conv.w.rank());
  int64_t sum = 0;
  for (int64_t tap = 0; tap < taps; ++tap) {
    int64_t pixel = 0;
    int64_t pixels = 1;
    int64_t rest = tap;
    bool inside = true;
    for (int axis = conv.axes() - 1; axis >= 0; --axis) {
      const int64_t k = rest % conv.w[axis + 2];
      rest /= conv.w[axis + 2];
      const int64_t place = at[static_cast<size_t>(axis)] * conv.stride(axis) - conv.begin(axis) +
                            k * conv.dilation(axis);
      inside = inside && place >= 0 && place < conv.x[axis + 2];
      pixel += place * pixels;
      pixels *= conv.x[axis + 2];
    }
    if (!inside) continue;  // the padding is the zero point
    for (int64_t c = 0; c < per_group; ++c) {
      const int64_t x = inputs[0].data<X>()[(n * conv.x[1] + first + c) * pixels + pixel];
      const int64_t w = inputs[1].data<W>()[(m * per_group + c) * taps + tap];
      sum += (x - x_zero) * (w - w_zero);
    }
  }
  return sum;
}

// The sums of x, w and their zero points.
template <typename X, typename W>
Tensor Sums(const Case& conv, const std::vector<Tensor>& inputs) {
  Shape shape = {conv.x[0], conv.w[0]};
  for (int axis = 0; axis < conv.axes(); ++axis) shape.Append(conv.out(axis));
  Tensor y = *Tensor::Allocate(DType::kInt32, shape);
  Ints at(static_cast<size_t>(conv.axes()));
  for (int64_t i = 0; i < y.elements(); ++i) {
    int64_t rest = i;
    for (int axis = conv.axes() - 1; axis >= 0; --axis) {
      at[static_cast<size_t>(axis)] = rest % conv.out(axis);
      rest /= conv.out(axis);
    }
    y.mutable_data<int32_t>()[i] =
        static_cast<int32_t>(SumAt<X, W>(conv, inputs, rest / conv.w[0], rest % conv.w[0], at));
  }
  return y;
}

template <typename X, typename W>
void ExpectExactSums() {
  for (const Case& conv : Cases()) {
    for (const bool each : {false, true}) {
      const std::vector<Tensor> inputs = {RandomBytes<X>(conv.x, 1), RandomBytes<W>(conv.w, 2),
                                          RandomBytes<X>({}, 3),
                                          RandomBytes<W>(each ? Shape{conv.w[0]} : Shape{}, 4)};
      test::OpCall call{.op_type = "ConvInteger", .attributes = conv.attributes()};
      const Tensor expected = Sums<X, W>(conv, inputs);
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

// sum, rounded to even after the scales and moved by the zero point, in int64 and float.
template <typename Y>
Y Rounded(int64_t sum, float multiplier, Y zero) {
  const float value =
      std::nearbyint(static_cast<float>(sum) * multiplier) + static_cast<float>(zero);
  return static_cast<Y>(std::clamp(value, static_cast<float>(std::numeric_limits<Y>::lowest()),
                                   static_cast<float>(std::numeric_limits<Y>::max())));
}

// x with one scale and zero point, w with one or one for each filter, to 8 bits.
template <typename X, typename W, typename Y>
void ExpectRoundedSums(const Case& conv, bool each) {
  const int64_t filters = conv.w[0];
  const Shape ofw = each ? Shape{filters} : Shape{};
  const Tensor x = RandomBytes<X>(conv.x, 1);
  const Tensor w = RandomBytes<W>(conv.w, 2);
  const Tensor x_zero = RandomBytes<X>({}, 5);
  const Tensor w_zero = RandomBytes<W>(ofw, 3);
  const Tensor w_scale = test::RandomFloats(ofw, 4, 0.001f, 0.01f);
  const Tensor y_zero = RandomBytes<Y>({}, 6);
  Tensor bias = *Tensor::Allocate(DType::kInt32, {filters});
  for (int64_t m = 0; m < filters; ++m) {
    bias.mutable_data<int32_t>()[m] = static_cast<int32_t>(m * 1000 - 2000);
  }
  const Tensor sums = Sums<X, W>(conv, {x, w, x_zero, w_zero});
  Tensor expected = *Tensor::Allocate(kDTypeOf<Y>, sums.shape());
  const int64_t pixels = sums.shape().Product(2, sums.shape().rank());
  for (int64_t i = 0; i < sums.elements(); ++i) {
    const int64_t m = i / pixels % filters;
    const float multiplier = 0.02f * w_scale.data<float>()[each ? m : 0] / 0.5f;
    const int64_t sum = int64_t{sums.data<int32_t>()[i]} + bias.data<int32_t>()[m];
    expected.mutable_data<Y>()[i] = Rounded<Y>(sum, multiplier, y_zero.data<Y>()[0]);
  }
  test::OpCall call{.op_type = "QLinearConv", .attributes = conv.attributes()};
  for (const Isa isa : test::IsaLevels()) {
    call.isa = isa;
    EXPECT_TRUE(Close(Apply(call, {x, Tensor::Scalar<float>(0.02f), x_zero, w, w_scale, w_zero,
                                   Tensor::Scalar<float>(0.5f), y_zero, bias}),
                      expected, Exact()))
        << IsaName(isa) << " " << ToString(conv.x);
  }
}

TEST(QLinearConv, AddsTheBiasThenScalesRoundsToEvenAndSaturates) {
  for (const Case& conv : Cases()) {
    for (const bool each : {false, true}) {
      ExpectRoundedSums<uint8_t, int8_t, uint8_t>(conv, each);
      ExpectRoundedSums<uint8_t, uint8_t, int8_t>(conv, each);
      ExpectRoundedSums<int8_t, int8_t, int8_t>(conv, each);
      ExpectRoundedSums<int8_t, uint8_t, uint8_t>(conv, each);
    }
  }
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
      const Case conv = {
          .x = {2, channels, 5, 6}, .w = {filters, channels / group, 3, 3}, .group = group};
      const Tensor x = Near<uint8_t>(RandomBytes<uint8_t>(conv.x, 1), x_zero, 4);
      const Tensor w = Near<int8_t>(RandomBytes<int8_t>(conv.w, 2), w_zero, 2);
      Tensor w_scale = *Tensor::Allocate(DType::kFloat, {filters});
      Tensor bias = *Tensor::Allocate(DType::kInt32, {filters});
      for (int64_t m = 0; m < filters; ++m) {
        w_scale.mutable_data<float>()[m] = std::ldexp(1.0f, static_cast<int>(2 - m % 4));
        bias.mutable_data<int32_t>()[m] = static_cast<int32_t>(2 * (m % 11) - 9);
      }
      test::OpCall call{.op_type = "QLinearConv", .attributes = conv.attributes()};
      const Tensor sums = Sums<uint8_t, int8_t>(conv, {x, w, x_zero, w_zero});
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
