// QLinearAdd.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_bytes.h"

namespace tandem {
namespace {

using test::Apply;
using test::Close;
using test::Exact;
using test::RandomBytes;

struct Parameters {
  float a = 0.02f;
  float b = 0.03f;
  float y = 0.04f;
};

template <typename T>
std::vector<Tensor> InputsOf(const Tensor& a, const Tensor& b, const Parameters& scales) {
  return {a,
          Tensor::Scalar(scales.a),
          Tensor::Scalar<T>(3),
          b,
          Tensor::Scalar(scales.b),
          Tensor::Scalar<T>(100),
          Tensor::Scalar(scales.y),
          Tensor::Scalar<T>(10)};
}

test::OpCall AddOn(Isa isa) {
  return {.op_type = "QLinearAdd", .opset = 1, .domain = "com.microsoft", .isa = isa};
}

// What DequantizeLinear, Add and QuantizeLinear compute on the reference kernels.
Tensor ThroughFloats(const std::vector<Tensor>& in) {
  const test::OpCall dequantize{.op_type = "DequantizeLinear", .isa = Isa::kReference};
  const Tensor a = Apply(dequantize, {in[0], in[1], in[2]});
  const Tensor b = Apply(dequantize, {in[3], in[4], in[5]});
  const Tensor sum = Apply({.op_type = "Add", .isa = Isa::kReference}, {a, b});
  return Apply({.op_type = "QuantizeLinear", .isa = Isa::kReference}, {sum, in[6], in[7]});
}

template <typename T>
void ExpectAllPairs() {
  Tensor a = *Tensor::Allocate(kDTypeOf<T>, {256, 256});
  Tensor b = *Tensor::Allocate(kDTypeOf<T>, {256, 256});
  for (int64_t i = 0; i < a.elements(); ++i) {
    a.mutable_data<T>()[i] = static_cast<T>(i / 256);
    b.mutable_data<T>()[i] = static_cast<T>(i % 256);
  }
  // The second and third give many ties; the last ones have reciprocals that are no floats.
  for (const Parameters& scales :
       {Parameters(), Parameters{0.5f, 0.25f, 1}, Parameters{0.03f, 0.03f, 0.06f},
        Parameters{1, 1, 3}, Parameters{1e-39f, 1e-39f, 2e-39f}, Parameters{1e38f, 1e38f, 3e38f}}) {
    const std::vector<Tensor> inputs = InputsOf<T>(a, b, scales);
    const Tensor expected = ThroughFloats(inputs);
    for (const Isa isa : test::IsaLevels()) {
      EXPECT_TRUE(Close(Apply(AddOn(isa), inputs), expected, Exact()))
          << IsaName(isa) << " " << scales.a << " " << scales.b << " " << scales.y;
    }
  }
}

TEST(QLinearAdd, EveryPairOfBytesHasTheBitsOfTheSumOfFloats) {
  ExpectAllPairs<uint8_t>();
  ExpectAllPairs<int8_t>();
}

TEST(QLinearAdd, OperandsOfAnySizeBroadcast) {
  for (const auto& [left, right] : std::vector<std::pair<Shape, Shape>>{{{1}, {1}},
                                                                        {{15}, {15}},
                                                                        {{3, 17}, {17}},
                                                                        {{33}, {}},
                                                                        {{2, 1, 5}, {3, 1}},
                                                                        {{0}, {1}}}) {
    const std::vector<Tensor> inputs =
        InputsOf<uint8_t>(RandomBytes<uint8_t>(left, 1), RandomBytes<uint8_t>(right, 2), {});
    for (const Isa isa : test::IsaLevels()) {
      EXPECT_TRUE(Close(Apply(AddOn(isa), inputs), ThroughFloats(inputs), Exact()))
          << ToString(left) << " + " << ToString(right);
    }
  }
}

template <typename T>
void ExpectEveryLength() {
  for (int64_t n = 1; n <= 70; ++n) {
    for (const auto& [left, right] :
         {std::pair<Shape, Shape>{{2, n}, {2, n}}, {{3, n}, {1}}, {{1}, {3, n}}}) {
      const std::vector<Tensor> inputs =
          InputsOf<T>(RandomBytes<T>(left, 1), RandomBytes<T>(right, 2), {});
      const Tensor expected = ThroughFloats(inputs);
      for (const Isa isa : test::IsaLevels()) {
        ASSERT_TRUE(Close(Apply(AddOn(isa), inputs), expected, Exact()))
            << IsaName(isa) << " " << n;
      }
    }
  }
}

TEST(QLinearAdd, RowsOfEveryLengthHaveTheBitsOfTheSumOfFloats) {
  ExpectEveryLength<uint8_t>();
  ExpectEveryLength<int8_t>();
}

TEST(QLinearAdd, AnOmittedZeroPointOfTheResultIsZero) {
  std::vector<Tensor> inputs =
      InputsOf<uint8_t>(RandomBytes<uint8_t>({9}, 1), RandomBytes<uint8_t>({9}, 2), {});
  inputs[7] = Tensor::Scalar<uint8_t>(0);
  const Tensor expected = ThroughFloats(inputs);
  inputs.pop_back();
  EXPECT_TRUE(Close(Apply(AddOn(DetectIsa()), inputs), expected, Exact()));
}

TEST(QLinearAdd, WhatDoesNotFitIsRefused) {
  const auto error = [](const std::vector<Tensor>& inputs) {
    return std::string(Message(test::RunOp(AddOn(DetectIsa()), inputs).status()));
  };
  std::vector<Tensor> inputs =
      InputsOf<uint8_t>(RandomBytes<uint8_t>({9}, 1), RandomBytes<uint8_t>({9}, 2), {});
  inputs[4] = test::RandomFloats({9}, 1);
  EXPECT_EQ(error(inputs), "input 4 has shape [9] where one element is expected");
  inputs[3] = RandomBytes<int8_t>({9}, 1);
  EXPECT_THAT(error(inputs), testing::HasSubstr("input 3 is of type int8"));
}

}  // namespace
}  // namespace tandem
