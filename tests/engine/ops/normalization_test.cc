// LayerNormalization, RMSNormalization, InstanceNormalization, GroupNormalization,
// MeanVarianceNormalization, LpNormalization.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

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
using test::RunOp;
using test::Ulp;

std::vector<Tensor> AllOutputs(const OpCall& call, const std::vector<Tensor>& inputs) {
  auto result = RunOp(call, inputs);
  EXPECT_TRUE(result.ok()) << call.op_type << ": " << result.status();
  return result.ok() ? *std::move(result) : std::vector<Tensor>(3);
}

std::string ErrorOf(const OpCall& call, const std::vector<Tensor>& inputs) {
  const auto result = RunOp(call, inputs);
  EXPECT_FALSE(result.ok());
  return result.ok() ? "" : std::string(Message(result.status()));
}

Tensor Floats(const Shape& shape, const std::vector<double>& values) {
  Tensor tensor = *Tensor::Allocate(DType::kFloat, shape);
  for (size_t i = 0; i < values.size(); ++i) {
    tensor.mutable_data<float>()[i] = static_cast<float>(values[i]);
  }
  return tensor;
}

Tensor Cast(const Tensor& x, DType dtype) {
  return Apply({.op_type = "Cast", .attributes = {{"to", static_cast<int64_t>(dtype)}}}, {x});
}

// Element i of a native tensor of `shape`: its index along each axis.
std::vector<int64_t> IndexOf(const Shape& shape, int64_t i) {
  std::vector<int64_t> index(static_cast<size_t>(shape.rank()));
  for (int axis = shape.rank(); axis-- > 0;) {
    index[static_cast<size_t>(axis)] = i % shape[axis];
    i /= shape[axis];
  }
  return index;
}

// The element of `parameter` that broadcasts to `index`.
double Broadcast(const Tensor& parameter, const std::vector<int64_t>& index) {
  if (!parameter.valid()) return 0;
  int64_t at = 0;
  const int rank = parameter.shape().rank();
  for (int axis = 0; axis < rank; ++axis) {
    const int64_t extent = parameter.shape()[axis];
    const int64_t i = index[index.size() - static_cast<size_t>(rank - axis)];
    at = at * extent + (extent == 1 ? 0 : i);
  }
  return parameter.data<float>()[at];
}

struct Moments {
  double count = 0, sum = 0, mean = 0, squares = 0, centred = 0, magnitudes = 0;
};

// Statistics in double of the elements that agree in `key`.
template <typename Key>
std::map<std::vector<int64_t>, Moments> MomentsBy(const Tensor& x, const Key& key) {
  std::map<std::vector<int64_t>, Moments> sets;
  for (int64_t i = 0; i < x.elements(); ++i) {
    Moments& m = sets[key(IndexOf(x.shape(), i))];
    const double value = x.data<float>()[i];
    m.count += 1;
    m.sum += value;
    m.squares += value * value;
    m.magnitudes += std::abs(value);
  }
  for (auto& [k, m] : sets) m.mean = m.sum / m.count;
  for (int64_t i = 0; i < x.elements(); ++i) {
    Moments& m = sets[key(IndexOf(x.shape(), i))];
    m.centred += std::pow(x.data<float>()[i] - m.mean, 2);
  }
  return sets;
}

// Values of y around 1 come from a few roundings; where terms cancel, units of their size count.
void ExpectNear(const Tensor& actual, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  for (int64_t i = 0; i < expected.elements(); ++i) {
    const double e = expected.data<float>()[i];
    const double allowed = 8 * std::numeric_limits<float>::epsilon() * std::max(1.0, std::abs(e));
    ASSERT_NEAR(actual.data<float>()[i], e, allowed) << what << " element " << i;
  }
}

// Checks one call at every level and with several threads against `expected`.
void ExpectEverywhere(OpCall call, const std::vector<Tensor>& inputs, const Tensor& expected) {
  for (const Isa isa : test::IsaLevels()) {
    call.isa = isa;
    call.threads = 1;
    const Tensor y = Apply(call, inputs);
    ExpectNear(y, expected,
               fmt::format("{} {} {}", call.op_type, ToString(y.shape()), IsaName(isa)));
    call.threads = 4;
    EXPECT_TRUE(Close(Apply(call, inputs), y, Exact()));
  }
}

