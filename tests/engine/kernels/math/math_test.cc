// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/engine/kernels/math/math_test.cc"
#include "hwy/foreach_target.h"  // before every other Highway header
#include "engine/kernels/math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename Function>
HWY_INLINE void Map(const float* x, float* y, size_t n, Function function) {
  const hn::ScalableTag<float> d;
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(function(d, hn::LoadU(d, x + i)), d, y + i);
  }
}

void MapExp(const float* x, float* y, size_t n) {
  Map(x, y, n, [](auto d, auto v) HWY_ATTR { return Exp(d, v); });
}
void MapTanh(const float* x, float* y, size_t n) {
  Map(x, y, n, [](auto d, auto v) HWY_ATTR { return Tanh(d, v); });
}
void MapSigmoid(const float* x, float* y, size_t n) {
  Map(x, y, n, [](auto d, auto v) HWY_ATTR { return Sigmoid(d, v); });
}
void MapErf(const float* x, float* y, size_t n) {
  Map(x, y, n, [](auto d, auto v) HWY_ATTR { return Erf(d, v); });
}
// x and operands of n elements each.
void MapStage(const EpilogueStage& stage, const float* x, const float* operand, float* y,
              size_t n) {
  const hn::ScalableTag<float> d;
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(ApplyStage(d, stage, hn::LoadU(d, x + i), hn::LoadU(d, operand + i)), d, y + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/kernels/simd.h"
#include "tests/support/compare.h"

namespace tandem::kernels {
namespace {

HWY_EXPORT(MapExp);
HWY_EXPORT(MapTanh);
HWY_EXPORT(MapSigmoid);
HWY_EXPORT(MapErf);
HWY_EXPORT(MapStage);

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<Isa> Isas() {
  std::vector<Isa> list = {Isa::kBaseline};
  if (DetectIsa() >= Isa::kAvx2) list.push_back(Isa::kAvx2);
  if (DetectIsa() >= Isa::kAvx512) list.push_back(Isa::kAvx512);
  return list;
}

// Every 4096th float there is and all near the seams and limits, a multiple of 16 of them.
std::vector<float> Floats() {
  std::vector<float> list;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4096) {
    const auto x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (!std::isnan(x)) list.push_back(x);
  }
  for (const float middle : {0.625f, 1.0f, 4.0f, 9.0f, 16.6f, 87.3f, 88.72f, 103.97f}) {
    float x = middle * 0.999f;
    for (int i = 0; i < 2000; ++i) {
      list.push_back(x);
      list.push_back(-x);
      x = std::nextafter(x, kInfinity);
    }
  }
  while (list.size() % 16 != 0) list.push_back(0.5f);
  return list;
}

double UlpsApart(float actual, double exact) {
  const auto rounded = static_cast<float>(exact);
  if (actual == rounded) return 0;
  if (!std::isfinite(actual) || !std::isfinite(rounded)) {
    return std::numeric_limits<double>::infinity();
  }
  const float magnitude = std::abs(rounded);
  const double ulp = static_cast<double>(std::nextafter(magnitude, kInfinity)) - magnitude;
  return std::abs(actual - exact) / ulp;
}

using MapFunction = void (*)(const float*, float*, size_t);

struct Worst {
  double ulps = 0;
  float at = 0;
  float low = kInfinity;
  float high = -kInfinity;
};

Worst WorstOf(MapFunction map, double (*exact)(double)) {
  const std::vector<float> x = Floats();
  std::vector<float> y(x.size());
  map(x.data(), y.data(), x.size());
  Worst worst;
  for (size_t i = 0; i < x.size(); ++i) {
    const double ulps = UlpsApart(y[i], exact(x[i]));
    if (ulps > worst.ulps) {
      worst.ulps = ulps;
      worst.at = x[i];
    }
    worst.low = std::min(worst.low, y[i]);
    worst.high = std::max(worst.high, y[i]);
  }
  return worst;
}

TEST(VectorMath, ExpIsWithinTwoUlpEverywhere) {
  for (const Isa isa : Isas()) {
    const Worst worst = WorstOf(TANDEM_DISPATCH(isa, MapExp), [](double x) { return std::exp(x); });
    EXPECT_LE(worst.ulps, 2) << IsaName(isa) << " at " << worst.at;
    EXPECT_GE(worst.low, 0);
  }
}

TEST(VectorMath, TanhIsWithinTwoUlpAndNeverPassesOne) {
  for (const Isa isa : Isas()) {
    const Worst worst =
        WorstOf(TANDEM_DISPATCH(isa, MapTanh), [](double x) { return std::tanh(x); });
    EXPECT_LE(worst.ulps, 2) << IsaName(isa) << " at " << worst.at;
    EXPECT_GE(worst.low, -1);
    EXPECT_LE(worst.high, 1);
  }
}

TEST(VectorMath, SigmoidIsWithinThreeUlpAndStaysBetweenZeroAndOne) {
  for (const Isa isa : Isas()) {
    const Worst worst =
        WorstOf(TANDEM_DISPATCH(isa, MapSigmoid), [](double x) { return 1 / (1 + std::exp(-x)); });
    EXPECT_LE(worst.ulps, 3) << IsaName(isa) << " at " << worst.at;
    EXPECT_GE(worst.low, 0);
    EXPECT_LE(worst.high, 1);
  }
}

TEST(VectorMath, ErfIsWithinTwoUlpAndNeverPassesOne) {
  for (const Isa isa : Isas()) {
    const Worst worst = WorstOf(TANDEM_DISPATCH(isa, MapErf), [](double x) { return std::erf(x); });
    EXPECT_LE(worst.ulps, 2) << IsaName(isa) << " at " << worst.at;
    EXPECT_GE(worst.low, -1);
    EXPECT_LE(worst.high, 1);
  }
}

constexpr EpilogueOp kAllStages[] = {
    EpilogueOp::kAdd,     EpilogueOp::kSub,         EpilogueOp::kReverseSub, EpilogueOp::kMul,
    EpilogueOp::kRelu,    EpilogueOp::kClip,        EpilogueOp::kLeakyRelu,  EpilogueOp::kSigmoid,
    EpilogueOp::kTanh,    EpilogueOp::kHardSigmoid, EpilogueOp::kHardSwish,  EpilogueOp::kSilu,
    EpilogueOp::kGeluErf, EpilogueOp::kGeluTanh,    EpilogueOp::kPRelu,      EpilogueOp::kMish};

TEST(VectorMath, StagesAgreeWithTheScalarOnes) {
  std::vector<float> x;
  for (int i = -4000; i < 4000; ++i) x.push_back(static_cast<float>(i) / 400);
  std::vector<float> operand(x.size());
  for (size_t i = 0; i < x.size(); ++i) operand[i] = std::sin(static_cast<float>(i));
  for (const Isa isa : Isas()) {
    for (const EpilogueOp op : kAllStages) {
      const EpilogueStage stage{op, OperandKind::kFull, 0.2f, 0.6f};
      std::vector<float> y(x.size());
      TANDEM_DISPATCH(isa, MapStage)(stage, x.data(), operand.data(), y.data(), x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        const float expected = ApplyStage(stage, x[i], operand[i]);
        const float allowed = 4e-7f * std::max(std::abs(expected), std::abs(x[i]));
        ASSERT_NEAR(y[i], expected, allowed)
            << IsaName(isa) << " stage " << static_cast<int>(op) << " at " << x[i];
      }
    }
  }
}

TEST(VectorMath, StagesKeepNanAndTheUpperBoundOfClipWins) {
  const std::vector<float> x(16, std::numeric_limits<float>::quiet_NaN());
  const std::vector<float> ones(16, 1.0f);
  for (const Isa isa : Isas()) {
    for (const EpilogueOp op : kAllStages) {
      const EpilogueStage stage{op, OperandKind::kFull, 0.2f, 0.6f};
      std::vector<float> y(16);
      TANDEM_DISPATCH(isa, MapStage)(stage, x.data(), ones.data(), y.data(), y.size());
      EXPECT_TRUE(std::isnan(y[3])) << IsaName(isa) << " stage " << static_cast<int>(op);
      EXPECT_TRUE(std::isnan(ApplyStage(stage, x[0], 1))) << static_cast<int>(op);
    }
    const EpilogueStage clip{EpilogueOp::kClip, OperandKind::kNone, 3, 1};
    std::vector<float> y(16);
    for (const float value : {-2.0f, 0.0f, 2.0f, 5.0f}) {
      const std::vector<float> same(16, value);
      TANDEM_DISPATCH(isa, MapStage)(clip, same.data(), ones.data(), y.data(), y.size());
      EXPECT_EQ(y[0], 1);
      EXPECT_EQ(ApplyStage(clip, value, 0), 1);
    }
  }
}

}  // namespace
}  // namespace tandem::kernels
#endif  // HWY_ONCE
