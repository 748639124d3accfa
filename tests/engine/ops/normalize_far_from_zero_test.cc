// Normalizations of numbers around 10000 with a deviation of 1: the variance is that of the
// differences from the mean. A difference of squares would be wrong in the first digit.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "tests/support/bound_step.h"
#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Apply;
using test::Close;
using test::OpCall;

constexpr double kEpsilon = double{1e-3F};
const Shape kImage = {2, 6, 17, 9};

// One unit in the last place of 10000, which is what the mean of floats may be wrong by.
const test::Tolerance kAUnitOfTheMean = {.absolute = std::ldexp(1.0, -10)};

Tensor FarFromZero(const Shape& shape) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(10000, 1);
  Tensor x = *Tensor::Allocate(DType::kFloat, shape);
  for (int64_t i = 0; i < x.elements(); ++i) x.mutable_data<float>()[i] = normal(generator);
  return x;
}

// Which set the element at (n, c) of an image belongs to.
using SetOf = std::function<int64_t(int64_t n, int64_t c)>;

// (x - mean) / sqrt(variance + epsilon) of each set, in double.
Tensor Normalized(const Tensor& x, const SetOf& set_of, double epsilon) {
  struct Moments {
    double count = 0, mean = 0, variance = 0;
  };
  std::map<int64_t, Moments> sets;
  const int64_t channels = x.shape()[1];
  const int64_t area = x.shape().Product(2, x.shape().rank());
  const auto moments_of = [&](int64_t i) -> Moments& {
    return sets[set_of(i / area / channels, i / area % channels)];
  };
  for (int64_t i = 0; i < x.elements(); ++i) moments_of(i).count += 1;
  for (int64_t i = 0; i < x.elements(); ++i) {
    moments_of(i).mean += x.data<float>()[i] / moments_of(i).count;
  }
  for (int64_t i = 0; i < x.elements(); ++i) {
    Moments& m = moments_of(i);
    m.variance += std::pow(x.data<float>()[i] - m.mean, 2) / m.count;
  }
  Tensor y = *Tensor::Allocate(DType::kFloat, x.shape());
  for (int64_t i = 0; i < x.elements(); ++i) {
    const Moments& m = moments_of(i);
    y.mutable_data<float>()[i] =
        static_cast<float>((x.data<float>()[i] - m.mean) / std::sqrt(m.variance + epsilon));
  }
  return y;
}

Tensor Filled(int64_t elements, float value) {
  return Tensor::Of<float>({elements}, std::vector<float>(static_cast<size_t>(elements), value));
}

// Native and channels-last, at every level, on one thread and on four.
void ExpectInBothLayouts(OpCall call, const std::vector<Tensor>& inputs, const Tensor& expected) {
  for (const Isa isa : test::IsaLevels()) {
    call.isa = isa;
    for (const int threads : {1, 4}) {
      call.threads = threads;
      EXPECT_TRUE(Close(Apply(call, inputs), expected, kAUnitOfTheMean))
          << call.op_type << " native " << IsaName(isa);
    }
    const Tensor y = test::BindAndRun({.op_type = call.op_type,
                                       .opset = call.opset,
                                       .attributes = call.attributes,
                                       .out = expected.shape(),
                                       .isa = isa,
                                       .channels_last = test::kInputZero | test::kOutput},
                                      inputs);
    EXPECT_TRUE(Close(y, expected, kAUnitOfTheMean))
        << call.op_type << " channels-last " << IsaName(isa);
  }
}

TEST(NormalizeFarFromZero, InstanceNormalization) {
  const Tensor x = FarFromZero(kImage);
  const auto channel = [](int64_t n, int64_t c) { return n * 6 + c; };
  ExpectInBothLayouts({.op_type = "InstanceNormalization", .attributes = {{"epsilon", 1e-3F}}},
                      {x, Filled(6, 1), Filled(6, 0)}, Normalized(x, channel, kEpsilon));
}

TEST(NormalizeFarFromZero, GroupNormalization) {
  const Tensor x = FarFromZero(kImage);
  for (const int64_t groups : {1, 3, 6}) {
    const auto group = [groups](int64_t n, int64_t c) { return n * groups + c / (6 / groups); };
    ExpectInBothLayouts({.op_type = "GroupNormalization",
                         .opset = 21,
                         .attributes = {{"epsilon", 1e-3F}, {"num_groups", groups}}},
                        {x, Filled(6, 1), Filled(6, 0)}, Normalized(x, group, kEpsilon));
  }
}

TEST(NormalizeFarFromZero, MeanVarianceNormalization) {
  using Ints = std::vector<int64_t>;
  const Tensor x = FarFromZero(kImage);
  const std::vector<std::pair<Ints, SetOf>> cases = {
      {{0, 2, 3}, [](int64_t, int64_t c) { return c; }},
      {{2, 3}, [](int64_t n, int64_t c) { return n * 6 + c; }},
      {{1, 2, 3}, [](int64_t n, int64_t) { return n; }},
      {{0, 1, 2, 3}, [](int64_t, int64_t) { return 0; }},
  };
  for (const auto& [axes, set_of] : cases) {
    ExpectInBothLayouts({.op_type = "MeanVarianceNormalization", .attributes = {{"axes", axes}}},
                        {x}, Normalized(x, set_of, 0));
  }
}

TEST(NormalizeFarFromZero, LayerNormalizationOfAnItem) {
  const Tensor x = FarFromZero(kImage);
  const Tensor one = Filled(1, 1);
  const Tensor expected = Normalized(
      x, [](int64_t n, int64_t) { return n; }, kEpsilon);
  for (const Isa isa : test::IsaLevels()) {
    EXPECT_TRUE(Close(Apply({.op_type = "LayerNormalization",
                             .attributes = {{"axis", int64_t{1}}, {"epsilon", 1e-3F}},
                             .isa = isa},
                            {x, one}),
                      expected, kAUnitOfTheMean))
        << IsaName(isa);
  }
}

}  // namespace
}  // namespace tandem