struct LayerCase {
  Shape x;
  int64_t axis;
  Shape scale;
  Shape bias;
};

void ExpectLayerNorm(const LayerCase& c, const std::string& op, bool with_bias) {
  const Tensor x = RandomFloats(c.x, 1, -3, 5);
  const Tensor scale = RandomFloats(c.scale, 2);
  const Tensor bias = with_bias ? RandomFloats(c.bias, 3) : Tensor();
  const auto axis = static_cast<size_t>(c.axis < 0 ? c.axis + c.x.rank() : c.axis);
  const auto key = [axis](std::vector<int64_t> index) {
    index.resize(axis);
    return index;
  };
  const auto sets = MomentsBy(x, key);
  const bool rms = op != "LayerNormalization";
  std::vector<double> expected;
  for (int64_t i = 0; i < x.elements(); ++i) {
    const auto index = IndexOf(c.x, i);
    const Moments& m = sets.at(key(index));
    const double mean = rms ? 0 : m.mean;
    const double variance = (rms ? m.squares : m.centred) / m.count;
    expected.push_back((x.data<float>()[i] - mean) / std::sqrt(variance + double{1e-3f}) *
                           Broadcast(scale, index) +
                       Broadcast(bias, index));
  }
  std::vector<Tensor> inputs = {x, scale};
  if (with_bias) inputs.push_back(bias);
  ExpectEverywhere(
      {.op_type = op, .opset = rms ? 23 : 17, .attributes = {{"axis", c.axis}, {"epsilon", 1e-3f}}},
      inputs, Floats(c.x, expected));
}

const std::vector<LayerCase>& LayerCases() {
  static const std::vector<LayerCase> cases = {
      {{2, 3, 4, 8}, -1, {8}, {8}},
      {{2, 3, 4, 8}, -2, {4, 8}, {4, 8}},
      {{2, 3, 4, 8}, 1, {3, 4, 8}, {3, 4, 8}},
      {{5, 7}, 0, {5, 7}, {5, 7}},
      {{3, 1}, -1, {1}, {1}},
      {{1, 1, 1}, 1, {1, 1}, {1, 1}},
      {{70}, -1, {70}, {70}},
      {{0, 5}, -1, {5}, {5}},
      {{3, 130}, -1, {130}, {130}},
      {{4, 257}, 1, {1}, {257}},
      {{2, 3, 5}, 1, {3, 1}, {5}},
      {{2, 3, 5}, 2, {2, 3, 1}, {2, 3, 5}},
  };
  return cases;
}

TEST(LayerNormalization, EveryAxisAndEveryBroadcastOfScaleAndBias) {
  for (const LayerCase& c : LayerCases()) {
    ExpectLayerNorm(c, "LayerNormalization", true);
    ExpectLayerNorm(c, "LayerNormalization", false);
  }
  for (int64_t n = 1; n <= 70; ++n) {
    ExpectLayerNorm({{3, n}, -1, {n}, {n}}, "LayerNormalization", true);
    ExpectLayerNorm({{n, 5}, -1, {5}, {5}}, "LayerNormalization", true);
  }
}

TEST(RMSNormalization, EveryAxisAndEveryBroadcastOfTheScale) {
  for (const LayerCase& c : LayerCases()) {
    ExpectLayerNorm(c, "RMSNormalization", false);
    ExpectLayerNorm(c, "SimplifiedLayerNormalization", false);
  }
  for (int64_t n = 1; n <= 70; ++n)
    ExpectLayerNorm({{3, n}, -1, {n}, {n}}, "RMSNormalization", false);
}

