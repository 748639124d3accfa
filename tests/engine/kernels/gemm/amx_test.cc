// Products as sums of bfloat16 products, against sums in float64.
#include "engine/kernels/gemm/amx.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "engine/kernels/gemm/block.h"
#include "engine/tensor/tensor.h"
#include "tests/support/arithmetics.h"
#include "tests/support/compare.h"
#include "tests/support/random_tensor.h"

namespace tandem::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMost = std::numeric_limits<float>::max();
constexpr float kSpecial[] = {kInf,   -kInf,  kNan,    3e38f,    -3e38f,   kMost,
                              -kMost, 1e-40f, -3e-39f, 1.4e-45f, 1.2e-38f, 0x1p-100f};
constexpr Precision kSums[] = {Precision::kF32, Precision::kF32Strict, Precision::kBf16};

// m x k times k x n by one kernel, whatever the extents.
struct Product {
  int64_t m, n, k;
  Tensor a, b;

  Product(int64_t rows, int64_t columns, int64_t depth)
      : m(rows),
        n(columns),
        k(depth),
        a(test::RandomFloats({m, k}, 1)),
        b(test::RandomFloats({k, n}, 2)) {}

  Tensor By(const TileKernel& kernel) const {
    const int64_t width = kernel.panel_columns;
    const int64_t panels = (n + width - 1) / width;
    Tensor packed = *Tensor::Allocate(DType::kFloat, {panels * kernel.PanelFloats(k)});
    for (int64_t panel = 0; panel < panels; ++panel) {
      const auto read = [&](int64_t first, int64_t count, float* rows) {
        for (int64_t i = 0; i < count * width; ++i) {
          const int64_t column = panel * width + i % width;
          rows[i] = column < n ? b.data<float>()[(first + i / width) * n + column] : 0;
        }
      };
      kernel.pack(k, read, packed.mutable_data<float>() + panel * kernel.PanelFloats(k));
    }
    Tensor c = *Tensor::Allocate(DType::kFloat, {m, n});
    std::fill_n(c.mutable_data<float>(), m * n, kNan);
    GemmProblem problem{m, n, k, a.data<float>(), k};
    RunBlock(problem, packed.data<float>(), kernel, {0, m, 0, n, c.mutable_data<float>(), n});
    return c;
  }
  Tensor By(Precision precision) const { return By(AmxTileKernel(precision)); }

  Tensor Expected() const {
    std::vector<double> sums(static_cast<size_t>(m * n));
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t p = 0; p < k; ++p) {
        const double x = a.data<float>()[i * k + p];
        for (int64_t j = 0; j < n; ++j) {
          sums[static_cast<size_t>(i * n + j)] += x * b.data<float>()[p * n + j];
        }
      }
    }
    Tensor c = *Tensor::Allocate(DType::kFloat, {m, n});
    for (int64_t i = 0; i < m * n; ++i) {
      c.mutable_data<float>()[i] = static_cast<float>(sums[static_cast<size_t>(i)]);
    }
    return c;
  }

  // The largest error as a share of the largest element.
  double Error(const Tensor& c) const {
    const Tensor expected = Expected();
    double error = 0;
    double scale = 0;
    for (int64_t i = 0; i < m * n; ++i) {
      const double x = expected.data<float>()[i];
      error = std::max(error, std::abs(c.data<float>()[i] - x));
      scale = std::max(scale, std::abs(x));
    }
    return error / scale;
  }
};

class AmxProduct : public testing::Test {
 protected:
  void SetUp() override {
    if (DetectIsa() < Isa::kAmx) GTEST_SKIP() << "this machine has no AMX";
  }
};

// Every addition may be off by a denormal.
test::Tolerance ToleranceOf(Precision precision, int64_t k) {
  test::Tolerance tolerance = test::ToleranceOf({Isa::kAmx, precision}, k);
  tolerance.absolute = static_cast<double>(k) * 0x1p-149;
  return tolerance;
}

