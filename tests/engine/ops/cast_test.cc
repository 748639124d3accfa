#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Close;
using test::Exact;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

StatusOr<std::vector<Tensor>> TryCast(const Tensor& x, DType to) {
  return test::RunOp({.op_type = "Cast", .attributes = {{"to", static_cast<int64_t>(to)}}}, {x});
}

Tensor CastTo(const Tensor& x, DType to) {
  const auto y = TryCast(x, to);
  EXPECT_TRUE(y.ok()) << y.status();
  return y.ok() ? (*y)[0] : Tensor();
}

TEST(Cast, FloatingToIntegerTruncatesAndSaturates) {
  const Tensor x =
      Tensor::Of<float>({8}, {1.9f, -1.9f, kNan, kInf, -kInf, 300, -300, 2147483648.0f});
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min();
  constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
  EXPECT_TRUE(Close(CastTo(x, DType::kInt32),
                    Tensor::Of<int32_t>({8}, {1, -1, 0, kMax, kMin, 300, -300, kMax}), Exact()));
  EXPECT_TRUE(Close(CastTo(x, DType::kUint8),
                    Tensor::Of<uint8_t>({8}, {1, 0, 0, 255, 0, 255, 0, 255}), Exact()));
  EXPECT_TRUE(Close(CastTo(x, DType::kInt8),
                    Tensor::Of<int8_t>({8}, {1, -1, 0, 127, -128, 127, -128, 127}), Exact()));
  const Tensor big = Tensor::Of<double>({3}, {9.3e18, -9.3e18, 1.9e19});
  EXPECT_TRUE(Close(CastTo(big, DType::kInt64),
                    Tensor::Of<int64_t>({3}, {std::numeric_limits<int64_t>::max(),
                                              std::numeric_limits<int64_t>::min(),
                                              std::numeric_limits<int64_t>::max()}),
                    Exact()));
}

TEST(Cast, EveryLengthConvertsEachElementAlone) {
  for (int64_t n = 1; n <= 70; ++n) {
    const Tensor x = test::RandomFloats({n}, static_cast<uint32_t>(n), -500, 500);
    const Tensor bytes = CastTo(x, DType::kInt8);
    const Tensor integers = CastTo(x, DType::kInt64);
    const Tensor halves = CastTo(x, DType::kFloat16);
    const Tensor back = CastTo(halves, DType::kFloat);
    for (int64_t i = 0; i < n; ++i) {
      const float value = x.data<float>()[i];
      ASSERT_EQ(bytes.data<int8_t>()[i], std::clamp(static_cast<int>(value), -128, 127));
      ASSERT_EQ(integers.data<int64_t>()[i], static_cast<int64_t>(value));
      ASSERT_EQ(halves.data<Float16>()[i].bits, ToFloat16(value).bits);
      ASSERT_EQ(back.data<float>()[i], ToFloat(ToFloat16(value)));
    }
  }
}

TEST(Cast, IntegersKeepTheirLowBits) {
  const Tensor x = Tensor::Of<int64_t>({3}, {(int64_t{1} << 53) + 1, -1, 256});
  EXPECT_TRUE(Close(CastTo(x, DType::kUint8), Tensor::Of<uint8_t>({3}, {1, 255, 0}), Exact()));
  EXPECT_TRUE(Close(CastTo(x, DType::kUint64),
                    Tensor::Of<uint64_t>({3}, {(uint64_t{1} << 53) + 1, ~uint64_t{0}, 256}),
                    Exact()));
  EXPECT_TRUE(Close(CastTo(x, DType::kBool), Tensor::Of<bool>({3}, {true, true, true}), Exact()));
}

TEST(Cast, BoolIsTrueForEverythingButZero) {
  const Tensor x = Tensor::Of<float>({4}, {0.0f, -0.0f, 1e-40f, kNan});
  EXPECT_TRUE(
      Close(CastTo(x, DType::kBool), Tensor::Of<bool>({4}, {false, false, true, true}), Exact()));
  EXPECT_TRUE(Close(CastTo(Tensor::Of<bool>({2}, {false, true}), DType::kFloat),
                    Tensor::Of<float>({2}, {0, 1}), Exact()));
}

