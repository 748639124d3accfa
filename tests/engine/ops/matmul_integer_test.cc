// MatMulInteger and QLinearMatMul.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
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

// The element at `i` of a list, whose only element counts for all.
template <typename T>
T ElementOf(const Tensor& list, int64_t i) {
  return list.data<T>()[list.elements() == 1 ? 0 : i];
}

// a [M, K] times b [K, N]; zero points by row of a and column of b.
template <typename A, typename B>
Tensor Product(const Tensor& a, const Tensor& b, const Tensor& a_zero, const Tensor& b_zero) {
  const int64_t m = a.shape()[0];
  const int64_t k = a.shape()[1];
  const int64_t n = b.shape()[1];
  Tensor y = *Tensor::Allocate(DType::kInt32, {m, n});
  for (int64_t i = 0; i < m * n; ++i) {
    int64_t sum = 0;
    for (int64_t t = 0; t < k; ++t) {
      const int64_t left = a.data<A>()[i / n * k + t] - ElementOf<A>(a_zero, i / n);
      const int64_t right = b.data<B>()[t * n + i % n] - ElementOf<B>(b_zero, i % n);
      sum += left * right;
    }
    y.mutable_data<int32_t>()[i] = static_cast<int32_t>(sum);
  }
  return y;
}

template <typename A, typename B>
void ExpectExactProducts() {
  for (const auto& [m, k, n] : {std::array<int64_t, 3>{1, 1, 1},
                                {3, 5, 7},
                                {17, 33, 31},
                                {2, 4608, 3},
                                {4, 9, 2051},
                                {1, 1, 64},
                                {16, 1, 1}}) {
    const Tensor a = RandomBytes<A>({m, k}, 1);
    const Tensor b = RandomBytes<B>({k, n}, 2);
    for (const bool many : {false, true}) {
      const Tensor a_zero = RandomBytes<A>(many ? Shape{m} : Shape{}, 3);
      const Tensor b_zero = RandomBytes<B>(many ? Shape{n} : Shape{}, 4);
      const Tensor expected = Product<A, B>(a, b, a_zero, b_zero);
      for (const Isa isa : test::IsaLevels()) {
        for (const int threads : {1, 3}) {
          EXPECT_TRUE(Close(Apply({.op_type = "MatMulInteger", .isa = isa, .threads = threads},
                                  {a, b, a_zero, b_zero}),
                            expected, Exact()))
              << IsaName(isa) << " " << m << "x" << k << "x" << n;
        }
      }
    }
  }
}

TEST(MatMulInteger, EverySignAndSizeGivesTheExactSums) {
  ExpectExactProducts<uint8_t, uint8_t>();
  ExpectExactProducts<uint8_t, int8_t>();
  ExpectExactProducts<int8_t, uint8_t>();
  ExpectExactProducts<int8_t, int8_t>();
}

TEST(MatMulInteger, OmittedZeroPointsAreZero) {
  const Tensor a = RandomBytes<uint8_t>({3, 4}, 1);
  const Tensor b = RandomBytes<int8_t>({4, 5}, 2);
  const Tensor zero = Tensor::Scalar<uint8_t>(0);
  const Tensor expected = Product<uint8_t, int8_t>(a, b, zero, Tensor::Scalar<int8_t>(0));
  EXPECT_TRUE(Close(Apply({.op_type = "MatMulInteger"}, {a, b}), expected, Exact()));
  EXPECT_TRUE(
      Close(Apply({.op_type = "MatMulInteger"}, {a, b, Tensor(), Tensor::Scalar<int8_t>(0)}),
            expected, Exact()));
}

TEST(MatMulInteger, BatchesBroadcastWithZeroPointsOfTheirOwn) {
  const Tensor a = RandomBytes<uint8_t>({2, 3, 4}, 1);
  const Tensor b = RandomBytes<uint8_t>({2, 4, 5}, 2);
  const Tensor a_zero = RandomBytes<uint8_t>({2, 3, 1}, 3);
  const Tensor b_zero = RandomBytes<uint8_t>({2, 1, 5}, 4);
  const Tensor y = Apply({.op_type = "MatMulInteger"}, {a, b, a_zero, b_zero});
  for (int64_t i = 0; i < 2; ++i) {
    const auto matrix = [i](const Tensor& t, const Shape& shape) {
      return t.Rows(i, i + 1).Reshaped(shape);
    };
    const Tensor expected = Product<uint8_t, uint8_t>(matrix(a, {3, 4}), matrix(b, {4, 5}),
                                                      matrix(a_zero, {3}), matrix(b_zero, {5}));
    EXPECT_TRUE(Close(matrix(y, {3, 5}), expected, Exact()));
  }
}

