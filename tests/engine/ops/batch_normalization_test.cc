#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Close;
using test::Exact;
using test::OpCall;
using test::RandomFloats;

struct Parameters {
  Tensor scale, bias, mean, variance;
  explicit Parameters(int64_t channels)
      : scale(RandomFloats({channels}, 2)),
        bias(RandomFloats({channels}, 3)),
        mean(RandomFloats({channels}, 4)),
        variance(RandomFloats({channels}, 5, 0.1f, 2)) {}
};

std::string ErrorOf(const OpCall& call, const std::vector<Tensor>& inputs) {
  const auto result = test::RunOp(call, inputs);
  EXPECT_FALSE(result.ok());
  return result.ok() ? "" : std::string(Message(result.status()));
}

TEST(BatchNormalization, NormalisesEveryChannelByItsStatistics) {
  std::vector<Shape> shapes = {{2, 3, 4, 5}, {0, 3, 2}, {2, 3, 2, 2, 7}, {6}};
  for (int64_t n = 1; n <= 70; ++n) {
    for (const Shape& shape : {Shape{3, n}, Shape{2, n, 3}, Shape{2, 3, n}})
      shapes.push_back(shape);
  }
  for (const Shape& shape : shapes) {
    const int64_t channels = shape.rank() > 1 ? shape[1] : 1;
    const int64_t inner = shape.rank() > 1 ? shape.Product(2, shape.rank()) : 1;
    const Parameters p(channels);
    const Tensor x = RandomFloats(shape, 1, -3, 3);
    std::vector<Tensor> results;
    for (const Isa isa : test::IsaLevels()) {
      for (const int threads : {1, 4}) {
        const auto y = test::RunOp({.op_type = "BatchNormalization",
                                    .opset = 15,
                                    .attributes = {{"epsilon", 0.01f}},
                                    .isa = isa,
                                    .threads = threads},
                                   {x, p.scale, p.bias, p.mean, p.variance});
        ASSERT_TRUE(y.ok()) << y.status();
        results.push_back((*y)[0]);
        EXPECT_TRUE(Close(results.back(), results.front(), Exact())) << IsaName(isa);
      }
    }
    for (int64_t i = 0; i < x.elements(); ++i) {
      const int64_t c = i / inner % channels;
      const double expected = (double{x.data<float>()[i]} - p.mean.data<float>()[c]) /
                                  std::sqrt(p.variance.data<float>()[c] + double{0.01f}) *
                                  p.scale.data<float>()[c] +
                              p.bias.data<float>()[c];
      ASSERT_NEAR(results.front().data<float>()[i], expected, 4e-6);
    }
  }
}

TEST(BatchNormalization, MixedTypesComputeInFloat) {
  const Parameters p(2);
  const Tensor x = RandomFloats({1, 2, 3}, 1);
  const Tensor half = *Tensor::Allocate(DType::kFloat16, {1, 2, 3});
  const Tensor rounded = *Tensor::Allocate(DType::kFloat, {1, 2, 3});
  for (int i = 0; i < 6; ++i) {
    half.mutable_data<Float16>()[i] = ToFloat16(x.data<float>()[i]);
    rounded.mutable_data<float>()[i] = ToFloat(half.data<Float16>()[i]);
  }
  const OpCall call{.op_type = "BatchNormalization", .opset = 15};
  const auto y = test::RunOp(call, {half, p.scale, p.bias, p.mean, p.variance});
  const auto wide = test::RunOp(call, {rounded, p.scale, p.bias, p.mean, p.variance});
  ASSERT_TRUE(y.ok()) << y.status();
  ASSERT_EQ((*y)[0].dtype(), DType::kFloat16);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ((*y)[0].data<Float16>()[i].bits, ToFloat16((*wide)[0].data<float>()[i]).bits);
  }
}

TEST(BatchNormalization, TrainingIsRefused) {
  const Parameters p(3);
  const Tensor x = RandomFloats({1, 3, 2}, 1);
  const std::vector<Tensor> inputs = {x, p.scale, p.bias, p.mean, p.variance};
  EXPECT_EQ(ErrorOf({.op_type = "BatchNormalization",
                     .opset = 15,
                     .attributes = {{"training_mode", int64_t{1}}}},
                    inputs),
            "attribute 'training_mode' is 1; only inference is supported");
  EXPECT_EQ(ErrorOf({.op_type = "BatchNormalization", .opset = 9, .outputs = 3}, inputs),
            "output 1 is asked for, which only training has; only inference is supported");
  EXPECT_EQ(
      ErrorOf(
          {.op_type = "BatchNormalization", .opset = 7, .attributes = {{"spatial", int64_t{0}}}},
          inputs),
      "attribute 'spatial' is 0; only statistics per channel are supported");
}

TEST(BatchNormalization, ParametersMustHaveOneElementAChannel) {
  const Parameters p(3);
  EXPECT_EQ(ErrorOf({.op_type = "BatchNormalization"},
                    {RandomFloats({1, 4, 2}, 1), p.scale, p.bias, p.mean, p.variance}),
            "scale has shape [3] where [4], the channels of X [1,4,2], is expected");
}

}  // namespace
}  // namespace tandem