TEST(LayerNormalization, MeanAndInverseDeviationAreOutputsInTheStashType) {
  const Tensor x = RandomFloats({4, 3, 50}, 5, -3, 5);
  const Tensor scale = RandomFloats({50}, 6);
  const auto sets = MomentsBy(x, [](std::vector<int64_t> index) {
    index.resize(2);
    return index;
  });
  std::vector<double> means, inverses;
  for (const auto& [key, m] : sets) {
    means.push_back(m.mean);
    inverses.push_back(1 / std::sqrt(m.centred / m.count + double{1e-5f}));
  }
  for (const Isa isa : test::IsaLevels()) {
    const auto out =
        AllOutputs({.op_type = "LayerNormalization", .outputs = 3, .isa = isa}, {x, scale});
    EXPECT_TRUE(Close(out[1], Floats({4, 3, 1}, means), Ulp(1)));
    EXPECT_TRUE(Close(out[2], Floats({4, 3, 1}, inverses), Ulp(1)));
    const OpCall narrow{.op_type = "LayerNormalization",
                        .attributes = {{"stash_type", int64_t{16}}},
                        .outputs = 3,
                        .isa = isa};
    const auto rounded = AllOutputs(narrow, {x, scale});
    EXPECT_TRUE(Close(rounded[0], out[0], Exact()));
    EXPECT_TRUE(Close(rounded[1], Cast(out[1], DType::kBfloat16), Exact()));
    EXPECT_TRUE(Close(rounded[2], Cast(out[2], DType::kBfloat16), Exact()));
  }
  const auto simplified =
      AllOutputs({.op_type = "SimplifiedLayerNormalization", .outputs = 2}, {x, scale});
  EXPECT_EQ(simplified[1].shape(), (Shape{4, 3, 1}));
}

TEST(LayerNormalization, ALargeMeanCostsNoDigits) {
  // The variance is 1 beside a mean of 2^20: a difference of squares would leave nothing of it.
  const float base = 1048576;
  Tensor x = *Tensor::Allocate(DType::kFloat, {2, 256});
  std::vector<double> expected;
  for (int64_t i = 0; i < x.elements(); ++i) {
    x.mutable_data<float>()[i] = base + (i % 2 == 0 ? 1.0f : -1.0f);
    expected.push_back((i % 2 == 0 ? 1 : -1) / std::sqrt(1 + double{1e-5f}));
  }
  const Tensor one = Tensor::Of<float>({1}, {1});
  ExpectEverywhere({.op_type = "LayerNormalization"}, {x, one}, Floats({2, 256}, expected));
}

TEST(LayerNormalization, ElementsOf64And16Bits) {
  const Tensor x = RandomFloats({3, 37}, 8, -2, 2);
  const Tensor scale = RandomFloats({37}, 9);
  const Tensor bias = RandomFloats({37}, 10);
  const OpCall call{.op_type = "LayerNormalization", .outputs = 3};
  const auto wide = AllOutputs(
      call, {Cast(x, DType::kDouble), Cast(scale, DType::kDouble), Cast(bias, DType::kDouble)});
  ASSERT_EQ(wide[0].dtype(), DType::kDouble);
  ASSERT_EQ(wide[1].dtype(), DType::kFloat);
  ExpectNear(Apply(call, {x, scale, bias}), Cast(wide[0], DType::kFloat), "float64");
  for (const DType half : {DType::kFloat16, DType::kBfloat16}) {
    std::vector<Tensor> narrow, rounded;
    for (const Tensor& input : {x, scale, bias}) {
      narrow.push_back(Cast(input, half));
      rounded.push_back(Cast(narrow.back(), DType::kFloat));
    }
    OpCall reference = call;
    reference.isa = Isa::kReference;
    const auto out = AllOutputs(call, narrow);
    const auto expected = AllOutputs(reference, rounded);
    EXPECT_TRUE(Close(out[0], Cast(expected[0], half), Exact())) << DTypeName(half);
    EXPECT_TRUE(Close(out[1], expected[1], Exact()));
  }
}

TEST(RMSNormalization, AnswersInTheTypeOfItsScale) {
  const Tensor x = RandomFloats({3, 9}, 8, -2, 2);
  const Tensor scale = RandomFloats({9}, 9);
  const OpCall call{.op_type = "RMSNormalization", .opset = 23};
  const Tensor half = Cast(x, DType::kFloat16);
  const Tensor y = Apply(call, {half, scale});
  ASSERT_EQ(y.dtype(), DType::kFloat);
  ExpectNear(y, Apply(call, {Cast(half, DType::kFloat), scale}), "float16 to float");
  EXPECT_EQ(Apply(call, {x, Cast(scale, DType::kDouble)}).dtype(), DType::kDouble);
}

