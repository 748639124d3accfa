#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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

// Softmax over axes [axis, next), in double.
std::vector<double> Expected(const Tensor& x, int axis, int next) {
  const int64_t outer = x.shape().Product(0, axis);
  const int64_t length = x.shape().Product(axis, next);
  const int64_t inner = x.shape().Product(next, x.shape().rank());
  std::vector<double> y(static_cast<size_t>(x.elements()));
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      const int64_t base = o * length * inner + i;
      double max = -std::numeric_limits<double>::infinity();
      double sum = 0;
      for (int64_t a = 0; a < length; ++a) {
        max = std::max(max, double{x.data<float>()[base + a * inner]});
      }
      for (int64_t a = 0; a < length; ++a) {
        sum += std::exp(x.data<float>()[base + a * inner] - max);
      }
      for (int64_t a = 0; a < length; ++a) {
        y[static_cast<size_t>(base + a * inner)] =
            std::exp(x.data<float>()[base + a * inner] - max) / sum;
      }
    }
  }
  return y;
}

// A few units in the last place, and what rounding x - max leaves in the exponent.
double Allowed(double expected) {
  const double epsilon = std::numeric_limits<float>::epsilon();
  return expected * epsilon * (4 + std::abs(std::log(expected)));
}

void ExpectSoftmax(const OpCall& call, const Tensor& x, int axis, int next) {
  const Tensor y = Apply(call, {x});
  const std::vector<double> expected = Expected(x, axis, next);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(y.data<float>()[i], expected[i], Allowed(expected[i]))
        << ToString(x.shape()) << " axis " << axis << " " << IsaName(call.isa) << " element " << i;
  }
  OpCall logarithm = call;
  logarithm.op_type = "LogSoftmax";
  const Tensor z = Apply(logarithm, {x});
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(z.data<float>()[i], std::log(expected[i]), Allowed(expected[i]) / expected[i]);
  }
}

TEST(Softmax, EveryAxisOfEveryRank) {
  for (const Shape& shape :
       {Shape{7}, Shape{3, 5}, Shape{2, 3, 4}, Shape{2, 3, 70, 2}, Shape{2, 1, 3, 1, 2},
        Shape{2, 1, 3, 2, 1, 2}, Shape{1, 2, 1, 3, 2, 1, 2}, Shape{1, 2, 1, 2, 1, 2, 1, 3},
        Shape{2, 5, 130}}) {
    const Tensor x = RandomFloats(shape, 3, -5, 5);
    for (int axis = 0; axis < shape.rank(); ++axis) {
      for (const Isa isa : test::IsaLevels()) {
        for (const int64_t given : {axis, axis - shape.rank()}) {
          ExpectSoftmax({.op_type = "Softmax", .attributes = {{"axis", given}}, .isa = isa}, x,
                        axis, axis + 1);
        }
      }
    }
  }
}

TEST(Softmax, BeforeOpset13AllAxesFromTheAxisOnAreOneRow) {
  const Tensor x = RandomFloats({2, 3, 4}, 4, -5, 5);
  for (const Isa isa : test::IsaLevels()) {
    for (const int opset : {7, 11, 12}) {
      ExpectSoftmax({.op_type = "Softmax", .opset = opset, .isa = isa}, x, 1, 3);
      for (int64_t axis = 0; axis <= 2; ++axis) {
        ExpectSoftmax(
            {.op_type = "Softmax", .opset = opset, .attributes = {{"axis", axis}}, .isa = isa}, x,
            static_cast<int>(axis), 3);
      }
    }
    ExpectSoftmax({.op_type = "Softmax", .opset = 13, .isa = isa}, x, 2, 3);
  }
}

TEST(Softmax, AnAxisOfOneElementIsOne) {
  const Tensor x = RandomFloats({1, 1023}, 4, -5, 5);
  const Tensor y = Apply({.op_type = "Softmax", .attributes = {{"axis", int64_t{-2}}}}, {x});
  for (const float element : y.span<float>()) ASSERT_EQ(element, 1.0f);
}

