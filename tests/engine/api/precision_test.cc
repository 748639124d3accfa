// Models at each precision: which kernels they get, how exact they are, and that batches, threads
// and forks change nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/api/comparison.h"
#include "tests/support/arithmetics.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::LoadModel;
using test::ModelBuilder;
using test::RandomFloats;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");
constexpr Precision kAll[] = {Precision::kF32Plain, Precision::kF32, Precision::kF32Strict,
                              Precision::kBf16};

// Two towers of convolutions over one image, added, and a classifier behind them.
std::string Network() {
  const graph::Attributes same = {{"pads", Ints{1, 1, 1, 1}}};
  return ModelBuilder(17)
      .Input("x", DType::kFloat, {kN, 3, 20, 18})
      .Initializer("w0", RandomFloats({64, 3, 3, 3}, 1))
      .Initializer("w1", RandomFloats({40, 64, 3, 3}, 2))
      .Initializer("w2", RandomFloats({40, 64, 1, 1}, 3))
      .Initializer("b", RandomFloats({40}, 4))
      .Initializer("w3", RandomFloats({40, 100}, 5))
      .Node("Conv", {"x", "w0"}, {"c0"}, same)
      .Node("Relu", {"c0"}, {"r0"})
      .Node("Conv", {"r0", "w1", "b"}, {"c1"}, same)
      .Node("Conv", {"r0", "w2"}, {"c2"})
      .Node("Sigmoid", {"c1"}, {"s1"})
      .Node("Add", {"s1", "c2"}, {"sum"})
      .Node("GlobalAveragePool", {"sum"}, {"g"})
      .Node("Flatten", {"g"}, {"f"})
      .Node("MatMul", {"f", "w3"}, {"y"})
      .Output("y", DType::kFloat, {kN, 100})
      .Output("sum", DType::kFloat, {kN, 40, 20, 18})
      .Serialize();
}

// A transposed convolution whose taps overlap, one whose taps do not, and attention over pixels.
std::string OtherProducts() {
  const graph::Attributes twice = {{"strides", Ints{2, 2}}};
  return ModelBuilder(23)
      .Input("x", DType::kFloat, {kN, 48, 5, 4})
      .Initializer("w0", RandomFloats({48, 40, 3, 3}, 1))
      .Initializer("w1", RandomFloats({48, 64, 2, 2}, 2))
      .Initializer("tokens", Tensor::Of<int64_t>({3}, {0, 64, 80}))
      .Node("ConvTranspose", {"x", "w0"}, {"overlap"}, twice)
      .Node("ConvTranspose", {"x", "w1"}, {"apart"}, twice)
      .Node("Reshape", {"apart", "tokens"}, {"channels"})
      .Node("Transpose", {"channels"}, {"t"}, {{"perm", Ints{0, 2, 1}}})
      .Node("Attention", {"t", "t", "t"}, {"attention"},
            {{"q_num_heads", int64_t{2}}, {"kv_num_heads", int64_t{2}}})
      .Output("overlap")
      .Output("attention")
      .Serialize();
}

std::vector<std::string> Kernels(const std::string& bytes, EngineOptions options) {
  const Engine engine(std::move(options));
  const auto model = LoadModel(engine, bytes);
  return test::KernelsOf(test::ReportOf(*model, test::InputsOf(*model, 2)));
}

TEST(Precisions, ThePlanNamesTheKernelOfEachProduct) {
  EXPECT_THAT(Kernels(Network(), {.threads = 1, .precision = Precision::kF32Plain}),
              Each(Not(HasSubstr("bf16"))));
  EXPECT_THAT(Kernels(Network(), {.threads = 1, .isa = Isa::kVnni}), Each(Not(HasSubstr("bf16"))));
  if (DetectIsa() < Isa::kAmx) GTEST_SKIP() << "this machine has no AMX";
  EXPECT_THAT(Kernels(Network(), {.threads = 1}),
              AllOf(Contains(AllOf(HasSubstr("conv"), HasSubstr("bf16x3"))),
                    Contains(AllOf(HasSubstr("gemm"), HasSubstr("bf16x3")))));
  EXPECT_THAT(Kernels(Network(), {.threads = 1, .precision = Precision::kF32Strict}),
              Contains(HasSubstr("bf16x6")));
  EXPECT_THAT(Kernels(Network(), {.threads = 1, .precision = Precision::kBf16}),
              Contains(HasSubstr("bf16x1")));
}

TEST(Precisions, ConvolutionsAreFilteredMinimallyWhereTheyLeaveRoomForTheError) {
  const auto kernels = [](Precision precision) {
    return Kernels(Network(), {.threads = 1, .isa = Isa::kVnni, .precision = precision});
  };
  const auto filtered = Contains(HasSubstr("conv.winograd.f32 4x4"));
  EXPECT_THAT(kernels(Precision::kF32), filtered);
  EXPECT_THAT(kernels(Precision::kBf16), filtered);
  EXPECT_THAT(kernels(Precision::kF32Plain), Each(Not(HasSubstr("winograd"))));
  EXPECT_THAT(kernels(Precision::kF32Strict), Each(Not(HasSubstr("winograd"))));
}