TEST(Cast, HalfPrecisionRoundsOnceToNearestEven) {
  // Halfway between two float16 in float32, but not in double.
  const double above_tie = 1.0 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40);
  const Tensor y = CastTo(Tensor::Of<double>({3}, {above_tie, 65520.0, 1.0}), DType::kFloat16);
  EXPECT_EQ(ToFloat(y.data<Float16>()[0]), 1.0f + std::ldexp(1.0f, -10));
  EXPECT_EQ(ToFloat(y.data<Float16>()[1]), kInf);
  EXPECT_EQ(ToFloat(y.data<Float16>()[2]), 1.0f);
  const Tensor x = *Tensor::Allocate(DType::kFloat16, {65536});
  for (int i = 0; i < 65536; ++i) x.mutable_data<Float16>()[i] = {static_cast<uint16_t>(i)};
  for (const DType wide : {DType::kFloat, DType::kDouble}) {
    const Tensor back = CastTo(CastTo(x, wide), DType::kFloat16);
    for (int i = 0; i < 65536; ++i) {
      if (std::isnan(ToFloat(x.data<Float16>()[i]))) {
        ASSERT_TRUE(std::isnan(ToFloat(back.data<Float16>()[i])));
      } else {
        ASSERT_EQ(back.data<Float16>()[i].bits, i);
      }
    }
  }
}

TEST(Cast, NumbersBecomeText) {
  const Tensor integers =
      Tensor::Of<int64_t>({3}, {(int64_t{1} << 53) + 1, std::numeric_limits<int64_t>::min(), 0});
  EXPECT_TRUE(Close(CastTo(integers, DType::kString),
                    Tensor::Of<std::string>({3}, {"9007199254740993", "-9223372036854775808", "0"}),
                    Exact()));
  EXPECT_TRUE(Close(CastTo(Tensor::Of<float>({4}, {0.5f, kNan, kInf, -kInf}), DType::kString),
                    Tensor::Of<std::string>({4}, {"0.5", "NaN", "INF", "-INF"}), Exact()));
}

TEST(Cast, FloatsBecomeTheShortestTextThatReadsBack) {
  const Tensor floats = Tensor::Of<float>({4}, {0.6048455f, 0.1f, 1e20f, -3});
  EXPECT_TRUE(Close(CastTo(floats, DType::kString),
                    Tensor::Of<std::string>({4}, {"0.6048455", "0.1", "1e+20", "-3"}), Exact()));
  const Tensor doubles = Tensor::Of<double>({2}, {0.1, 1.0 / 3});
  EXPECT_TRUE(Close(CastTo(doubles, DType::kString),
                    Tensor::Of<std::string>({2}, {"0.1", "0.3333333333333333"}), Exact()));
}

TEST(Cast, TextBecomesNumbers) {
  const Tensor text =
      Tensor::Of<std::string>({7}, {"3.14", "1000", "1e-5", "1E8", "nan", "+INF", "-inf"});
  const Tensor y = CastTo(text, DType::kFloat);
  const float expected[] = {3.14f, 1000, 1e-5f, 1e8f};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(y.data<float>()[i], expected[i]);
  EXPECT_TRUE(std::isnan(y.data<float>()[4]));
  EXPECT_EQ(y.data<float>()[5], kInf);
  EXPECT_EQ(y.data<float>()[6], -kInf);
  EXPECT_TRUE(Close(CastTo(Tensor::Of<std::string>({2}, {"9007199254740993", "-7"}), DType::kInt64),
                    Tensor::Of<int64_t>({2}, {(int64_t{1} << 53) + 1, -7}), Exact()));
}

TEST(Cast, TextThatIsNoNumberFailsTheRun) {
  const auto y = TryCast(Tensor::Of<std::string>({2}, {"1", "one"}), DType::kInt32);
  ASSERT_FALSE(y.ok());
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(Message(y.status())),
            "element 1 is 'one' where text of a number of type int32 is expected");
  EXPECT_FALSE(TryCast(Tensor::Of<std::string>({1}, {"300"}), DType::kUint8).ok());
  EXPECT_FALSE(TryCast(Tensor::Of<std::string>({1}, {""}), DType::kFloat).ok());
}

TEST(Cast, AnUnknownTypeIsRefused) {
  const auto y = test::RunOp({.op_type = "Cast", .attributes = {{"to", int64_t{999}}}},
                             {Tensor::Scalar<float>(1)});
  ASSERT_FALSE(y.ok());
  EXPECT_NE(std::string(Message(y.status())).find("attribute 'to' is 999"), std::string::npos);
}

TEST(CastLike, TakesTheTypeOfTheSecondInput) {
  const auto y = test::RunOp({.op_type = "CastLike", .opset = 15},
                             {Tensor::Of<float>({2}, {1.5f, 2}), Tensor::Scalar<int64_t>(0)});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_TRUE(Close((*y)[0], Tensor::Of<int64_t>({2}, {1, 2}), Exact()));
}

}  // namespace
}  // namespace tandem