TEST_F(AmxProduct, EveryEdgeSizeAgreesWithSumsInDouble) {
  for (const Precision precision : kSums) {
    for (int64_t m = 1; m <= 70; ++m) {
      const int64_t n = 1 + m * 37 % 70;
      const int64_t k = 1 + m * 11 % 70;
      for (const Product& product : {Product(m, n, k), Product(m, 33, 40), Product(5, m, 40),
                                     Product(33, 31, m), Product(m, 64, 1000 + m)}) {
        ASSERT_TRUE(test::Close(product.By(precision), product.Expected(),
                                ToleranceOf(precision, product.k)))
            << PrecisionName(precision) << " " << product.m << "x" << product.n << "x" << product.k;
      }
    }
  }
}

TEST_F(AmxProduct, ThreeProductsErrByAHundredThousandthOfTheScaleAndSixNoMoreThanFloat32) {
  for (const int64_t k : {27, 64, 147, 576, 1152, 2304, 4608}) {
    for (const float low : {-1.0f, 0.0f}) {  // of both signs, and behind a rectifier
      Product product(64, 96, k);
      product.a = test::RandomFloats({64, k}, 5, low, 1);
      const double plain = product.Error(product.By(PlainTileKernel(Isa::kAvx512)));
      const double three = product.Error(product.By(Precision::kF32));
      const double six = product.Error(product.By(Precision::kF32Strict));
      const double one = product.Error(product.By(Precision::kBf16));
      EXPECT_LE(three, 1e-5) << k;
      EXPECT_LE(six, std::max(plain, 0x1p-23)) << k;
      EXPECT_LE(one, 0x1p-8) << k;
      fmt::print("K {} from {}: plain {:.1e}, three {:.1e}, six {:.1e}, one {:.1e}\n", k, low,
                 plain, three, six, one);
    }
  }
}

// The row of a, or the column of b, that has the element is right by itself, and the others have
// the bits that they have without it.
TEST_F(AmxProduct, ARowWithASpecialNumberGivesWhatIeeeSaysAndLeavesItsNeighboursAlone) {
  for (const Precision precision : kSums) {
    for (const int64_t k : {40, 700}) {
      const Product plain(45, 70, k);
      const Tensor before = plain.By(precision);
      for (const float special : kSpecial) {
        for (const int64_t row : {0, 17, 44}) {
          Product product = plain;
          product.a = test::RandomFloats({45, k}, 1);
          product.a.mutable_data<float>()[row * k + k / 2] = special;
          const Tensor after = product.By(precision);
          const Tensor expected = product.Expected();
          for (int64_t i = 0; i < 45; ++i) {
            const bool same = i != row;
            ASSERT_TRUE(test::Close(after.Rows(i, i + 1), (same ? before : expected).Rows(i, i + 1),
                                    same ? test::Exact() : ToleranceOf(precision, k)))
                << PrecisionName(precision) << " " << special << " in row " << row << ", row " << i;
          }
        }
      }
    }
  }
}

TEST_F(AmxProduct, ARowOfSmallNumbersIsAsExactAsOthers) {
  for (const Precision precision : kSums) {
    for (const float scale :
         {1e-44f, 1e-40f, 1e-38f, 1e-30f, 1e-20f, 1e-10f, 1e15f, 1e30f, 1e37f}) {
      Product product(40, 70, 600);
      for (int64_t i = 0; i < 600; ++i) product.a.mutable_data<float>()[7 * 600 + i] *= scale;
      const Tensor actual = product.By(precision);
      const Tensor expected = product.Expected();
      for (int64_t i = 0; i < 40; ++i) {
        ASSERT_TRUE(test::Close(actual.Rows(i, i + 1), expected.Rows(i, i + 1),
                                ToleranceOf(precision, 600)))
            << PrecisionName(precision) << " " << scale << " row " << i;
      }
    }
  }
}