// Matrices of a batch that begin at any byte.
TEST(MatMulInteger, MatricesOfABatchNeedNoAlignment) {
  for (const int64_t k : {1, 3}) {
    const Tensor a = RandomBytes<uint8_t>({1, 16, 1, k}, 5);
    const Tensor b = RandomBytes<uint8_t>({1, 16, k, 63 + k}, 6);
    const Tensor zero = Tensor::Scalar<uint8_t>(0);
    for (const Isa isa : test::IsaLevels()) {
      const Tensor y = Apply({.op_type = "MatMulInteger", .isa = isa}, {a, b});
      ASSERT_EQ(y.shape(), Shape({1, 16, 1, 63 + k}));
      for (int64_t i = 0; i < 16; ++i) {
        const auto matrix = [i](const Tensor& t, const Shape& shape) {
          return t.Reshaped({16, t.elements() / 16}).Rows(i, i + 1).Reshaped(shape);
        };
        EXPECT_TRUE(
            Close(matrix(y, {1, 63 + k}),
                  Product<uint8_t, uint8_t>(matrix(a, {1, k}), matrix(b, {k, 63 + k}), zero, zero),
                  Exact()))
            << IsaName(isa) << " " << i;
      }
    }
  }
}

TEST(MatMulInteger, VectorsAndEmptySumsFollowMatMul) {
  const Tensor a = Tensor::Of<uint8_t>({3}, {1, 2, 3});
  const Tensor b = Tensor::Of<uint8_t>({3}, {4, 5, 6});
  EXPECT_TRUE(
      Close(Apply({.op_type = "MatMulInteger"}, {a, b}), Tensor::Scalar<int32_t>(32), Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "MatMulInteger"},
                          {RandomBytes<uint8_t>({2, 0}, 1), RandomBytes<uint8_t>({0, 2}, 1)}),
                    Tensor::Of<int32_t>({2, 2}, {0, 0, 0, 0}), Exact()));
}

TEST(QLinearMatMul, RoundsTheScaledSumsToEvenAndSaturates) {
  const Tensor a = RandomBytes<uint8_t>({5, 9}, 1);
  const Tensor b = RandomBytes<int8_t>({9, 7}, 2);
  const Tensor a_zero = RandomBytes<uint8_t>({5}, 3);
  const Tensor b_zero = RandomBytes<int8_t>({7}, 4);
  const Tensor a_scale = test::RandomFloats({5}, 5, 0.01f, 0.1f);
  const Tensor b_scale = test::RandomFloats({7}, 6, 0.01f, 0.1f);
  const float y_scale = 0.3f;
  const Tensor sums = Product<uint8_t, int8_t>(a, b, a_zero, b_zero);
  Tensor expected = *Tensor::Allocate(DType::kInt8, {5, 7});
  for (int64_t i = 0; i < 35; ++i) {
    const float multiplier = a_scale.data<float>()[i / 7] * b_scale.data<float>()[i % 7] / y_scale;
    const float value = std::nearbyint(static_cast<float>(sums.data<int32_t>()[i]) * multiplier);
    expected.mutable_data<int8_t>()[i] = static_cast<int8_t>(std::clamp(value - 3, -128.f, 127.f));
  }
  for (const Isa isa : test::IsaLevels()) {
    EXPECT_TRUE(Close(Apply({.op_type = "QLinearMatMul", .isa = isa},
                            {a, a_scale, a_zero, b, b_scale, b_zero, Tensor::Scalar<float>(y_scale),
                             Tensor::Scalar<int8_t>(-3)}),
                      expected, Exact()))
        << IsaName(isa);
  }
}

// Bytes within `most` of `zero`.
template <typename T>
Tensor Near(const Shape& shape, uint32_t seed, int zero, float most) {
  const Tensor steps = test::RandomWholeFloats(shape, seed, -most, most + 1);
  Tensor bytes = *Tensor::Allocate(kDTypeOf<T>, shape);
  for (int64_t i = 0; i < bytes.elements(); ++i) {
    bytes.mutable_data<T>()[i] = static_cast<T>(zero + static_cast<int>(steps.data<float>()[i]));
  }
  return bytes;
}

// Sums are small and scales powers of two, so that many results are ties.
template <typename A, typename B, typename Y>
void ExpectTiesToEven(bool each) {
  const Shape columns = each ? Shape{70} : Shape{};
  const Tensor a = Near<A>({9, 5}, 1, 103, 4);
  const Tensor a_zero = Tensor::Scalar<A>(103);
  const Tensor b_zero = Near<B>(columns, 2, 90, 20);
  Tensor b = Near<B>({5, 70}, 3, 0, 2);
  for (int64_t i = 0; i < b.elements(); ++i) {
    b.mutable_data<B>()[i] = static_cast<B>(b.data<B>()[i] + ElementOf<B>(b_zero, i % 70));
  }
  Tensor b_scale = *Tensor::Allocate(DType::kFloat, columns);
  for (int64_t i = 0; i < b_scale.elements(); ++i) {
    b_scale.mutable_data<float>()[i] = i % 3 == 0 ? 0.5f : 0.25f;
  }
  const Y y_zero = 60;
  const Tensor sums = Product<A, B>(a, b, a_zero, b_zero);
  Tensor expected = *Tensor::Allocate(kDTypeOf<Y>, sums.shape());
  int64_t ties = 0;
  for (int64_t i = 0; i < sums.elements(); ++i) {
    const float scaled =
        static_cast<float>(sums.data<int32_t>()[i]) * 2 * ElementOf<float>(b_scale, i % 70) / 2;
    ties += scaled - std::floor(scaled) == 0.5f ? 1 : 0;
    expected.mutable_data<Y>()[i] = static_cast<Y>(std::nearbyint(scaled) + y_zero);
  }
  EXPECT_GT(ties, 0);
  const Tensor two = Tensor::Scalar(2.0f);
  for (const Isa isa : test::IsaLevels()) {
    EXPECT_TRUE(Close(Apply({.op_type = "QLinearMatMul", .opset = 21, .isa = isa},
                            {a, two, a_zero, b, b_scale, b_zero, two, Tensor::Scalar<Y>(y_zero)}),
                      expected, Exact()))
        << IsaName(isa);
  }
}

