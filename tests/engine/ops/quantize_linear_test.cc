// QuantizeLinear and DequantizeLinear.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/ops/operator.h"
#include "engine/ops/registry.h"
#include "tests/support/bound_step.h"
#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Apply;
using test::Close;
using test::Exact;

// A tensor of packed elements of 2 or 4 bits.
Tensor Packed(DType dtype, const Shape& shape, const std::vector<int>& values) {
  Tensor tensor = *Tensor::Allocate(dtype, shape);
  auto* bytes = static_cast<uint8_t*>(tensor.mutable_view().mutable_raw());
  std::fill_n(bytes, tensor.view().byte_size(), uint8_t{0});
  const size_t bits = DTypeBits(dtype);
  for (size_t i = 0; i < values.size(); ++i) {
    const unsigned kept = static_cast<unsigned>(values[i]) & ((1U << bits) - 1);
    bytes[i * bits / 8] |= static_cast<uint8_t>(kept << (i * bits % 8));
  }
  return tensor;
}

TEST(QuantizeLinear, RoundsTiesToEvenAndSaturates) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::Of<float>(
      {11}, {0, 1, 2, 3, -1, -3, 1000, -1000, infinity, -infinity, std::nanf("")});
  const Tensor scale = Tensor::Scalar<float>(2);
  // Halves of 1 and 3 are 0.5 and 1.5: 0 and 2.
  EXPECT_TRUE(Close(Apply({.op_type = "QuantizeLinear"}, {x, scale}),
                    Tensor::Of<uint8_t>({11}, {0, 0, 1, 2, 0, 0, 255, 0, 255, 0, 0}), Exact()));
  // The zero point is added after rounding.
  EXPECT_TRUE(Close(Apply({.op_type = "QuantizeLinear"}, {x, scale, Tensor::Scalar<uint8_t>(129)}),
                    Tensor::Of<uint8_t>({11}, {129, 129, 130, 131, 129, 127, 255, 0, 255, 0, 129}),
                    Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "QuantizeLinear"}, {x, scale, Tensor::Scalar<int8_t>(-3)}),
                    Tensor::Of<int8_t>({11}, {-3, -3, -2, -1, -3, -5, 127, -128, 127, -128, -3}),
                    Exact()));
  EXPECT_TRUE(Close(
      Apply({.op_type = "QuantizeLinear", .opset = 21},
            {x, Tensor::Scalar<float>(0.01f), Tensor::Scalar<int16_t>(7)}),
      Tensor::Of<int16_t>({11}, {7, 107, 207, 307, -93, -293, 32767, -32768, 32767, -32768, 7}),
      Exact()));
}

TEST(QuantizeLinear, HalvesAreRoundedAfterTheDivision) {
  const Tensor x = Tensor::Of<Float16>({2}, {ToFloat16(0.05002f), ToFloat16(-0.05002f)});
  const Tensor scale = Tensor::Scalar<Float16>(ToFloat16(0.09998f));
  EXPECT_TRUE(Close(
      Apply({.op_type = "QuantizeLinear", .opset = 19}, {x, scale, Tensor::Scalar<int8_t>(0)}),
      Tensor::Of<int8_t>({2}, {1, -1}), Exact()));
}

TEST(QuantizeLinear, Int32IsDividedWithoutLossOfPrecision) {
  const Tensor x = Tensor::Of<int32_t>({3}, {16777217, -16777217, 5});
  EXPECT_TRUE(Close(Apply({.op_type = "QuantizeLinear", .opset = 21},
                          {x, Tensor::Scalar<float>(2048), Tensor::Scalar<int16_t>(0)}),
                    Tensor::Of<int16_t>({3}, {8192, -8192, 0}), Exact()));
}

// What belongs to element `i` of a tensor with `axis` in blocks (0: per axis).
struct Blocks {
  Shape x;
  int axis;
  int64_t block;