TEST(Softmax, RowsOfEveryLengthSumToOne) {
  for (int64_t n = 1; n <= 70; ++n) {
    const Tensor x = RandomFloats({2, n}, static_cast<uint32_t>(n), -20, 20);
    const Tensor columns = RandomFloats({n, 70}, static_cast<uint32_t>(n), -20, 20);
    for (const Isa isa : test::IsaLevels()) {
      const Tensor y = Apply({.op_type = "Softmax", .isa = isa}, {x});
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += y.data<float>()[i];
      EXPECT_NEAR(sum, 1, 1e-6) << n;
      ExpectSoftmax({.op_type = "Softmax", .isa = isa}, x, 1, 2);
      ExpectSoftmax({.op_type = "Softmax", .attributes = {{"axis", int64_t{0}}}, .isa = isa},
                    columns, 0, 1);
      ExpectSoftmax({.op_type = "Softmax", .attributes = {{"axis", int64_t{0}}}, .isa = isa},
                    RandomFloats({5, n}, static_cast<uint32_t>(n), -20, 20), 0, 1);
    }
  }
}

TEST(Softmax, LargeAndInfiniteInputs) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::Of<float>({3, 3}, {1e38f, 1e38f, -1e38f, -inf, 0, 0, nan, 0, 0});
  for (const Isa isa : test::IsaLevels()) {
    const Tensor y = Apply({.op_type = "Softmax", .isa = isa}, {x});
    EXPECT_EQ(y.data<float>()[0], 0.5f);
    EXPECT_EQ(y.data<float>()[2], 0.0f);
    EXPECT_EQ(y.data<float>()[3], 0.0f);
    EXPECT_EQ(y.data<float>()[4], 0.5f);
    for (int i = 6; i < 9; ++i) EXPECT_TRUE(std::isnan(y.data<float>()[i])) << IsaName(isa);
  }
}

TEST(Softmax, TheBitsOfARowDependOnNothingElse) {
  const Tensor x = RandomFloats({33, 17, 75}, 9, -5, 5);
  for (const int64_t axis : {1, 2}) {
    for (const char* op : {"Softmax", "LogSoftmax", "Hardmax"}) {
      OpCall call{.op_type = op, .attributes = {{"axis", axis}}};
      const Tensor whole = Apply(call, {x});
      EXPECT_TRUE(Close(Apply(call, {x.Rows(5, 6)}), whole.Rows(5, 6), Exact()));
      for (const int threads : {2, 4}) {
        call.threads = threads;
        EXPECT_TRUE(Close(Apply(call, {x}), whole, Exact()));
      }
    }
  }
}

TEST(Softmax, HalfAndDoublePrecision) {
  const Tensor x = RandomFloats({3, 9}, 5, -5, 5);
  const Tensor half = *Tensor::Allocate(DType::kFloat16, {3, 9});
  const Tensor rounded = *Tensor::Allocate(DType::kFloat, {3, 9});
  const Tensor wide = *Tensor::Allocate(DType::kDouble, {3, 9});
  for (int i = 0; i < 27; ++i) {
    half.mutable_data<Float16>()[i] = ToFloat16(x.data<float>()[i]);
    rounded.mutable_data<float>()[i] = ToFloat(half.data<Float16>()[i]);
    wide.mutable_data<double>()[i] = x.data<float>()[i];
  }
  const Tensor from_half = Apply({.op_type = "Softmax"}, {half});
  const Tensor from_wide = Apply({.op_type = "Softmax"}, {wide});
  const std::vector<double> expected_half = Expected(rounded, 1, 2);
  const std::vector<double> expected = Expected(x, 1, 2);
  for (size_t i = 0; i < 27; ++i) {
    EXPECT_NEAR(ToFloat(from_half.data<Float16>()[i]), expected_half[i], 5e-4 * expected_half[i]);
    EXPECT_NEAR(from_wide.data<double>()[i], expected[i], 1e-14);
  }
}

TEST(Hardmax, MarksTheFirstMaximum) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::Of<float>({3, 3}, {1, 3, 3, 2, 1, 0, 1, nan, 5});
  EXPECT_TRUE(Close(Apply({.op_type = "Hardmax"}, {x}),
                    Tensor::Of<float>({3, 3}, {0, 1, 0, 1, 0, 0, 0, 1, 0}), Exact()));
}

TEST(Softmax, AnAxisOutsideOfTheInputIsRefused) {
  const auto y = test::RunOp({.op_type = "Softmax", .attributes = {{"axis", int64_t{2}}}},
                             {RandomFloats({2, 3}, 1)});
  ASSERT_FALSE(y.ok());
  EXPECT_EQ(std::string(Message(y.status())),
            "axis 2 is outside of -2 to 1, the axes of float[2,3]");
}

}  // namespace
}  // namespace tandem
