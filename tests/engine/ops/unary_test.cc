#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

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

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The formulas of the specification, in double.
struct Formula {
  const char* op;
  double (*f)(double);
  float low;
  float high;
  double ulps;  // of the float32 kernel
  double absolute = 0;
  int opset = 24;
  graph::Attributes attributes = {};
};

double Softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double HardSigmoid(double x, double alpha, double beta) {
  return std::max(0.0, std::min(1.0, alpha * x + beta));
}

const std::vector<Formula>& Formulas() {
  static const std::vector<Formula> formulas = {
      {"Abs", [](double x) { return std::abs(x); }, -9, 9, 0},
      {"Neg", [](double x) { return -x; }, -9, 9, 0},
      {"Sign", [](double x) { return x > 0   ? 1.0
                                     : x < 0 ? -1.0
                                             : 0.0; }, -9, 9, 0},
      {"Relu", [](double x) { return std::max(x, 0.0); }, -9, 9, 0},
      {"Ceil", [](double x) { return std::ceil(x); }, -9, 9, 0},
      {"Floor", [](double x) { return std::floor(x); }, -9, 9, 0},
      {"Round", [](double x) { return std::nearbyint(x); }, -9, 9, 0},
      {"Sqrt", [](double x) { return std::sqrt(x); }, 0, 90, 0.5},
      {"Reciprocal", [](double x) { return 1 / x; }, 0.1f, 9, 0.5},
      {"Exp", [](double x) { return std::exp(x); }, -87, 88, 2},
      {"Log", [](double x) { return std::log(x); }, 0.001f, 900, 2},
      {"Erf", [](double x) { return std::erf(x); }, -5, 5, 3},
      {"Sin", [](double x) { return std::sin(x); }, -9, 9, 2},
      {"Cos", [](double x) { return std::cos(x); }, -9, 9, 2},
      {"Tan", [](double x) { return std::tan(x); }, -1.5f, 1.5f, 2},
      {"Asin", [](double x) { return std::asin(x); }, -1, 1, 2},
      {"Acos", [](double x) { return std::acos(x); }, -1, 1, 2},
      {"Atan", [](double x) { return std::atan(x); }, -9, 9, 2},
      {"Sinh", [](double x) { return std::sinh(x); }, -9, 9, 2},
      {"Cosh", [](double x) { return std::cosh(x); }, -9, 9, 2},
      {"Tanh", [](double x) { return std::tanh(x); }, -10, 10, 3},
      {"Asinh", [](double x) { return std::asinh(x); }, -9, 9, 2},
      {"Acosh", [](double x) { return std::acosh(x); }, 1, 9, 2},
      {"Atanh", [](double x) { return std::atanh(x); }, -0.99f, 0.99f, 2},
      {"Sigmoid", Sigmoid, -80, 80, 3},
      {"Softplus", Softplus, -80, 80, 3},
      {"Softsign", [](double x) { return x / (1 + std::abs(x)); }, -9, 9, 1},
      {"Elu", [](double x) { return x < 0 ? std::expm1(x) : x; }, -9, 9, 2},
      {"Celu",
       [](double x) { return x < 0 ? 0.5 * std::expm1(x / 0.5) : x; },
       -9,
       9,
       3,
       0,
       24,
       {{"alpha", 0.5f}}},
      {"Selu",
       [](double x) {
         return 1.05070102214813232421875 * (x < 0 ? 1.67326319217681884765625 * std::expm1(x) : x);
       },
       -9, 9, 3},
      {"LeakyRelu", [](double x) { return x < 0 ? double{0.01f} * x : x; }, -9, 9, 1},
      {"ThresholdedRelu", [](double x) { return x > 1 ? x : 0; }, -9, 9, 0},
      {"HardSigmoid", [](double x) { return HardSigmoid(x, double{0.2f}, 0.5); }, -9, 9, 1, 1e-7},
      {"HardSwish", [](double x) { return x * HardSigmoid(x, 1.0 / 6, 0.5); }, -9, 9, 3, 4e-7},
      {"Mish", [](double x) { return x * std::tanh(Softplus(x)); }, -80, 80, 4},
      {"Swish", [](double x) { return x * Sigmoid(2 * x); }, -20, 20, 4, 0, 24, {{"alpha", 2.0f}}},
      {"Gelu", [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }, -9, 9, 4,
       4e-7},
      {"Gelu",
       [](double x) {
         return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
       },
       -9,
       9,
       8,
       1e-6,
       24,
       {{"approximate", std::string("tanh")}}},
      {"Shrink",
       [](double x) { return x < -0.5  ? x + 1
                             : x > 0.5 ? x - 1
                                       : 0; },
       -9,
       9,
       0.5,
       0,
       24,
       {{"bias", 1.0f}}},
  };
  return formulas;
}

