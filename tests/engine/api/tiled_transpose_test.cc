// A transposed convolution whose window is its stride is a product of each place and a
// rearrangement of its channels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::ModelBuilder;
using test::RandomFloats;
using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");
constexpr int64_t kIn = 17;

struct Case {
  int64_t out = 5;
  int64_t stride = 2;
};

graph::DimVector Result(const Case& c) { return {kN, c.out, 3 * c.stride, 4 * c.stride}; }

// With input x [N,17,3,4].
ModelBuilder Begin() {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, kIn, 3, 4});
  return builder;
}

std::string Transposed(const Case& c) {
  return Begin()
      .Initializer("w", RandomFloats({kIn, c.out, c.stride, c.stride}, 1))
      .Initializer("b", RandomFloats({c.out}, 2))
      .Node("ConvTranspose", {"x", "w", "b"}, {"y"}, {{"strides", Ints{c.stride, c.stride}}})
      .Output("y", DType::kFloat, Result(c))
      .Serialize();
}

// The same by a convolution of 1 by 1 with out s s channels, which become places.
std::string Rearranged(const Case& c) {
  const int64_t taps = c.stride * c.stride;
  const Tensor w = RandomFloats({kIn, c.out, c.stride, c.stride}, 1);
  const Tensor b = RandomFloats({c.out}, 2);
  Tensor filters = *Tensor::Allocate(DType::kFloat, {c.out * taps, kIn, 1, 1});
  Tensor biases = *Tensor::Allocate(DType::kFloat, {c.out * taps});
  for (int64_t m = 0; m < c.out * taps; ++m) {
    biases.mutable_data<float>()[m] = b.data<float>()[m / taps];
    for (int64_t i = 0; i < kIn; ++i) {
      filters.mutable_data<float>()[m * kIn + i] = w.data<float>()[i * c.out * taps + m];
    }
  }
  return Begin()
      .Initializer("w", filters)
      .Initializer("b", biases)
      .Node("Conv", {"x", "w", "b"}, {"c"})
      .Node("DepthToSpace", {"c"}, {"y"}, {{"blocksize", c.stride}, {"mode", std::string("CRD")}})
      .Output("y", DType::kFloat, Result(c))
      .Serialize();
}

TEST(TiledTranspose, IsAConvolutionWhoseChannelsBecomePlaces) {
  for (const int64_t out : {1, 5, 33}) {
    for (const int64_t stride : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{} channels, stride {}", out, stride));
      test::ExpectMeans(Transposed({out, stride}),
                        {.oracle = Rearranged({out, stride}), .tolerance = test::Reduction(kIn)});
    }
  }
}

TEST(TiledTranspose, RunsOnItsPackAlone) {
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = test::LoadModel(engine, Transposed({}));
  ASSERT_NE(model, nullptr);
  const PlanReport report = test::ReportOf(*model, test::InputsOf(*model, 2));
  EXPECT_EQ(test::KernelsOf(report).size(), 1u) << model->Explain();
  EXPECT_EQ(engine.stats().packs_built, 1u);
  for (const TaskReport& task : report.tasks) {
    EXPECT_THAT(task.kernel, testing::Not(testing::HasSubstr("reference")));
  }
}

}  // namespace
}  // namespace tandem
