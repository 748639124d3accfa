#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/bound_step.h"
#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Apply;
using test::Close;
using test::Exact;
using test::OpCall;
using test::RandomFloats;
using test::Ulp;

struct Attributes {
  int64_t size;
  float alpha = 1e-4f;
  float beta = 0.75f;
  float bias = 1;
};

Tensor Expected(const Tensor& x, const Attributes& a) {
  const Shape& shape = x.shape();
  const int64_t channels = shape[1];
  const int64_t inner = shape.Product(2, shape.rank());
  const auto before = static_cast<int64_t>(std::floor((static_cast<double>(a.size) - 1) / 2));
  const auto after = static_cast<int64_t>(std::ceil((static_cast<double>(a.size) - 1) / 2));
  Tensor y = *Tensor::Allocate(DType::kFloat, shape);
  for (int64_t i = 0; i < x.elements(); ++i) {
    const int64_t c = i / inner % channels;
    double sum = 0;
    for (int64_t k = std::max<int64_t>(0, c - before); k <= std::min(channels - 1, c + after);
         ++k) {
      sum += std::pow(double{x.data<float>()[i + (k - c) * inner]}, 2);
    }
    const double base = a.bias + double{a.alpha} / static_cast<double>(a.size) * sum;
    y.mutable_data<float>()[i] =
        static_cast<float>(x.data<float>()[i] * std::pow(base, -double{a.beta}));
  }
  return y;
}

void ExpectLrn(const Shape& shape, const Attributes& a) {
  const Tensor x = RandomFloats(shape, 1, -9, 9);
  const Tensor expected = Expected(x, a);
  OpCall call{
      .op_type = "LRN",
      .attributes = {{"size", a.size}, {"alpha", a.alpha}, {"beta", a.beta}, {"bias", a.bias}}};
  for (const Isa isa : test::IsaLevels()) {
    call.isa = isa;
    call.threads = 1;
    const Tensor y = Apply(call, {x});
    EXPECT_TRUE(Close(y, expected, Ulp(6)))
        << IsaName(isa) << " size " << a.size << " beta " << a.beta << " " << ToString(shape);
    call.threads = 4;
    EXPECT_TRUE(Close(Apply(call, {x}), y, Exact()));
    if (shape.rank() < 3) continue;
    const Tensor last = test::BindAndRun({.op_type = "LRN",
                                          .attributes = call.attributes,
                                          .out = shape,
                                          .isa = isa,
                                          .channels_last = test::kInputZero | test::kOutput},
                                         {x});
    EXPECT_TRUE(Close(last, expected, Ulp(6))) << IsaName(isa) << " channels-last";
  }
}

TEST(Lrn, EverySizeInEveryLayout) {
  for (const int64_t size : {1, 2, 3, 4, 5, 6, 11, 200}) {
    ExpectLrn({2, 7, 3, 5}, {size, 0.1f});
    ExpectLrn({1, 19, 70}, {size, 0.1f});
    ExpectLrn({3, 6}, {size, 0.1f});
  }
  for (int64_t n = 1; n <= 70; ++n) {
    ExpectLrn({1, n, 2, 3}, {5, 0.1f});
    ExpectLrn({1, 6, n}, {3, 0.1f});
  }
  ExpectLrn({1, 300, 2, 1}, {5, 1e-4f});
  ExpectLrn({1, 70, 1, 1}, {5, 1e-4f});
  ExpectLrn({1, 3, 2, 2, 3, 2}, {3, 0.5f});
  ExpectLrn({0, 3, 2, 2}, {3, 0.5f});
}

TEST(Lrn, EveryPowerAndBias) {
  for (const float beta : {0.75f, 0.5f, 1.0f, 0.6f, 2.0f, 0.0f}) {
    ExpectLrn({2, 5, 3, 3}, {5, 0.3f, beta, 2});
  }
}

TEST(Lrn, DefaultsAreThoseOfTheSpecification) {
  const Tensor x = RandomFloats({1, 5, 4}, 1, -90, 90);
  const Tensor y = Apply({.op_type = "LRN", .attributes = {{"size", int64_t{3}}}}, {x});
  EXPECT_TRUE(Close(y, Expected(x, {3}), Ulp(6)));
}

TEST(Lrn, RefusesAWindowWithoutChannels) {
  const Tensor x = RandomFloats({1, 5, 4}, 1);
  const auto zero = test::RunOp({.op_type = "LRN", .attributes = {{"size", int64_t{0}}}}, {x});
  EXPECT_EQ(Message(zero.status()), "attribute 'size' is 0 where 1 to 2147483648 is expected");
  EXPECT_EQ(Message(test::RunOp({.op_type = "LRN"}, {x}).status()), "attribute 'size' is missing");
  const auto vector =
      test::RunOp({.op_type = "LRN", .attributes = {{"size", int64_t{3}}}}, {RandomFloats({4}, 1)});
  EXPECT_EQ(Message(vector.status()), "X is float[4] where axes N and C are expected");
}

}  // namespace
}  // namespace tandem