  int64_t extent() const { return (x[axis] + block - 1) / block; }
  Shape Scales() const {
    if (block == 0) return {x[axis]};
    Shape scales;
    for (int i = 0; i < x.rank(); ++i) scales.Append(i == axis ? extent() : x[i]);
    return scales;
  }
  int64_t Of(int64_t i) const {
    const int64_t inner = x.Product(axis + 1, x.rank());
    const int64_t along = i / inner % x[axis];
    if (block == 0) return along;
    return (i / inner / x[axis] * extent() + along / block) * inner + i % inner;
  }
};

TEST(QuantizeLinear, AnAxisOrBlocksOfItHaveScalesAndZeroPointsOfTheirOwn) {
  for (const Blocks& blocks :
       {Blocks{{3, 5, 7}, 1, 0}, Blocks{{3, 5, 7}, 2, 0}, Blocks{{3, 5, 7}, 0, 0},
        Blocks{{3, 5, 7}, 1, 2}, Blocks{{3, 5, 7}, 2, 3}, Blocks{{4, 6}, 0, 2},
        Blocks{{2, 3, 17, 4}, 1, 0}, Blocks{{1}, 0, 1}}) {
    const Tensor x = test::RandomFloats(blocks.x, 1, -20, 20);
    const Tensor scale = test::RandomFloats(blocks.Scales(), 2, 0.05f, 1);
    Tensor zero = *Tensor::Allocate(DType::kInt8, blocks.Scales());
    for (int64_t i = 0; i < zero.elements(); ++i) {
      zero.mutable_data<int8_t>()[i] = static_cast<int8_t>(i % 11 - 5);
    }
    Tensor quantised = *Tensor::Allocate(DType::kInt8, blocks.x);
    Tensor back = *Tensor::Allocate(DType::kFloat, blocks.x);
    for (int64_t i = 0; i < x.elements(); ++i) {
      const float s = scale.data<float>()[blocks.Of(i)];
      const int8_t z = zero.data<int8_t>()[blocks.Of(i)];
      const float rounded = std::nearbyint(x.data<float>()[i] / s) + static_cast<float>(z);
      const auto q = static_cast<int8_t>(std::clamp(rounded, -128.0f, 127.0f));
      quantised.mutable_data<int8_t>()[i] = q;
      back.mutable_data<float>()[i] = static_cast<float>(q - z) * s;
    }
    graph::Attributes attributes = {{"axis", static_cast<int64_t>(blocks.axis - blocks.x.rank())}};
    if (blocks.block > 0) attributes["block_size"] = blocks.block;
    for (const int opset : {13, 19, 21, 23, 25}) {
      if (blocks.block > 0 && opset < 21) continue;
      for (const int threads : {1, 4}) {
        const Tensor y = Apply({.op_type = "QuantizeLinear",
                                .opset = opset,
                                .attributes = attributes,
                                .threads = threads},
                               {x, scale, zero});
        EXPECT_TRUE(Close(y, quantised, Exact())) << ToString(blocks.x) << " " << blocks.axis;
        const Tensor z = Apply({.op_type = "DequantizeLinear",
                                .opset = opset,
                                .attributes = attributes,
                                .threads = threads},
                               {quantised, scale, zero});
        EXPECT_TRUE(Close(z, back, Exact())) << ToString(blocks.x) << " " << blocks.axis;
      }
    }
  }
}

TEST(DequantizeLinear, ChannelsLastHasTheBitsOfNative) {
  const Shape shape = {2, 5, 3, 4};
  Tensor x = *Tensor::Allocate(DType::kInt32, shape);
  for (int64_t i = 0; i < x.elements(); ++i) {
    x.mutable_data<int32_t>()[i] = static_cast<int32_t>(i * 37 % 101 - 50);
  }
  const Tensor scale = test::RandomFloats({5}, 2, 0.05f, 1);
  const Tensor zero = Tensor::Of<int32_t>({5}, {1, -2, 3, 0, 5});
  test::BoundCall call{.op_type = "DequantizeLinear", .out = shape, .own_inputs = 3};
  const Tensor native = test::BindAndRun(call, {x, scale, zero});
  EXPECT_TRUE(Close(native, Apply({.op_type = "DequantizeLinear"}, {x, scale, zero}), Exact()));
  call.channels_last = test::kInputZero | test::kOutput;
  EXPECT_TRUE(Close(test::BindAndRun(call, {x, scale, zero}), native, Exact()));
}