TEST(LayerNormalization, RefusesWhatItCannotMean) {
  const Tensor x = RandomFloats({3, 4}, 1);
  const Tensor scale = RandomFloats({4}, 2);
  EXPECT_EQ(ErrorOf({.op_type = "LayerNormalization", .attributes = {{"stash_type", int64_t{7}}}},
                    {x, scale}),
            "attribute 'stash_type' is 7 where a floating type is expected");
  EXPECT_EQ(
      ErrorOf({.op_type = "LayerNormalization", .attributes = {{"axis", int64_t{2}}}}, {x, scale}),
      "attribute 'axis' is 2 where -2 to 1 are expected for rank 2");
  EXPECT_EQ(ErrorOf({.op_type = "LayerNormalization"}, {x, RandomFloats({3}, 2)}),
            "input 1 has shape [3], which does not broadcast to X [3,4]");
  EXPECT_EQ(ErrorOf({.op_type = "LayerNormalization"}, {x, Cast(scale, DType::kDouble)}),
            "input 1 is of type double where float, the type of input 0, is expected");
}

struct GroupCase {
  Shape x;
  int64_t groups;
};

// Expected values of GroupNormalization; as many groups as channels is InstanceNormalization.
std::vector<double> GroupNorm(const Tensor& x, int64_t groups, const Tensor& scale,
                              const Tensor& bias) {
  const int64_t members = x.shape()[1] / groups;
  const auto key = [members](const std::vector<int64_t>& index) {
    return std::vector<int64_t>{index[0], index[1] / members};
  };
  const auto sets = MomentsBy(x, key);
  const bool per_group = scale.elements() == groups;
  std::vector<double> expected;
  for (int64_t i = 0; i < x.elements(); ++i) {
    const auto index = IndexOf(x.shape(), i);
    const Moments& m = sets.at(key(index));
    const int64_t at = per_group ? index[1] / members : index[1];
    expected.push_back((x.data<float>()[i] - m.mean) /
                           std::sqrt(m.centred / m.count + double{1e-2f}) *
                           scale.data<float>()[at] +
                       bias.data<float>()[at]);
  }
  return expected;
}

// Native and channels-last, at every level.
void ExpectInBothLayouts(const OpCall& call, const std::vector<Tensor>& inputs,
                         const Tensor& expected) {
  ExpectEverywhere(call, inputs, expected);
  if (inputs[0].shape().rank() < 3) return;
  for (const Isa isa : test::IsaLevels()) {
    const Tensor y = test::BindAndRun({.op_type = call.op_type,
                                       .opset = call.opset,
                                       .attributes = call.attributes,
                                       .out = expected.shape(),
                                       .isa = isa,
                                       .channels_last = test::kInputZero | test::kOutput},
                                      inputs);
    ExpectNear(y, expected, fmt::format("{} channels-last {}", call.op_type, IsaName(isa)));
  }
}

TEST(InstanceNormalization, EveryRankInEveryLayout) {
  std::vector<Shape> shapes = {{2, 3, 4, 5}, {3, 5}, {2, 3, 2, 2, 7}, {0, 3, 2}, {1, 1, 1, 1}};
  for (int64_t n = 1; n <= 70; ++n) {
    shapes.push_back({1, n, 2, 3});
    shapes.push_back({1, 3, n});
  }
  for (const Shape& shape : shapes) {
    const Tensor x = RandomFloats(shape, 1, -3, 5);
    const Tensor scale = RandomFloats({shape[1]}, 2);
    const Tensor bias = RandomFloats({shape[1]}, 3);
    const Tensor expected = Floats(shape, GroupNorm(x, shape[1], scale, bias));
    for (const int opset : {7, 22}) {
      ExpectInBothLayouts(
          {.op_type = "InstanceNormalization", .opset = opset, .attributes = {{"epsilon", 1e-2f}}},
          {x, scale, bias}, expected);
    }
  }
}