void ExpectNear(const Formula& formula, const Tensor& x, const Tensor& y,
                const std::string& where) {
  for (int64_t i = 0; i < x.elements(); ++i) {
    const double expected = formula.f(x.data<float>()[i]);
    const auto rounded = static_cast<float>(expected);
    const double ulp = std::nextafter(std::abs(rounded), kInf) - std::abs(rounded);
    const double allowed = std::max((formula.ulps + 0.5) * ulp, formula.absolute);
    ASSERT_NEAR(y.data<float>()[i], expected, allowed) << where << " at " << x.data<float>()[i];
  }
}

TEST(Unary, EveryFormulaHoldsAtEveryLevelAndLength) {
  std::vector<int64_t> lengths(71);
  std::iota(lengths.begin(), lengths.end(), 0);
  lengths.push_back(4099);
  uint32_t seed = 1;
  for (const Formula& formula : Formulas()) {
    for (const Isa isa : test::IsaLevels()) {
      const std::string where = fmt::format("{} {}", formula.op, IsaName(isa));
      for (const int64_t n : lengths) {
        const Tensor x = RandomFloats({n}, ++seed, formula.low, formula.high);
        const OpCall call{.op_type = formula.op,
                          .opset = formula.opset,
                          .attributes = formula.attributes,
                          .isa = isa};
        ExpectNear(formula, x, Apply(call, {x}), where);
      }
    }
  }
}

TEST(Unary, TheBitsOfAnElementDependOnNothingElse) {
  for (const Formula& formula : Formulas()) {
    const Tensor x = RandomFloats({70001}, 7, formula.low, formula.high);
    OpCall call{.op_type = formula.op, .opset = formula.opset, .attributes = formula.attributes};
    const Tensor whole = Apply(call, {x});
    for (const int64_t begin : {1, 5, 13, 69990}) {
      EXPECT_TRUE(
          Close(Apply(call, {x.Rows(begin, begin + 11)}), whole.Rows(begin, begin + 11), Exact()))
          << formula.op;
    }
    for (const int threads : {2, 4}) {
      call.threads = threads;
      EXPECT_TRUE(Close(Apply(call, {x}), whole, Exact())) << formula.op;
    }
  }
}

// Every float16 through the 16-bit kernel is the float32 kernel's result, rounded.
TEST(Unary, AllHalfPrecisionNumbersAreTheRoundedFloatResults) {
  const Tensor half = *Tensor::Allocate(DType::kFloat16, {65536});
  const Tensor wide = *Tensor::Allocate(DType::kFloat, {65536});
  for (int i = 0; i < 65536; ++i) {
    const Float16 value{static_cast<uint16_t>(i)};
    half.mutable_data<Float16>()[i] = value;
    wide.mutable_data<float>()[i] = ToFloat(value);
  }
  for (const Formula& formula : Formulas()) {
    for (const Isa isa : test::IsaLevels()) {
      const OpCall call{.op_type = formula.op,
                        .opset = formula.opset,
                        .attributes = formula.attributes,
                        .isa = isa};
      const Tensor from_half = Apply(call, {half});
      const Tensor from_wide = Apply(call, {wide});
      for (int i = 0; i < 65536; ++i) {
        const Float16 expected = ToFloat16(from_wide.data<float>()[i]);
        const Float16 actual = from_half.data<Float16>()[i];
        if (std::isnan(ToFloat(expected)) && std::isnan(ToFloat(actual))) continue;
        ASSERT_EQ(actual.bits, expected.bits) << formula.op << " of bits " << i;
      }
    }
  }
}

