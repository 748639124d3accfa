#include "engine/tensor/strided.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/support/compare.h"

namespace tandem {
namespace {

using test::Close;
using test::Exact;

// [2, 3] of uint8 with a scale and a zero point for each row.
StridedTensor Rows() {
  StridedTensor tensor = StridedTensor::Of(Tensor::Of<uint8_t>({2, 3}, {0, 128, 255, 1, 2, 3}));
  tensor.dtype = DType::kFloat;
  tensor.quantised =
      std::make_shared<const Quantised>(Quantised{.scales = {0.5f, 2}, .zero_points = {0, -128}});
  tensor.quantised_axis = 0;
  return tensor;
}

// Whole tiles of a transpose and what is left beside and below them, with elements of every width.
TEST(Strided, ATransposeMovesWholeElements) {
  constexpr int64_t kRows = 37;
  constexpr int64_t kColumns = 50;
  for (const DType dtype :
       {DType::kUint8, DType::kUint16, DType::kFloat, DType::kDouble, DType::kComplex128}) {
    const Tensor tensor = *Tensor::Allocate(dtype, {kRows, kColumns});
    const std::span<std::byte> from = tensor.mutable_view().mutable_bytes();
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 37 % 251);
    const Tensor transposed = *SpellOut(StridedTensor::Of(tensor).Permuted(std::array{1, 0}));
    ASSERT_EQ(transposed.shape(), (Shape{kColumns, kRows}));
    const std::span<const std::byte> to = transposed.view().bytes();
    const size_t width = DTypeBytes(dtype, 1);
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t column = 0; column < kColumns; ++column) {
        EXPECT_TRUE(std::ranges::equal(from.subspan((row * kColumns + column) * width, width),
                                       to.subspan((column * kRows + row) * width, width)))
            << width << " bytes at " << row << ", " << column;
      }
    }
  }
}

TEST(Quantised, NumbersAreTheIntegersLessTheZeroPointTimesTheScale) {
  EXPECT_FALSE(Rows().dense());
  EXPECT_TRUE(
      Close(*SpellOut(Rows()), Tensor::Of<float>({2, 3}, {-64, 0, 63.5f, 2, 4, 6}), Exact()));
}

TEST(Quantised, APermutationTakesTheScalesAlong) {
  const StridedTensor columns = Rows().Permuted(std::array{1, 0});
  EXPECT_EQ(columns.quantised_axis, 1);
  EXPECT_TRUE(
      Close(*SpellOut(columns), Tensor::Of<float>({3, 2}, {-64, 2, 0, 4, 63.5f, 6}), Exact()));
}

TEST(Quantised, ABroadcastKeepsThemOnTheirAxis) {
  const StridedTensor twice = Rows().BroadcastTo({2, 2, 3});
  EXPECT_EQ(twice.quantised_axis, 1);
  EXPECT_TRUE(Close(*SpellOut(twice),
                    Tensor::Of<float>({2, 2, 3}, {-64, 0, 63.5f, 2, 4, 6, -64, 0, 63.5f, 2, 4, 6}),
                    Exact()));
}

TEST(Quantised, IntegersOfUint8AreCentred) {
  EXPECT_TRUE(Close(*SpellOut(Rows().Integers()),
                    Tensor::Of<float>({2, 3}, {-128, 0, 127, -127, -126, -125}), Exact()));
}

// More than a piece of what is emitted at once, in rows that pieces cut.
TEST(Quantised, LargeTensorsAreEmittedInPieces) {
  constexpr int64_t kRows = 3;
  constexpr int64_t kColumns = 100003;
  Tensor bytes = *Tensor::Allocate(DType::kInt8, {kRows, kColumns});
  Tensor expected = *Tensor::Allocate(DType::kFloat, {kRows, kColumns});
  const Quantised quantised{.scales = {0.5f, 2, 4}, .zero_points = {1, 2, 3}};
  for (int64_t i = 0; i < bytes.elements(); ++i) {
    const auto row = static_cast<size_t>(i / kColumns);
    bytes.mutable_data<int8_t>()[i] = static_cast<int8_t>(i % 251 - 125);
    expected.mutable_data<float>()[i] =
        (static_cast<float>(i % 251 - 125) - quantised.zero_points[row]) * quantised.scales[row];
  }
  StridedTensor tensor = StridedTensor::Of(bytes);
  tensor.dtype = DType::kFloat;
  tensor.quantised = std::make_shared<const Quantised>(quantised);
  EXPECT_TRUE(Close(*SpellOut(tensor), expected, Exact()));
}

}  // namespace
}  // namespace tandem