TEST(GroupNormalization, ScalesPerGroupBeforeOpset21AndPerChannelFromItOn) {
  std::vector<GroupCase> cases = {{{2, 6, 4, 5}, 3},    {{2, 6, 4, 5}, 1},   {{1, 6, 7}, 6},
                                  {{2, 4, 3, 2, 5}, 2}, {{1, 140, 3, 3}, 2}, {{3, 8}, 4}};
  for (int64_t n = 1; n <= 70; ++n) {
    cases.push_back({{1, 2 * n, 3}, 2});
    cases.push_back({{1, 4, n}, 2});
  }
  for (const GroupCase& c : cases) {
    const Tensor x = RandomFloats(c.x, 1, -3, 5);
    for (const int opset : {18, 21}) {
      const int64_t parameters = opset == 18 ? c.groups : c.x[1];
      const Tensor scale = RandomFloats({parameters}, 2);
      const Tensor bias = RandomFloats({parameters}, 3);
      ExpectInBothLayouts({.op_type = "GroupNormalization",
                           .opset = opset,
                           .attributes = {{"epsilon", 1e-2f}, {"num_groups", c.groups}}},
                          {x, scale, bias}, Floats(c.x, GroupNorm(x, c.groups, scale, bias)));
    }
  }
}

TEST(GroupNormalization, RefusesGroupsThatDoNotDivideTheChannels) {
  const Tensor x = RandomFloats({1, 6, 2}, 1);
  const Tensor four = RandomFloats({4}, 2);
  EXPECT_EQ(ErrorOf({.op_type = "GroupNormalization",
                     .opset = 21,
                     .attributes = {{"num_groups", int64_t{4}}}},
                    {x, four, four}),
            "6 channels of X float[1,6,2] are not 4 groups of equal size");
  EXPECT_EQ(ErrorOf({.op_type = "GroupNormalization", .opset = 18}, {x, four, four}),
            "attribute 'num_groups' is missing");
  EXPECT_EQ(ErrorOf({.op_type = "GroupNormalization",
                     .opset = 18,
                     .attributes = {{"num_groups", int64_t{3}}}},
                    {x, four, four}),
            "input 1 has shape [4] where [3], the groups of X float[1,6,2], is expected");
  EXPECT_EQ(ErrorOf({.op_type = "InstanceNormalization"}, {x, four, four}),
            "input 1 has shape [4] where [6], the channels of X float[1,6,2], is expected");
  EXPECT_EQ(ErrorOf({.op_type = "InstanceNormalization"}, {four, four, four}),
            "X is float[4] where axes N and C are expected");
}

TEST(MeanVarianceNormalization, AnyAxesInEveryLayout) {
  const Shape shape{3, 5, 4, 7};
  const Tensor x = RandomFloats(shape, 1, -3, 5);
  for (const std::vector<int64_t>& axes :
       {std::vector<int64_t>{0, 2, 3}, {1}, {-1}, {0}, {2, 3}, {0, 1, 2, 3}, {1, -1}}) {
    const auto key = [&](std::vector<int64_t> index) {
      for (const int64_t axis : axes) index[static_cast<size_t>(axis < 0 ? axis + 4 : axis)] = 0;
      return index;
    };
    const auto sets = MomentsBy(x, key);
    std::vector<double> expected;
    for (int64_t i = 0; i < x.elements(); ++i) {
      const Moments& m = sets.at(key(IndexOf(shape, i)));
      expected.push_back((x.data<float>()[i] - m.mean) / (std::sqrt(m.centred / m.count) + 1e-9));
    }
    ExpectInBothLayouts({.op_type = "MeanVarianceNormalization", .attributes = {{"axes", axes}}},
                        {x}, Floats(shape, expected));
    if (axes.size() == 3) {
      ExpectEverywhere({.op_type = "MeanVarianceNormalization", .opset = 9}, {x},
                       Floats(shape, expected));
    }
  }
}

TEST(MeanVarianceNormalization, RefusesAxesBeyondTheRank) {
  EXPECT_EQ(ErrorOf({.op_type = "MeanVarianceNormalization"}, {RandomFloats({2, 3, 4}, 1)}),
            "attribute 'axes' is 3 where -3 to 2 are expected for rank 3");
}