TEST(QuantizeLinear, PackedIntegersSaturateAtTheirOwnBounds) {
  const Tensor x = Tensor::Of<float>({7}, {-100, -9, -2, 0.5f, 1.5f, 7, 100});
  const Tensor scale = Tensor::Scalar<float>(1);
  const auto quantise = [&](DType dtype, int zero) {
    return Apply({.op_type = "QuantizeLinear", .opset = 25}, {x, scale, Packed(dtype, {}, {zero})});
  };
  EXPECT_TRUE(Close(quantise(DType::kInt4, 1), Packed(DType::kInt4, {7}, {-8, -8, -1, 1, 3, 7, 7}),
                    Exact()));
  EXPECT_TRUE(Close(quantise(DType::kUint4, 9),
                    Packed(DType::kUint4, {7}, {0, 0, 7, 9, 11, 15, 15}), Exact()));
  EXPECT_TRUE(Close(quantise(DType::kInt2, 0), Packed(DType::kInt2, {7}, {-2, -2, -2, 0, 1, 1, 1}),
                    Exact()));
  EXPECT_TRUE(Close(quantise(DType::kUint2, 1), Packed(DType::kUint2, {7}, {0, 0, 0, 1, 3, 3, 3}),
                    Exact()));
}

TEST(QuantizeLinear, WithoutAZeroPointTheAttributeNamesTheType) {
  const Tensor x = Tensor::Of<float>({3}, {-300, 2, 300});
  const auto quantise = [&](DType dtype) {
    return Apply({.op_type = "QuantizeLinear",
                  .opset = 21,
                  .attributes = {{"output_dtype", static_cast<int64_t>(dtype)}}},
                 {x, Tensor::Scalar<float>(1)});
  };
  EXPECT_TRUE(Close(quantise(DType::kInt8), Tensor::Of<int8_t>({3}, {-128, 2, 127}), Exact()));
  EXPECT_TRUE(Close(quantise(DType::kUint16), Tensor::Of<uint16_t>({3}, {0, 2, 300}), Exact()));
  EXPECT_TRUE(Close(quantise(DType::kInt4), Packed(DType::kInt4, {3}, {-8, 2, 7}), Exact()));
}

TEST(DequantizeLinear, SubtractsTheZeroPointBeforeItScales) {
  const Tensor scale = Tensor::Scalar<float>(0.5f);
  EXPECT_TRUE(
      Close(Apply({.op_type = "DequantizeLinear", .opset = 10},
                  {Tensor::Of<uint8_t>({3}, {0, 128, 255}), scale, Tensor::Scalar<uint8_t>(128)}),
            Tensor::Of<float>({3}, {-64, 0, 63.5f}), Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "DequantizeLinear"},
                          {Tensor::Of<int32_t>({2}, {-2147483647 - 1, 3}), scale}),
                    Tensor::Of<float>({2}, {-1073741824, 1.5f}), Exact()));
  EXPECT_TRUE(
      Close(Apply({.op_type = "DequantizeLinear", .opset = 21},
                  {Packed(DType::kInt4, {3}, {-8, 0, 7}), scale, Packed(DType::kInt4, {}, {-1})}),
            Tensor::Of<float>({3}, {-3.5f, 0.5f, 4}), Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "DequantizeLinear", .opset = 21},
                          {Packed(DType::kUint4, {2}, {15, 1}), scale}),
                    Tensor::Of<float>({2}, {7.5f, 0.5f}), Exact()));
}

