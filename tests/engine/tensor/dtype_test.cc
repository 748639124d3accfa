#include "engine/tensor/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace tandem {
namespace {

TEST(Float16, EveryPatternSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const Float16 half{static_cast<uint16_t>(bits)};
    const float value = ToFloat(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(ToFloat(ToFloat16(value))));
    } else {
      ASSERT_EQ(ToFloat16(value).bits, half.bits) << bits;
    }
  }
}

TEST(Float16, RoundsToNearestEven) {
  EXPECT_EQ(ToFloat16(2049.0f).bits, ToFloat16(2048.0f).bits);
  EXPECT_EQ(ToFloat16(2051.0f).bits, ToFloat16(2052.0f).bits);
  EXPECT_EQ(ToFloat16(65520.0f).bits, 0x7C00);
  EXPECT_EQ(ToFloat16(65519.0f).bits, 0x7BFF);
}

TEST(Bfloat16, RoundsToNearestEvenAndKeepsNaN) {
  EXPECT_EQ(ToBfloat16(1.00390625f).bits, 0x3F80);
  EXPECT_EQ(ToBfloat16(1.01171875f).bits, 0x3F82);
  EXPECT_EQ(ToBfloat16(3.4e38f).bits, 0x7F80);
  EXPECT_TRUE(std::isnan(ToFloat(ToBfloat16(std::bit_cast<float>(0x7F800001u)))));
}

TEST(DType, PackedElementsRoundUpToBytes) {
  EXPECT_EQ(DTypeBytes(DType::kInt4, 3), 2u);
  EXPECT_EQ(DTypeBytes(DType::kUint2, 5), 2u);
  EXPECT_EQ(DTypeBytes(DType::kFloat, 3), 12u);
}

}  // namespace
}  // namespace tandem