TEST_F(AmxProduct, ASmallSumIsNotLostOverAPieceOfZeros) {
  for (const Precision precision : kSums) {
    Product product(20, 70, 1400);
    std::fill_n(product.a.mutable_data<float>() + 3 * 1400, 1400, 0.0f);
    product.a.mutable_data<float>()[3 * 1400 + 2] = 1e-40f;
    ASSERT_TRUE(test::Close(product.By(precision).Rows(3, 4), product.Expected().Rows(3, 4),
                            ToleranceOf(precision, 1400)))
        << PrecisionName(precision);
  }
}

TEST_F(AmxProduct, AColumnWithASpecialNumberGivesWhatIeeeSays) {
  for (const Precision precision : kSums) {
    for (const int64_t k : {40, 700}) {
      for (const float special : kSpecial) {
        for (const int64_t column : {0, 31, 69}) {
          Product product(37, 70, k);
          // Alone in its column, so that it counts; the others of the panel stay what they are.
          for (int64_t p = 0; p < k; ++p) product.b.mutable_data<float>()[p * 70 + column] = 0;
          product.b.mutable_data<float>()[(k - 3) * 70 + column] = special;
          const Tensor actual = product.By(precision);
          const Tensor expected = product.Expected();
          Tensor mine = *Tensor::Allocate(DType::kFloat, {37});
          Tensor right = *Tensor::Allocate(DType::kFloat, {37});
          for (int64_t i = 0; i < 37; ++i) {
            mine.mutable_data<float>()[i] = actual.data<float>()[i * 70 + column];
            right.mutable_data<float>()[i] = expected.data<float>()[i * 70 + column];
          }
          // A bfloat16 near to the smallest has few digits.
          test::Tolerance allowed = ToleranceOf(precision, k);
          if (precision == Precision::kBf16) allowed.absolute += 0x1p-133;
          ASSERT_TRUE(test::Close(mine, right, allowed))
              << PrecisionName(precision) << " " << special << " in column " << column;
        }
      }
    }
  }
}

TEST_F(AmxProduct, ARowHasTheSameBitsAnywhereInABatch) {
  for (const Precision precision : kSums) {
    const Product batch(67, 70, 600);
    const Tensor whole = batch.By(precision);
    for (const int64_t first : {0, 1, 15, 16, 17, 31, 32, 40, 66}) {
      for (const int64_t rows : {1, 2, 16, 17, 33}) {
        if (first + rows > 67) continue;
        Product some(rows, 70, 600);
        some.a = batch.a.Rows(first, first + rows);
        ASSERT_TRUE(test::Close(some.By(precision), whole.Rows(first, first + rows), test::Exact()))
            << PrecisionName(precision) << " " << rows << " rows from " << first;
      }
    }
  }
}

TEST_F(AmxProduct, IsTakenForLargeMatricesWhereThePrecisionAllowsIt) {
  const auto name = [](Isa isa, Precision precision, int64_t k, int64_t n) {
    return std::string(TileKernelFor({isa, precision}, k, n).name);
  };
  EXPECT_EQ(name(Isa::kAmx, Precision::kF32, 64, 64), "bf16x3");
  EXPECT_EQ(name(Isa::kAmx, Precision::kF32Strict, 64, 64), "bf16x6");
  EXPECT_EQ(name(Isa::kAmx, Precision::kBf16, 64, 64), "bf16x1");
  EXPECT_EQ(name(Isa::kAmx, Precision::kF32Plain, 64, 64), "");
  EXPECT_EQ(name(Isa::kVnni, Precision::kF32, 64, 64), "");
  EXPECT_EQ(name(Isa::kAmx, Precision::kF32, 8, 1000), "");
  EXPECT_EQ(name(Isa::kAmx, Precision::kF32, 1000, 8), "");
}

}  // namespace
}  // namespace tandem::kernels