TEST(QLinearMatMul, TiesGoToEvenForEveryTypeAndNumberOfScales) {
  for (const bool each : {false, true}) {
    ExpectTiesToEven<uint8_t, int8_t, uint8_t>(each);
    ExpectTiesToEven<uint8_t, uint8_t, int8_t>(each);
    ExpectTiesToEven<int8_t, int8_t, int8_t>(each);
    ExpectTiesToEven<int8_t, uint8_t, uint8_t>(each);
  }
}

// A scale and zero point of A for all rows, which are rounded as they are summed.
TEST(QLinearMatMul, RowsOfABatchShareOneBAndItsScales) {
  const Tensor a = RandomBytes<int8_t>({3, 5, 40}, 1);
  const Tensor b = RandomBytes<int8_t>({40, 35}, 2);
  const Tensor a_zero = Tensor::Scalar<int8_t>(17);
  for (const bool each : {false, true}) {
    const Tensor b_zero = RandomBytes<int8_t>(each ? Shape{35} : Shape{}, 4);
    const Tensor b_scale = test::RandomFloats(each ? Shape{35} : Shape{}, 6, 0.01f, 0.1f);
    const Tensor sums = Product<int8_t, int8_t>(a.Reshaped({15, 40}), b, a_zero, b_zero);
    Tensor expected = *Tensor::Allocate(DType::kUint8, {3, 5, 35});
    for (int64_t i = 0; i < sums.elements(); ++i) {
      const float multiplier = 0.02f * ElementOf<float>(b_scale, i % 35) / 0.3f;
      const float value = std::nearbyint(static_cast<float>(sums.data<int32_t>()[i]) * multiplier);
      expected.mutable_data<uint8_t>()[i] =
          static_cast<uint8_t>(std::clamp(value + 128, 0.f, 255.f));
    }
    for (const Isa isa : test::IsaLevels()) {
      EXPECT_TRUE(Close(Apply({.op_type = "QLinearMatMul", .isa = isa},
                              {a, Tensor::Scalar<float>(0.02f), a_zero, b, b_scale, b_zero,
                               Tensor::Scalar<float>(0.3f), Tensor::Scalar<uint8_t>(128)}),
                        expected, Exact()))
          << IsaName(isa);
    }
  }
}

TEST(MatMulInteger, ItemsOfABatchHaveTheBitsOfSingleRuns) {
  const Tensor a = RandomBytes<uint8_t>({3, 2, 9}, 1);
  const Tensor b = RandomBytes<int8_t>({9, 7}, 2);
  const Tensor whole = Apply({.op_type = "MatMulInteger"}, {a, b});
  for (int64_t item = 0; item < 3; ++item) {
    EXPECT_TRUE(Close(Apply({.op_type = "MatMulInteger"}, {a.Rows(item, item + 1), b}),
                      whole.Rows(item, item + 1), Exact()));
  }
}

TEST(MatMulInteger, WhatDoesNotFitIsRefused) {
  const auto error = [](const std::vector<Tensor>& inputs) {
    return std::string(Message(test::RunOp({.op_type = "MatMulInteger"}, inputs).status()));
  };
  const Tensor a = RandomBytes<uint8_t>({2, 3}, 1);
  const Tensor b = RandomBytes<uint8_t>({3, 4}, 1);
  EXPECT_THAT(error({a, RandomBytes<uint8_t>({2, 4}, 1)}), HasSubstr("inner extent 3"));
  EXPECT_THAT(error({test::RandomFloats({2, 3}, 1), b}), HasSubstr("input 0 is of type float"));
  EXPECT_THAT(error({a, b, Tensor::Scalar<int8_t>(0)}), HasSubstr("input 2 is of type int8"));
  EXPECT_EQ(error({a, b, Tensor(), RandomBytes<uint8_t>({3}, 1)}),
            "input 3 has shape [3] where one element or [4] is expected");
}

}  // namespace
}  // namespace tandem
