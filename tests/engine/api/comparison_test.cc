// What compares the answers of two models finds every kind of difference.
#include "tests/engine/api/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "tests/support/failures.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Close;
using test::Exact;
using test::FailuresOf;
using test::ModelBuilder;
using test::RandomFloats;
using testing::HasSubstr;

const graph::Dim kN = graph::Dim::Symbol("N");
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor Of(std::vector<float> elements) {
  Tensor tensor = *Tensor::Allocate(DType::kFloat, {static_cast<int64_t>(elements.size())});
  std::ranges::copy(elements, tensor.mutable_data<float>());
  return tensor;
}

// Of n places behind `value`.
float Beyond(float value, int n) {
  for (int i = 0; i < n; ++i) value = std::nextafter(value, kInfinity);
  return value;
}

TEST(Close, HoldsTheLastElementToItsLastPlace) {
  for (const int64_t size : {1, 7, 64, 1000}) {
    const Tensor expected = RandomFloats({size}, 1);
    Tensor actual = RandomFloats({size}, 1);
    EXPECT_TRUE(Close(actual, expected, Exact()));
    float& last = actual.mutable_data<float>()[size - 1];
    last = Beyond(last, 1);
    EXPECT_FALSE(Close(actual, expected, Exact()));
    EXPECT_TRUE(Close(actual, expected, test::Ulp(1)));
    last = Beyond(last, 2);
    EXPECT_FALSE(Close(actual, expected, test::Ulp(2)));
    EXPECT_THAT(Close(actual, expected, test::Ulp(2)).message(),
                HasSubstr(fmt::format("element {} of", size - 1)));
  }
}

TEST(Close, TellsZerosApartWhereBitsAreWanted) {
  EXPECT_FALSE(Close(Of({-0.0F}), Of({0.0F}), Exact()));
  EXPECT_TRUE(Close(Of({-0.0F}), Of({0.0F}), test::Ulp(0)));
}

TEST(Close, TakesNoNumberForANaNOrAnInfinity) {
  for (const test::Tolerance& tolerance :
       {Exact(), test::Ulp(4), test::Reduction(1000), test::OfScale(1), test::OnnxBackend()}) {
    for (const float odd : {kNaN, kInfinity, -kInfinity}) {
      EXPECT_TRUE(Close(Of({1, odd}), Of({1, odd}), tolerance)) << odd;
      EXPECT_FALSE(Close(Of({1, odd}), Of({1, 1}), tolerance)) << odd;
      EXPECT_FALSE(Close(Of({1, 1}), Of({1, odd}), tolerance)) << odd;
    }
    EXPECT_FALSE(Close(Of({kInfinity}), Of({-kInfinity}), tolerance));
    EXPECT_FALSE(Close(Of({kNaN}), Of({kInfinity}), tolerance));
  }
}

// An infinity among the expected numbers makes the others no less exact.
TEST(Close, MeasuresByTheLargestFiniteElement) {
  EXPECT_TRUE(Close(Of({100, 1.001F}), Of({100, 1}), test::OfScale(1e-4)));
  EXPECT_FALSE(Close(Of({100, 1.02F}), Of({100, 1}), test::OfScale(1e-4)));
  EXPECT_FALSE(Close(Of({kInfinity, 1.02F}), Of({kInfinity, 1}), test::OfScale(1e-4)));
}

TEST(Close, HoldsShapeAndTypeAndIntegersToWhatIsExpected) {
  const Tensor ints = Tensor::Of<int64_t>({2}, {1, (int64_t{1} << 53) + 1});
  EXPECT_FALSE(Close(RandomFloats({2, 3}, 1), RandomFloats({3, 2}, 1), test::OfScale(9)));
  EXPECT_FALSE(Close(RandomFloats({2, 3}, 1), RandomFloats({6}, 1), test::OfScale(9)));
  EXPECT_FALSE(Close(ints, Of({1, 2}), test::OfScale(9)));
  EXPECT_FALSE(Close(Tensor::Of<int64_t>({2}, {1, int64_t{1} << 53}), ints, test::OfScale(9)));
}

TEST(ExpectClose, FailsForAMissingAForeignAndAWrongOutput) {
  const test::NamedTensors expected = {{"a", Of({1})}, {"b", Of({2})}};
  const auto failures = [&](const test::NamedTensors& actual) {
    return FailuresOf([&] { test::ExpectClose(actual, expected, Exact()); });
  };
  EXPECT_EQ(failures(expected), "");
  EXPECT_THAT(failures({{"a", Of({1})}}), HasSubstr("output 'b' is missing"));
  EXPECT_THAT(failures({{"a", Of({1})}, {"c", Of({2})}}), HasSubstr("output 'b' is missing"));
  EXPECT_NE(failures({{"a", Of({1})}, {"b", Of({2})}, {"c", Of({3})}}), "");
  EXPECT_THAT(failures({{"a", Of({1})}, {"b", Of({3})}}), HasSubstr("output 'b'"));
}

