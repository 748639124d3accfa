// Weights of 8 bits behind DequantizeLinear, through the engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "tests/engine/api/comparison.h"
#include "tests/support/compare.h"
#include "tests/support/model_builder.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_bytes.h"

namespace tandem {
namespace {

using test::Close;
using test::Exact;
using test::ModelBuilder;
using test::RandomBytes;
using test::RandomFloats;

constexpr int64_t kIn = 48;
constexpr int64_t kOut = 80;

// [kOut, kIn], each row with its scale and zero point.
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

// 'w', dequantised along axis 0 or as floats, of the shape `dims`.
ModelBuilder WithWeights(const Weights& weights, bool quantised, const Shape& dims) {
  ModelBuilder builder(17);
  if (!quantised) {
    builder.Initializer("w", weights.Dequantised().Reshaped(dims));
    return builder;
  }
  builder.Initializer("w8", weights.bytes.Reshaped(dims))
      .Initializer("scales", weights.scales)
      .Initializer("zeros", weights.zero_points)
      .Node("DequantizeLinear", {"w8", "scales", "zeros"}, {"w"}, {{"axis", int64_t{0}}});
  return builder;
}

// y = x w^T by Gemm, and z the same by MatMul; h half of it.
std::string Products(const Weights& weights, bool quantised) {
  return WithWeights(weights, quantised, {kOut, kIn})
      .Input("x", DType::kFloat, {graph::Dim::Symbol("N"), kIn})
      .Node("Gemm", {"x", "w"}, {"y"}, {{"transB", int64_t{1}}})
      .Node("Gemm", {"x", "w"}, {"h"}, {{"transB", int64_t{1}}, {"alpha", 0.5F}})
      .Node("Transpose", {"w"}, {"t"})
      .Node("MatMul", {"x", "t"}, {"z"})
      .Output("y", DType::kFloat, {graph::Dim::Symbol("N"), kOut})
      .Output("z", DType::kFloat, {graph::Dim::Symbol("N"), kOut})
      .Output("h", DType::kFloat, {graph::Dim::Symbol("N"), kOut})
      .Serialize();
}

// A convolution with 4 x 4 filters.
std::string Convolution(const Weights& weights, bool quantised) {
  static_assert(kIn == 3 * 4 * 4);
  return WithWeights(weights, quantised, {kOut, 3, 4, 4})
      .Input("x", DType::kFloat, {graph::Dim::Symbol("N"), 3, 8, 8})
      .Node("Conv", {"x", "w"}, {"y"}, {{"pads", std::vector<int64_t>{1, 2, 2, 1}}})
      .Output("y", DType::kFloat, {graph::Dim::Symbol("N"), kOut, 8, 8})
      .Serialize();
}

using MakeModel = std::string (*)(const Weights&, bool);

// Bytes in memory, nothing packed in a run, and the bits of float weights at every level.
void ExpectBytesAndBitsOfFloats(MakeModel make, const Tensor& x) {
  const Weights weights;
  for (const Isa isa : test::IsaLevels()) {
    const Engine engine{EngineOptions{.isa = isa, .precision = Precision::kF32Plain}};
    const auto quantised = test::LoadModel(engine, make(weights, true));
    const auto plain = test::LoadModel(engine, make(weights, false));
    ASSERT_TRUE(quantised != nullptr && plain != nullptr);
    const std::vector<NamedTensor> inputs = {{"x", x}};
    test::ExpectClose(test::Answers(*quantised, inputs), test::Answers(*plain, inputs), Exact());
    EXPECT_THAT(test::PackingOfConstantsInRuns(test::ReportOf(*quantised, inputs)),
                testing::IsEmpty());
    if (isa == Isa::kReference) continue;
    EXPECT_EQ(quantised->info().constant_bytes, 0u) << "the packs alone are left";
    EXPECT_LT(quantised->info().pack_bytes, plain->info().pack_bytes / 2) << IsaName(isa);
  }
}

TEST(QuantisedWeights, OfProductsStayBytes) {
  ExpectBytesAndBitsOfFloats(&Products, RandomFloats({3, kIn}, 4));
}

TEST(QuantisedWeights, OfConvolutionsStayBytes) {
  ExpectBytesAndBitsOfFloats(&Convolution, RandomFloats({2, 3, 8, 8}, 5));
}

TEST(QuantisedWeights, OfUint8AndOneScaleStayBytes) {
  Tensor bytes = RandomBytes<uint8_t>({kIn, kOut}, 6);
  Tensor floats = *Tensor::Allocate(DType::kFloat, {kIn, kOut});
  for (int64_t i = 0; i < floats.elements(); ++i) {
    floats.mutable_data<float>()[i] =
        (static_cast<float>(bytes.data<uint8_t>()[i]) - 100) * 0.0125f;
  }
  const auto model = [&](bool quantised) {
    ModelBuilder builder(17);
    builder.Input("x", DType::kFloat, {graph::Dim::Symbol("N"), kIn});
    if (quantised) {
      builder.Initializer("w8", bytes)
          .Initializer("scale", Tensor::Scalar(0.0125f))
          .Initializer("zero", Tensor::Scalar(uint8_t{100}))
          .Node("DequantizeLinear", {"w8", "scale", "zero"}, {"w"});
    } else {
      builder.Initializer("w", floats);
    }
    return builder.Node("MatMul", {"x", "w"}, {"y"})
        .Output("y", DType::kFloat, {graph::Dim::Symbol("N"), kOut})
        .Serialize();
  };
  const Engine engine{EngineOptions{.precision = Precision::kF32Plain}};
  const auto quantised = test::LoadModel(engine, model(true));
  const auto plain = test::LoadModel(engine, model(false));
  ASSERT_TRUE(quantised != nullptr && plain != nullptr);
  const std::vector<NamedTensor> inputs = {{"x", RandomFloats({3, kIn}, 7)}};
  test::ExpectClose(test::Answers(*quantised, inputs), test::Answers(*plain, inputs), Exact());
  EXPECT_LT(quantised->info().pack_bytes, plain->info().pack_bytes / 2);
}

// Kernels and bits are those of each, whichever comes first and lives beside the other.
TEST(QuantisedWeights, AndEqualFloatsAreApart) {
  const Weights weights;
  ModelBuilder builder = WithWeights(weights, true, {kOut, kIn});
  builder.Input("x", DType::kFloat, {graph::Dim::Symbol("N"), kIn})
      .Initializer("floats", weights.Dequantised())
      .Node("Gemm", {"x", "w"}, {"y"}, {{"transB", int64_t{1}}})
      .Node("Gemm", {"x", "floats"}, {"z"}, {{"transB", int64_t{1}}})
      .Output("y", DType::kFloat, {graph::Dim::Symbol("N"), kOut})
      .Output("z", DType::kFloat, {graph::Dim::Symbol("N"), kOut});
  const Engine engine{EngineOptions{.isa = Isa::kAvx2}};
  const auto model = test::LoadModel(engine, builder.Serialize());
  ASSERT_NE(model, nullptr);
  const std::vector<std::string> kernels =
      test::KernelsOf(test::ReportOf(*model, {{"x", RandomFloats({3, kIn}, 4)}}));
  const std::string kernel = fmt::format("gemm.f32 {}", IsaName(engine.isa()));
  EXPECT_THAT(kernels, testing::UnorderedElementsAre(kernel + " int8", kernel));
}

// What a run makes of constants is not held once for every shape of its inputs.
TEST(QuantisedWeights, ThatEachRunDequantisesAreNotKeptByShape) {
  ModelBuilder builder(21);
  builder.Input("x", DType::kFloat, {graph::Dim::Symbol("N"), 128})
      .Initializer("w8", RandomBytes<int8_t>({128, 128}, 8))
      .Initializer("scales", RandomFloats({4, 128}, 9, 0.001f, 0.01f))
      .Node("DequantizeLinear", {"w8", "scales"}, {"w"},
            {{"axis", int64_t{0}}, {"block_size", int64_t{32}}})
      .Node("MatMul", {"x", "w"}, {"y"})
      .Output("y", DType::kFloat, {graph::Dim::Symbol("N"), 128});
  const Engine engine{EngineOptions()};
  const auto model = test::LoadModel(engine, builder.Serialize());
  ASSERT_NE(model, nullptr);
  const PlanReport report = test::ReportOf(*model, {{"x", RandomFloats({3, 128}, 1)}});
  ASSERT_EQ(report.tasks.size(), 2u);
  EXPECT_EQ(report.tasks[0].mode, "run");
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
