// Weights of 8 bits behind DequantizeLinear, through the engine.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/engine.h"
#include "tests/support/compare.h"
#include "tests/support/model_builder.h"
#include "tests/support/random_bytes.h"

namespace tandem {
namespace {

using test::Close;
using test::Exact;
using test::ModelBuilder;
using test::RandomBytes;
using test::RandomFloats;
using test::Reduction;

constexpr int64_t kIn = 48;
constexpr int64_t kOut = 80;

struct Weights {
  Tensor bytes = RandomBytes<int8_t>({kOut, kIn}, 1);
  Tensor scales = RandomFloats({kOut}, 2, 0.001f, 0.01f);
  Tensor zero_points = RandomBytes<int8_t>({kOut}, 3);

  Tensor Dequantised() const {
    Tensor w = *Tensor::Allocate(DType::kFloat, {kOut, kIn});
    for (int64_t i = 0; i < w.elements(); ++i) {
      const int difference = bytes.data<int8_t>()[i] - zero_points.data<int8_t>()[i / kIn];
      w.mutable_data<float>()[i] = static_cast<float>(difference) * scales.data<float>()[i / kIn];
    }
    return w;
  }
};

// y = x w^T with w dequantised along axis 0, which two nodes read.
std::string Quantised(const Weights& weights) {
  return ModelBuilder(17)
      .Input("x", DType::kFloat, {graph::Dim::Symbol("N"), kIn})
      .Initializer("w8", weights.bytes)
      .Initializer("scales", weights.scales)
      .Initializer("zeros", weights.zero_points)
      .Node("DequantizeLinear", {"w8", "scales", "zeros"}, {"w"}, {{"axis", int64_t{0}}})
      .Node("Gemm", {"x", "w"}, {"y"}, {{"transB", int64_t{1}}})
      .Node("Transpose", {"w"}, {"t"})
      .Node("MatMul", {"x", "t"}, {"z"})
      .Output("y", DType::kFloat, {graph::Dim::Symbol("N"), kOut})
      .Output("z", DType::kFloat, {graph::Dim::Symbol("N"), kOut})
      .Serialize();
}

std::string Plain(const Weights& weights) {
  return ModelBuilder(17)
      .Input("x", DType::kFloat, {graph::Dim::Symbol("N"), kIn})
      .Initializer("w", weights.Dequantised())
      .Node("Gemm", {"x", "w"}, {"y"}, {{"transB", int64_t{1}}})
      .Output("y", DType::kFloat, {graph::Dim::Symbol("N"), kOut})
      .Serialize();
}

TEST(QuantisedWeights, StayBytesInMemoryAndKeepTheirAxisForEveryReader) {
  const Weights weights;
  const Engine engine{EngineOptions()};
  const auto quantised = engine.LoadBytes(Quantised(weights));
  ASSERT_TRUE(quantised.ok()) << quantised.status();
  EXPECT_EQ((*quantised)->info().constant_bytes, size_t{kIn * kOut + 5 * kOut});
  EXPECT_EQ((*quantised)->info().pack_bytes, 0u);
  const auto plain = engine.LoadBytes(Plain(weights));
  ASSERT_TRUE(plain.ok()) << plain.status();
  const std::vector<NamedTensor> inputs = {{"x", RandomFloats({3, kIn}, 4)}};
  const auto actual = (*quantised)->Run(inputs);
  const auto expected = (*plain)->Run(inputs);
  ASSERT_TRUE(actual.ok() && expected.ok());
  for (const NamedTensor& output : actual->outputs) {
    EXPECT_TRUE(Close(output.tensor, expected->outputs[0].tensor, Reduction(kIn))) << output.name;
  }
}

// y = dequantised(quantised(x)): rounds x to steps of 1/4.
TEST(QuantisedWeights, APairOfQuantisationAndItsInverseRounds) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {graph::Dim::Symbol("N"), 4})
      .Initializer("scale", Tensor::Scalar<float>(0.25f))
      .Initializer("zero", Tensor::Scalar<int8_t>(3))
      .Node("QuantizeLinear", {"x", "scale", "zero"}, {"q"})
      .Node("DequantizeLinear", {"q", "scale", "zero"}, {"y"})
      .Output("y", DType::kFloat, {graph::Dim::Symbol("N"), 4});
  const Engine engine{EngineOptions()};
  const auto model = engine.LoadBytes(builder.Serialize());
  ASSERT_TRUE(model.ok()) << model.status();
  const Tensor x = Tensor::Of<float>({2, 4}, {0.1f, 0.125f, 0.375f, -0.3f, 31, 32, -32, -33});
  const auto y = (*model)->Run(std::vector<NamedTensor>{{"x", x}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_TRUE(Close(y->outputs[0].tensor,
                    Tensor::Of<float>({2, 4}, {0, 0, 0.5f, -0.25f, 31, 31, -32, -32.75f}),
                    Exact()));
}

// A constant dequantised in the body of a Loop is a number to what follows it.
TEST(QuantisedWeights, ABodyReadsTheDequantisedNumbers) {
  ModelBuilder body(17);
  body.Input("i", DType::kInt64, {})
      .Input("go", DType::kBool, {})
      .Input("sum", DType::kFloat, {2})
      .Initializer("c8", Tensor::Of<int8_t>({2}, {10, -4}))
      .Initializer("scale", Tensor::Scalar<float>(0.5f))
      .Node("DequantizeLinear", {"c8", "scale"}, {"c"})
      .Node("Add", {"sum", "c"}, {"next"})
      .Node("Identity", {"go"}, {"on"})
      .Output("on", DType::kBool, {})
      .Output("next", DType::kFloat, {2});
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {2})
      .Initializer("trips", Tensor::Scalar<int64_t>(3))
      .Node("Loop", {"trips", "", "x"}, {"y"})
      .Body("body", body)
      .Output("y", DType::kFloat, {2});
  const Engine engine{EngineOptions()};
  const auto model = engine.LoadBytes(builder.Serialize());
  ASSERT_TRUE(model.ok()) << model.status();
  const auto y = (*model)->Run(std::vector<NamedTensor>{{"x", Tensor::Of<float>({2}, {1, 2})}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_TRUE(Close(y->outputs[0].tensor, Tensor::Of<float>({2}, {16, -4}), Exact()));
}

}  // namespace
}  // namespace tandem
