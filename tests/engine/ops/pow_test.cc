#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Close;
using test::Exact;
using test::RandomFloats;
using test::Ulp;

Tensor Power(const Tensor& a, const Tensor& b, Isa isa = DetectIsa()) {
  const auto y = test::RunOp({.op_type = "Pow", .isa = isa}, {a, b});
  EXPECT_TRUE(y.ok()) << y.status();
  return y.ok() ? (*y)[0] : Tensor();
}

TEST(Pow, SquaresAreRoundedOnceHoweverTheExponentIsGiven) {
  const Tensor x = RandomFloats({3, 37}, 1, -9, 9);
  const Tensor expected = *Tensor::Allocate(DType::kFloat, {3, 37});
  for (int i = 0; i < 111; ++i) {
    expected.mutable_data<float>()[i] = x.data<float>()[i] * x.data<float>()[i];
  }
  const Tensor twos = Tensor::Of<float>({3, 1}, {2, 2, 2});
  const Tensor many = *Tensor::Allocate(DType::kFloat, {37});
  std::fill_n(many.mutable_data<float>(), 37, 2.0f);
  for (const Isa isa : test::IsaLevels()) {
    EXPECT_TRUE(Close(Power(x, Tensor::Scalar(2.0f), isa), expected, Exact()));
    EXPECT_TRUE(Close(Power(x, twos, isa), expected, Exact()));
    EXPECT_TRUE(Close(Power(x, many, isa), expected, Exact()));
    EXPECT_TRUE(Close(Power(x, Tensor::Scalar<int64_t>(2), isa), expected, Exact()));
  }
}

TEST(Pow, EveryLengthAndFormOfTheExponentFollowsTheLibrary) {
  for (int64_t n = 1; n <= 70; ++n) {
    const Tensor x = RandomFloats({n}, 1, 0.01f, 9);
    for (const Tensor& e : {RandomFloats({n}, 2, -4, 4), Tensor::Scalar(-1.5f)}) {
      const Tensor expected = *Tensor::Allocate(DType::kFloat, {n});
      for (int64_t i = 0; i < n; ++i) {
        const double exponent = e.data<float>()[e.elements() == 1 ? 0 : i];
        expected.mutable_data<float>()[i] =
            static_cast<float>(std::pow(double{x.data<float>()[i]}, exponent));
      }
      for (const Isa isa : test::IsaLevels()) {
        EXPECT_TRUE(Close(Power(x, e, isa), expected, Ulp(1))) << IsaName(isa) << " " << n;
      }
    }
  }
}

TEST(Pow, FollowsTheLibraryForOtherExponents) {
  const Tensor x = RandomFloats({50}, 1, 0.01f, 9);
  const Tensor e = RandomFloats({50}, 2, -4, 4);
  const Tensor expected = *Tensor::Allocate(DType::kFloat, {50});
  for (int i = 0; i < 50; ++i) {
    expected.mutable_data<float>()[i] =
        static_cast<float>(std::pow(double{x.data<float>()[i]}, double{e.data<float>()[i]}));
  }
  EXPECT_TRUE(Close(Power(x, e), expected, Ulp(1)));
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(Close(Power(Tensor::Of<float>({3}, {-inf, -0.0f, 0}), Tensor::Scalar(0.5f)),
                    Tensor::Of<float>({3}, {inf, 0, 0}), Exact()));
}

TEST(Pow, IntegersAreExactAndWrap) {
  const Tensor base = Tensor::Of<int64_t>({5}, {3, -3, 10, 2, 7});
  const Tensor exponent = Tensor::Of<int64_t>({5}, {37, 3, 18, 64, 0});
  EXPECT_TRUE(Close(Power(base, exponent),
                    Tensor::Of<int64_t>({5}, {450283905890997363, -27, 1000000000000000000, 0, 1}),
                    Exact()));
}

TEST(Pow, IntegersToNegativePowersTruncate) {
  const Tensor base = Tensor::Of<int32_t>({5}, {1, -1, -1, 2, 0});
  const Tensor exponent = Tensor::Of<int32_t>({5}, {-3, -3, -2, -1, -1});
  EXPECT_TRUE(Close(Power(base, exponent), Tensor::Of<int32_t>({5}, {1, -1, 1, 0, 0}), Exact()));
}

TEST(Pow, TheResultHasTheTypeOfTheBase) {
  EXPECT_TRUE(Close(Power(Tensor::Of<int32_t>({2}, {4, 9}), Tensor::Scalar(0.5f)),
                    Tensor::Of<int32_t>({2}, {2, 3}), Exact()));
  EXPECT_TRUE(Close(Power(Tensor::Of<double>({1}, {2}), Tensor::Scalar<uint8_t>(10)),
                    Tensor::Of<double>({1}, {1024}), Exact()));
}

TEST(Pow, BeforeOpset12BothTypesAreEqual) {
  const auto y = test::RunOp({.op_type = "Pow", .opset = 7},
                             {Tensor::Scalar(2.0f), Tensor::Scalar<int64_t>(2)});
  EXPECT_FALSE(y.ok());
}

}  // namespace
}  // namespace tandem
