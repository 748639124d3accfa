// Linear quantisation of rows: the formula written out, of which every version has the bits.
#include "engine/kernels/quant/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_bytes.h"

namespace tandem::kernels {
namespace {

// Every version of a row kernel that has one for each instruction set but the reference.
template <typename Find>
std::vector<std::pair<Isa, RowFunction>> Versions(RowFunction reference, const Find& find) {
  std::vector<std::pair<Isa, RowFunction>> versions = {{Isa::kReference, reference}};
  for (const Isa isa : test::IsaLevels()) {
    if (isa != Isa::kReference) versions.emplace_back(isa, find(isa));
  }
  return versions;
}

// Runs a row of one scale and zero point; the element behind it stays.
template <typename X, typename Y>
std::vector<Y> Run(RowFunction row, const std::vector<X>& x, float scale, const void* zero) {
  const Y guard = 77;
  std::vector<Y> y(x.size() + 1, guard);
  const void* operands[] = {x.data(), &scale, zero};
  const int64_t steps[] = {1, 0, 0};
  row({operands, steps, 3, y.data(), static_cast<int64_t>(x.size())}, {});
  EXPECT_EQ(y.back(), guard);
  y.pop_back();
  return y;
}

// round(x / scale) + zero within the range of T, ties to even, NaN as 0: without std::nearbyint,
// which the reference uses.
template <typename T>
T Quantised(float x, float scale, T zero) {
  const double steps = double{x / scale};
  double rounded = 0;
  if (std::isinf(steps)) rounded = steps;
  if (std::isfinite(steps)) {
    const double below = std::floor(steps);
    const bool tie = steps - below == 0.5;
    rounded = tie ? 2 * std::floor(below / 2 + 0.5) : std::floor(steps + 0.5);
  }
  return static_cast<T>(std::clamp(rounded + static_cast<double>(zero),
                                   double{std::numeric_limits<T>::lowest()},
                                   double{std::numeric_limits<T>::max()}));
}

// Random numbers with halves of steps, the edges of the range and beyond among them.
std::vector<float> Numbers(int64_t n, float scale) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> special = {0.5f * scale, 1.5f * scale, -0.5f * scale, -2.5f * scale,
                                      1e-40f,       -0.0f,        3e38f,         -3e38f,
                                      kInfinity,    -kInfinity,   std::nanf(""), 127.5f * scale};
  const Tensor random =
      test::RandomFloats({n}, static_cast<uint32_t>(n), -300 * scale, 300 * scale);
  std::vector<float> numbers(random.data<float>(), random.data<float>() + n);
  for (size_t i = 0; i < numbers.size(); i += 3) numbers[i] = special[(i / 3) % special.size()];
  return numbers;
}

template <typename T>
void ExpectFormula() {
  const auto quantize = Versions(FindQuantize(DType::kFloat, kDTypeOf<T>), [](Isa isa) {
    return FindQuantizeSimd(DType::kFloat, kDTypeOf<T>, isa);
  });
  const auto dequantize = Versions(FindDequantize(kDTypeOf<T>, DType::kFloat), [](Isa isa) {
    return FindDequantizeSimd(kDTypeOf<T>, DType::kFloat, isa);
  });
  for (int64_t n = 1; n <= 70; ++n) {
    const float scale = n % 2 == 0 ? 0.5f : 0.03f;
    const T zero = static_cast<T>(n * 37);
    const std::vector<float> numbers = Numbers(n, scale);
    std::vector<T> integers(numbers.size());
    std::vector<float> back(numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) {
      integers[i] = Quantised(numbers[i], scale, zero);
      back[i] = static_cast<float>(int{integers[i]} - int{zero}) * scale;
    }
    for (const auto& [isa, row] : quantize) {
      EXPECT_EQ((Run<float, T>(row, numbers, scale, &zero)), integers) << IsaName(isa) << " " << n;
    }
    for (const auto& [isa, row] : dequantize) {
      EXPECT_EQ((Run<T, float>(row, integers, scale, &zero)), back) << IsaName(isa) << " " << n;
    }
  }
}

TEST(QuantizeRows, EveryLengthFollowsTheFormulaForInt8) { ExpectFormula<int8_t>(); }

TEST(QuantizeRows, EveryLengthFollowsTheFormulaForUint8) { ExpectFormula<uint8_t>(); }

}  // namespace
}  // namespace tandem::kernels