// Tiles are chosen by the size of the image, and weights are transformed while loading.
TEST(Precisions, ConvolutionsOfUnknownImagesOrWeightsAreDirect) {
  const auto kernels = [](const graph::Dim& height, bool constant) {
    ModelBuilder model(17);
    model.Input("x", DType::kFloat, {kN, 64, height, 20});
    if (constant) {
      model.Initializer("w", RandomFloats({64, 64, 3, 3}, 1));
    } else {
      model.Input("w", DType::kFloat, {64, 64, 3, 3});
    }
    model.Node("Conv", {"x", "w"}, {"y"}, {{"pads", Ints{1, 1, 1, 1}}}).Output("y");
    return Kernels(model.Serialize(), {.threads = 1, .isa = Isa::kVnni});
  };
  EXPECT_THAT(kernels(20, true), Contains(HasSubstr("winograd")));
  const auto direct = AllOf(Contains(HasSubstr("conv")), Each(Not(HasSubstr("winograd"))));
  EXPECT_THAT(kernels(graph::Dim::Symbol("H"), true), direct);
  EXPECT_THAT(kernels(20, false), direct);
}

TEST(Precisions, AnswersAreAsExactAsThePrecisionSays) {
  const Engine reference(test::WithoutPacks());
  for (const std::string& bytes : {Network(), OtherProducts()}) {
    const auto oracle = LoadModel(reference, bytes);
    const auto inputs = test::InputsOf(*oracle, 3);
    const test::NamedTensors expected = test::Answers(*oracle, inputs);
    for (const Precision precision : kAll) {
      const Engine engine({.threads = 2, .precision = precision});
      const auto model = LoadModel(engine, bytes);
      SCOPED_TRACE(PrecisionName(precision));
      // Errors of three products in a row add up.
      test::Tolerance tolerance = test::ToleranceOf({Isa::kAmx, precision}, 576);
      tolerance.relative *= 3;
      test::ExpectClose(test::Answers(*model, inputs), expected, tolerance);
    }
  }
}

TEST(Precisions, AModelHasTheOneItIsLoadedWith) {
  const Engine engine({.threads = 1, .precision = Precision::kBf16});
  StatusOr<std::shared_ptr<const Model>> plain =
      engine.LoadBytes(Network(), {.precision = Precision::kF32Plain});
  ASSERT_TRUE(plain.ok()) << Message(plain.status());
  const auto coarse = LoadModel(engine, Network());
  const Engine other({.threads = 1, .precision = Precision::kF32Plain});
  const auto expected = LoadModel(other, Network());
  const auto inputs = test::InputsOf(*expected, 2);
  test::ExpectClose(test::Answers(**plain, inputs), test::Answers(*expected, inputs),
                    test::Exact());
  if (DetectIsa() < Isa::kAmx) GTEST_SKIP() << "this machine has no AMX";
  EXPECT_FALSE(test::Close(test::Answers(*coarse, inputs).at("y"),
                           test::Answers(*expected, inputs).at("y"), test::Reduction(576)));
}

void ExpectTheSameBits(const std::string& bytes) {
  for (const Precision precision : kAll) {
    SCOPED_TRACE(PrecisionName(precision));
    const Engine one({.threads = 1, .precision = precision, .towers = false});
    const auto model = LoadModel(one, bytes);
    const auto inputs = test::InputsOf(*model, 8);
    const test::NamedTensors expected = test::Answers(*model, inputs);
    for (const int threads : {1, 2, 4}) {
      const Engine engine({.threads = threads, .precision = precision});
      const auto other = LoadModel(engine, bytes);
      test::ExpectClose(test::Answers(*other, inputs), expected, test::Exact());
      for (const auto& [first, items] : {std::pair(0, 1), {3, 1}, {1, 2}, {5, 3}, {1, 7}}) {
        const std::vector<NamedTensor> some = {
            {inputs[0].name, inputs[0].tensor.Rows(first, first + items)}};
        for (const auto& [name, tensor] : test::Answers(*other, some)) {
          EXPECT_TRUE(
              test::Close(tensor, expected.at(name).Rows(first, first + items), test::Exact()))
              << name << " of " << items << " items, " << threads << " threads";
        }
      }
    }
  }
}

TEST(Precisions, BatchesThreadsAndForksChangeNoBits) {
  ExpectTheSameBits(Network());
  ExpectTheSameBits(OtherProducts());
}

TEST(Precisions, AnItemOfSpecialNumbersLeavesItsNeighboursAlone) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const Precision precision : kAll) {
    const Engine engine({.threads = 2, .precision = precision});
    const auto model = LoadModel(engine, Network());
    auto inputs = test::InputsOf(*model, 3);
    const test::NamedTensors before = test::Answers(*model, inputs);
    for (const float special : {kInf, kInf - kInf, 3e38f, 1e-40f}) {
      auto changed = test::InputsOf(*model, 3);
      std::fill_n(changed[0].tensor.mutable_data<float>() + 3 * 20 * 18, 3 * 20 * 18, special);
      const test::NamedTensors after = test::Answers(*model, changed);
      for (const int64_t item : {0, 2}) {
        EXPECT_TRUE(test::Close(after.at("y").Rows(item, item + 1),
                                before.at("y").Rows(item, item + 1), test::Exact()))
            << PrecisionName(precision) << " " << special;
      }
    }
  }
}

}  // namespace
}  // namespace tandem