TEST(Unary, BoundedFunctionsStayInTheirBounds) {
  const Tensor x = *Tensor::Allocate(DType::kFloat, {1'000'000});
  for (int i = 0; i < 1'000'000; ++i) {
    const float centre = i % 4 == 0 ? 9.0f : i % 4 == 1 ? -9.0f : i % 4 == 2 ? 88.0f : -88.0f;
    x.mutable_data<float>()[i] = centre + static_cast<float>(i - 500'000) * 2e-6f;
  }
  for (const Isa isa : test::IsaLevels()) {
    const Tensor tanh = Apply({.op_type = "Tanh", .isa = isa}, {x});
    const Tensor sigmoid = Apply({.op_type = "Sigmoid", .isa = isa}, {x});
    const Tensor erf = Apply({.op_type = "Erf", .isa = isa}, {x});
    const Tensor gelu = Apply({.op_type = "Gelu", .opset = 20, .isa = isa}, {x});
    for (int i = 0; i < 1'000'000; ++i) {
      const float in = x.data<float>()[i];
      ASSERT_LE(std::abs(tanh.data<float>()[i]), 1.0f) << in;
      ASSERT_LE(std::abs(erf.data<float>()[i]), 1.0f) << in;
      ASSERT_GE(sigmoid.data<float>()[i], 0.0f) << in;
      ASSERT_LE(sigmoid.data<float>()[i], 1.0f) << in;
      ASSERT_LE(std::abs(gelu.data<float>()[i]), std::abs(in)) << in;
      ASSERT_EQ(std::signbit(gelu.data<float>()[i]), std::signbit(in)) << in;
    }
  }
}

TEST(Unary, NanStaysNanAndInfinitiesGoToTheLimits) {
  const Tensor x = Tensor::Of<float>({5}, {kNan, kInf, -kInf, 0.0f, -0.0f});
  for (const Isa isa : test::IsaLevels()) {
    for (const Formula& formula : Formulas()) {
      const OpCall call{.op_type = formula.op,
                        .opset = formula.opset,
                        .attributes = formula.attributes,
                        .isa = isa};
      EXPECT_TRUE(std::isnan(Apply(call, {x}).data<float>()[0])) << formula.op << IsaName(isa);
    }
    const auto expect = [&](const char* op, std::initializer_list<float> expected) {
      EXPECT_TRUE(Close(Apply({.op_type = op, .isa = isa}, {x.Rows(1, 5)}),
                        Tensor::Of<float>({4}, expected), Ulp(1)))
          << op << " " << IsaName(isa);
    };
    expect("Exp", {kInf, 0, 1, 1});
    expect("Tanh", {1, -1, 0, -0.0f});
    expect("Sigmoid", {1, 0, 0.5f, 0.5f});
    expect("Erf", {1, -1, 0, -0.0f});
    expect("Relu", {kInf, 0, 0, -0.0f});
    expect("Softplus", {kInf, 0, 0.69314718f, 0.69314718f});
    expect("Softsign", {1, -1, 0, -0.0f});
    expect("Elu", {kInf, -1, 0, -0.0f});
    expect("Reciprocal", {0, -0.0f, kInf, -kInf});
    expect("Neg", {-kInf, kInf, -0.0f, 0});
  }
}

TEST(Unary, SoftplusKeepsItsRelativePrecisionFarBelowZero) {
  const Tensor y = Apply({.op_type = "Softplus"}, {Tensor::Of<float>({1}, {-12.3392f})});
  EXPECT_NEAR(y.data<float>()[0] / 4.376758e-06, 1, 1e-6);
}

TEST(Unary, RoundTakesHalvesToEven) {
  const Tensor x = Tensor::Of<float>({6}, {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f});
  for (const Isa isa : test::IsaLevels()) {
    EXPECT_TRUE(Close(Apply({.op_type = "Round", .isa = isa}, {x}),
                      Tensor::Of<float>({6}, {0, 2, 2, -0.0f, -2, -2}), Exact()));
  }
}

TEST(Unary, RoundingKeepsTheSignOfZeroAndLargeNumbers) {
  const Tensor x = Tensor::Of<float>({6}, {-0.5f, -0.0f, 0.5f, 1e10f, -1e10f, 8388609.0f});
  for (const Isa isa : test::IsaLevels()) {
    EXPECT_TRUE(Close(Apply({.op_type = "Ceil", .isa = isa}, {x}),
                      Tensor::Of<float>({6}, {-0.0f, -0.0f, 1, 1e10f, -1e10f, 8388609.0f}),
                      Exact()));
    EXPECT_TRUE(Close(Apply({.op_type = "Floor", .isa = isa}, {x}),
                      Tensor::Of<float>({6}, {-1, -0.0f, 0, 1e10f, -1e10f, 8388609.0f}), Exact()));
    EXPECT_TRUE(Close(Apply({.op_type = "Round", .isa = isa}, {x}),
                      Tensor::Of<float>({6}, {-0.0f, -0.0f, 0, 1e10f, -1e10f, 8388609.0f}),
                      Exact()));
  }
}

TEST(Unary, IntegersWrap) {
  const Tensor x = Tensor::Of<int8_t>({4}, {-128, -1, 0, 127});
  EXPECT_TRUE(
      Close(Apply({.op_type = "Abs"}, {x}), Tensor::Of<int8_t>({4}, {-128, 1, 0, 127}), Exact()));
  EXPECT_TRUE(
      Close(Apply({.op_type = "Neg"}, {x}), Tensor::Of<int8_t>({4}, {-128, 1, 0, -127}), Exact()));
  EXPECT_TRUE(
      Close(Apply({.op_type = "Sign"}, {x}), Tensor::Of<int8_t>({4}, {-1, -1, 0, 1}), Exact()));
  EXPECT_TRUE(
      Close(Apply({.op_type = "Relu"}, {x}), Tensor::Of<int8_t>({4}, {0, 0, 0, 127}), Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "BitwiseNot", .opset = 18}, {x}),
                    Tensor::Of<int8_t>({4}, {127, 0, -1, -128}), Exact()));
}

TEST(Unary, InfinitiesAreFoundByTheirSigns) {
  const Tensor x = Tensor::Of<float>({4}, {kInf, -kInf, kNan, 1});
  const auto run = [&](graph::Attributes attributes) {
    return Apply({.op_type = "IsInf", .attributes = std::move(attributes)}, {x});
  };
  EXPECT_TRUE(Close(run({}), Tensor::Of<bool>({4}, {true, true, false, false}), Exact()));
  EXPECT_TRUE(Close(run({{"detect_negative", int64_t{0}}}),
                    Tensor::Of<bool>({4}, {true, false, false, false}), Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "IsNaN"}, {x}),
                    Tensor::Of<bool>({4}, {false, false, true, false}), Exact()));
}

TEST(Unary, AnotherDtypeIsRefusedWithTheOnesThatAreTaken) {
  const auto y = test::RunOp({.op_type = "Exp"}, {Tensor::Of<int32_t>({1}, {1})});
  ASSERT_FALSE(y.ok());
  EXPECT_EQ(std::string(Message(y.status())),
            "input 0 is of type int32 where one of float, float16, double, bfloat16 is expected");
}

}  // namespace
}  // namespace tandem
