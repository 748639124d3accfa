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
using test::RandomFloats;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Tensor Apply(const std::string& op, const std::vector<Tensor>& inputs, Isa isa = DetectIsa()) {
  const auto y = test::RunOp({.op_type = op, .isa = isa}, inputs);
  EXPECT_TRUE(y.ok()) << op << ": " << y.status();
  return y.ok() ? (*y)[0] : Tensor();
}

TEST(Variadic, InputsOfDifferentShapesBroadcast) {
  const Tensor a = Tensor::Of<float>({2, 1}, {1, 5});
  const Tensor b = Tensor::Of<float>({3}, {2, 3, 4});
  const Tensor c = Tensor::Scalar(3.0f);
  for (const Isa isa : test::IsaLevels()) {
    EXPECT_TRUE(Close(Apply("Max", {a, b, c}, isa), Tensor::Of<float>({2, 3}, {3, 3, 4, 5, 5, 5}),
                      Exact()));
    EXPECT_TRUE(Close(Apply("Min", {a, b, c}, isa), Tensor::Of<float>({2, 3}, {1, 1, 1, 2, 3, 3}),
                      Exact()));
    EXPECT_TRUE(Close(Apply("Sum", {a, b, c}, isa),
                      Tensor::Of<float>({2, 3}, {6, 7, 8, 10, 11, 12}), Exact()));
    EXPECT_TRUE(Close(Apply("Mean", {a, b, c}, isa),
                      Tensor::Of<float>({2, 3}, {2, 7.0f / 3, 8.0f / 3, 10.0f / 3, 11.0f / 3, 4}),
                      Exact()));
  }
}

TEST(Variadic, EveryLengthIsCombinedInOrder) {
  for (int64_t n = 1; n <= 70; ++n) {
    const std::vector<Tensor> inputs = {RandomFloats({2, n}, 1), RandomFloats({n}, 2),
                                        RandomFloats({2, 1}, 3)};
    Tensor most = *Tensor::Allocate(DType::kFloat, {2, n});
    Tensor least = *Tensor::Allocate(DType::kFloat, {2, n});
    Tensor sum = *Tensor::Allocate(DType::kFloat, {2, n});
    for (int64_t i = 0; i < 2 * n; ++i) {
      const float a = inputs[0].data<float>()[i];
      const float b = inputs[1].data<float>()[i % n];
      const float c = inputs[2].data<float>()[i / n];
      most.mutable_data<float>()[i] = std::max({a, b, c});
      least.mutable_data<float>()[i] = std::min({a, b, c});
      sum.mutable_data<float>()[i] = (a + b) + c;
    }
    for (const Isa isa : test::IsaLevels()) {
      EXPECT_TRUE(Close(Apply("Max", inputs, isa), most, Exact())) << IsaName(isa) << " " << n;
      EXPECT_TRUE(Close(Apply("Min", inputs, isa), least, Exact())) << IsaName(isa) << " " << n;
      EXPECT_TRUE(Close(Apply("Sum", inputs, isa), sum, Exact())) << IsaName(isa) << " " << n;
    }
  }
}

TEST(Variadic, OneInputIsReturnedAndManyAreFolded) {
  const Tensor x = RandomFloats({3, 300}, 1);
  EXPECT_TRUE(Close(Apply("Sum", {x}), x, Exact()));
  EXPECT_TRUE(Close(Apply("Mean", {x}), x, Exact()));
  const std::vector<Tensor> inputs(20, x);
  EXPECT_TRUE(Close(Apply("Max", inputs), x, Exact()));
  EXPECT_TRUE(Close(Apply("Min", inputs), x, Exact()));
}

TEST(Variadic, NanOnEitherSideWins) {
  const Tensor a = Tensor::Of<float>({3}, {kNan, 1, 2});
  const Tensor b = Tensor::Of<float>({3}, {1, kNan, 3});
  const auto half = [](const Tensor& x) {
    Tensor y = *Tensor::Allocate(DType::kFloat16, x.shape());
    for (int64_t i = 0; i < x.elements(); ++i) {
      y.mutable_data<Float16>()[i] = ToFloat16(x.data<float>()[i]);
    }
    return y;
  };
  for (const Isa isa : test::IsaLevels()) {
    for (const char* op : {"Max", "Min"}) {
      const Tensor y = Apply(op, {a, b}, isa);
      EXPECT_TRUE(std::isnan(y.data<float>()[0])) << op;
      EXPECT_TRUE(std::isnan(y.data<float>()[1])) << op;
      EXPECT_EQ(y.data<float>()[2], op == std::string("Max") ? 3 : 2);
      const Tensor z = Apply(op, {half(a), half(b)}, isa);
      EXPECT_TRUE(std::isnan(ToFloat(z.data<Float16>()[0]))) << op;
      EXPECT_TRUE(std::isnan(ToFloat(z.data<Float16>()[1]))) << op;
    }
  }
}

TEST(Variadic, IntegersAreExact) {
  constexpr int64_t kBig = (int64_t{1} << 53) + 1;
  EXPECT_TRUE(
      Close(Apply("Max", {Tensor::Scalar<int64_t>(kBig), Tensor::Scalar<int64_t>(kBig - 1)}),
            Tensor::Scalar<int64_t>(kBig), Exact()));
}

TEST(Variadic, HalfPrecisionIsSummedInFloat) {
  const Tensor x = Tensor::Of<Float16>({1}, {ToFloat16(60000)});
  const Tensor y = Apply("Mean", {x, x});
  EXPECT_EQ(ToFloat(y.data<Float16>()[0]), ToFloat(ToFloat16(60000)));
}

}  // namespace
}  // namespace tandem