// output = x w + bias
std::string Product(uint32_t seed, const std::string& output = "y", float bias = 0) {
  return ModelBuilder(17)
      .Input("x", DType::kFloat, {kN, 13})
      .Initializer("w", RandomFloats({13, 7}, seed))
      .Initializer("b", Tensor::Scalar(bias))
      .Node("MatMul", {"x", "w"}, {"p"})
      .Node("Add", {"p", "b"}, {output})
      .Output(output, DType::kFloat, {kN, 7})
      .Serialize();
}

std::string FailuresOfMeaning(const std::string& oracle, test::Tolerance tolerance = Exact()) {
  return FailuresOf(
      [&] { test::ExpectMeans(Product(1), {.oracle = oracle, .tolerance = tolerance}); });
}

TEST(ExpectMeans, TakesAModelForItself) { EXPECT_EQ(FailuresOfMeaning(Product(1)), ""); }

TEST(ExpectMeans, FailsForAnotherWeightInEveryOrderAndOnEveryNumberOfThreads) {
  const std::string failures = FailuresOfMeaning(Product(2), test::Reduction(13));
  for (const int order : {0, 1}) {
    for (const int threads : {1, 2, 4}) {
      for (const int batch : {1, 2, 3}) {
        EXPECT_THAT(failures, HasSubstr(fmt::format("order {}, {} threads, batch {}", order,
                                                    threads, batch)));
      }
    }
  }
}

TEST(ExpectMeans, FailsForABiasOfThreePlacesAndForAnotherOutput) {
  EXPECT_NE(FailuresOfMeaning(Product(1, "y", 1e-6F)), "");
  EXPECT_THAT(FailuresOfMeaning(Product(1, "z")), HasSubstr("output 'z' is missing"));
}

TEST(ExpectMeans, FailsForAnOracleThatDoesNotLoad) {
  EXPECT_NE(FailuresOf([] { test::ExpectMeans(Product(1), {.oracle = "no model"}); }), "");
}

TEST(ExpectItemsAlone, FailsWhereItemsAreMixed) {
  const auto failures = [](int64_t axis) {
    const std::string bytes = ModelBuilder(17)
                                  .Input("x", DType::kFloat, {kN, 13})
                                  .Node("Softmax", {"x"}, {"y"}, {{"axis", axis}})
                                  .Output("y", DType::kFloat, {kN, 13})
                                  .Serialize();
    return FailuresOf([&] { test::ExpectItemsAlone(bytes, 3); });
  };
  EXPECT_EQ(failures(1), "");
  EXPECT_THAT(failures(0), HasSubstr("output 'y'"));
}

TEST(OrdersOf, AreOrdersOfTheSameNodesEachOnce) {
  const std::vector<std::string> two = test::OrdersOf(Product(1));
  EXPECT_EQ(two.size(), 2u);
  ModelBuilder chain(17);
  chain.Input("v0", DType::kFloat, {kN});
  for (int i = 0; i < 9; ++i) {
    chain.Node("Relu", {fmt::format("v{}", i)}, {fmt::format("v{}", i + 1)});
  }
  const std::vector<std::string> many = test::OrdersOf(chain.Output("v9").Serialize());
  EXPECT_EQ(std::set<std::string>(many.begin(), many.end()).size(), 3u);
}

// y = x w with w packed at load, given by the request, or dequantised in each run.
TEST(PackingOfConstantsInRuns, NamesTheTaskWhoseWeightsDependOnNoInput) {
  const auto tasks = [](const std::string& weights) {
    ModelBuilder builder(17);
    builder.Input("x", DType::kFloat, {kN, 8})
        .Initializer("constant", RandomFloats({8, 64}, 1))
        .Initializer("w32", *Tensor::Allocate(DType::kInt32, {8, 64}))
        .Initializer("scale", Tensor::Scalar<float>(0.5F))
        .Input("given", DType::kFloat, {8, 64})
        .Node("DequantizeLinear", {"w32", "scale"}, {"dequantised"})
        .Node("MatMul", {"x", weights}, {"y"}, {}, "product")
        .Output("y", DType::kFloat, {kN, 64});
    const Engine engine({.threads = 1});
    const auto model = test::LoadModel(engine, builder.Serialize());
    return test::PackingOfConstantsInRuns(test::ReportOf(*model, test::InputsOf(*model, 2)));
  };
  EXPECT_THAT(tasks("constant"), testing::IsEmpty());
  EXPECT_THAT(tasks("given"), testing::IsEmpty());
  EXPECT_THAT(tasks("dequantised"), testing::ElementsAre(HasSubstr("product")));
}

}  // namespace
}  // namespace tandem