void ExpectLpNorms(const Shape& shape, int64_t axis) {
  const Tensor x = RandomFloats(shape, 1, -3, 5);
  const auto key = [axis](std::vector<int64_t> index) {
    index[static_cast<size_t>(axis)] = 0;
    return index;
  };
  const auto sets = MomentsBy(x, key);
  for (const int64_t p : {1, 2}) {
    std::vector<double> expected;
    for (int64_t i = 0; i < x.elements(); ++i) {
      const Moments& m = sets.at(key(IndexOf(shape, i)));
      expected.push_back(x.data<float>()[i] / (p == 1 ? m.magnitudes : std::sqrt(m.squares)));
    }
    for (const int64_t given : {axis, axis - shape.rank()}) {
      ExpectInBothLayouts({.op_type = "LpNormalization", .attributes = {{"axis", given}, {"p", p}}},
                          {x}, Floats(shape, expected));
    }
  }
}

TEST(LpNormalization, BothNormsAlongEveryAxisInEveryLayout) {
  for (int64_t axis = 0; axis < 4; ++axis) ExpectLpNorms({3, 5, 4, 7}, axis);
  for (int64_t n = 1; n <= 70; ++n) {
    ExpectLpNorms({2, n, 3}, 1);
    ExpectLpNorms({2, 3, n}, 1);
    ExpectLpNorms({2, 3, n}, 2);
  }
}

TEST(LpNormalization, ANormOfZeroGivesZero) {
  const Tensor x = Tensor::Of<float>({2, 2}, {0, 0, 3, 4});
  for (const int64_t p : {1, 2}) {
    for (const Isa isa : test::IsaLevels()) {
      const OpCall call{.op_type = "LpNormalization", .attributes = {{"p", p}}, .isa = isa};
      const Tensor y = Apply(call, {x});
      EXPECT_EQ(y.data<float>()[0], 0);
      EXPECT_EQ(y.data<float>()[1], 0);
      EXPECT_TRUE(std::isfinite(y.data<float>()[2]));
    }
  }
  EXPECT_EQ(ErrorOf({.op_type = "LpNormalization", .attributes = {{"p", int64_t{3}}}}, {x}),
            "attribute 'p' is 3 where 1 or 2 is expected");
}

TEST(Normalization, TheBitsOfAnItemDependOnNothingElse) {
  const Tensor x = RandomFloats({3, 8, 5, 3}, 9, -5, 5);
  const Tensor scale = RandomFloats({8}, 2);
  const std::vector<std::pair<OpCall, std::vector<Tensor>>> calls = {
      {{.op_type = "InstanceNormalization"}, {scale, scale}},
      {{.op_type = "GroupNormalization", .opset = 21, .attributes = {{"num_groups", int64_t{2}}}},
       {scale, scale}},
      {{.op_type = "LayerNormalization"}, {RandomFloats({3}, 4)}},
      {{.op_type = "LpNormalization", .attributes = {{"axis", int64_t{1}}}}, {}},
      {{.op_type = "MeanVarianceNormalization", .attributes = {{"axes", std::vector<int64_t>{1}}}},
       {}},
  };
  for (const auto& [call, parameters] : calls) {
    std::vector<Tensor> inputs = parameters;
    inputs.insert(inputs.begin(), x);
    const Tensor whole = Apply(call, inputs);
    for (int64_t item = 0; item < 3; ++item) {
      inputs[0] = x.Rows(item, item + 1);
      EXPECT_TRUE(Close(Apply(call, inputs), whole.Rows(item, item + 1), Exact())) << call.op_type;
    }
  }
}

TEST(Normalization, NaNStaysInItsSet) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::Of<float>({2, 2}, {nan, 1, 2, 3});
  for (const Isa isa : test::IsaLevels()) {
    const Tensor y =
        Apply({.op_type = "LayerNormalization", .isa = isa}, {x, Tensor::Of<float>({1}, {1})});
    EXPECT_TRUE(std::isnan(y.data<float>()[0]) && std::isnan(y.data<float>()[1]));
    EXPECT_TRUE(std::isfinite(y.data<float>()[2]) && std::isfinite(y.data<float>()[3]));
  }
}

}  // namespace
}  // namespace tandem