TEST(DequantizeLinear, TheScaleOrTheAttributeGivesTheType) {
  const Tensor x = Tensor::Of<int8_t>({2}, {-3, 4});
  const Tensor half = Tensor::Scalar<Float16>(ToFloat16(0.5f));
  EXPECT_TRUE(Close(Apply({.op_type = "DequantizeLinear", .opset = 19}, {x, half}),
                    Tensor::Of<Float16>({2}, {ToFloat16(-1.5f), ToFloat16(2)}), Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "DequantizeLinear",
                           .opset = 23,
                           .attributes = {{"output_dtype", int64_t{1}}}},
                          {x, half}),
                    Tensor::Of<float>({2}, {-1.5f, 2}), Exact()));
}

std::string ErrorOf(const test::OpCall& call, const std::vector<Tensor>& inputs) {
  return std::string(Message(test::RunOp(call, inputs).status()));
}

TEST(QuantizeLinear, WhatItCannotDoIsRefusedByName) {
  const Tensor x = test::RandomFloats({2, 3}, 1);
  const Tensor scale = Tensor::Scalar<float>(1);
  EXPECT_EQ(ErrorOf({.op_type = "QuantizeLinear", .opset = 19},
                    {x, scale, *Tensor::Allocate(DType::kFloat8E4M3Fn, {})}),
            "QuantizeLinear of float to float8e4m3fn is not supported");
  EXPECT_EQ(ErrorOf({.op_type = "DequantizeLinear", .opset = 23},
                    {*Tensor::Allocate(DType::kFloat4E2M1, {2}), scale}),
            "DequantizeLinear of float4e2m1 to float is not supported");
  EXPECT_EQ(
      ErrorOf({.op_type = "QuantizeLinear", .opset = 12, .attributes = {{"axis", int64_t{1}}}},
              {x, scale}),
      "opset 12 of QuantizeLinear has no attribute 'axis' (1)");
  EXPECT_EQ(
      ErrorOf(
          {.op_type = "QuantizeLinear", .opset = 21, .attributes = {{"block_size", int64_t{-1}}}},
          {x, scale}),
      "attribute 'block_size' is -1 where at least 0 is expected");
  EXPECT_EQ(ErrorOf({.op_type = "QuantizeLinear"}, {x, test::RandomFloats({2}, 2)}),
            "the scale (input 1) has shape [2] where [3] is expected for x [2,3]");
  EXPECT_EQ(ErrorOf({.op_type = "QuantizeLinear"}, {x, scale, Tensor::Of<uint8_t>({3}, {1, 2, 3})}),
            "the zero point (input 2) has shape [3] where [], that of the scale, is expected");
  EXPECT_EQ(ErrorOf({.op_type = "DequantizeLinear"},
                    {Tensor::Of<int8_t>({1}, {1}), scale, Tensor::Scalar<uint8_t>(1)}),
            "the zero point (input 2) is uint8 where int8 is expected");
}

TEST(QuantizeLinear, ItemsOfABatchHaveTheBitsOfSingleRuns) {
  const Tensor x = test::RandomFloats({3, 4, 5}, 1, -20, 20);
  const Tensor scale = test::RandomFloats({4}, 2, 0.05f, 1);
  const Tensor whole = Apply({.op_type = "QuantizeLinear"}, {x, scale});
  for (int64_t item = 0; item < 3; ++item) {
    EXPECT_TRUE(Close(Apply({.op_type = "QuantizeLinear"}, {x.Rows(item, item + 1), scale}),
                      whole.Rows(item, item + 1), Exact()));
  }
}

TEST(QuantizeLinear, AnEmptyTensorIsAnEmptyTensor) {
  const Tensor x = test::RandomFloats({0, 3}, 1);
  EXPECT_EQ(Apply({.op_type = "QuantizeLinear"}, {x, Tensor::Scalar<float>(1)}).shape(),
            Shape({0, 3}));
  EXPECT_EQ(Apply({.op_type = "QuantizeLinear"}, {x, Tensor::Of<float>({3}, {1, 2, 3})}).shape(),
            Shape({0, 3}));
}

}  // namespace
}  // namespace tandem
