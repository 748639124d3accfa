// Weights that are known only in a run, given by a request or computed by other nodes: the numbers
// are those of a model that has them as constants, to the bit.
#include <gtest/gtest.h>

#include <functional>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::ExpectMeans;
using test::LoadModel;
using test::ModelBuilder;
using test::RandomFloats;
using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");

struct Product {
  std::string op;
  graph::DimVector x;
  Shape weight;
  graph::DimVector y;
  graph::Attributes attributes = {};
};

std::vector<Product> Products() {
  return {
      {"Conv", {kN, 5, 9, 8}, {7, 5, 3, 3}, {kN, 7, 7, 6}},
      {"Conv", {kN, 5, 9, 8}, {7, 5, 1, 1}, {kN, 7, 9, 8}},
      {"Conv", {kN, 6, 9, 8}, {6, 1, 2, 2}, {kN, 6, 8, 7}, {{"group", int64_t{6}}}},
      {"Conv", {kN, 6, 9, 8}, {12, 1, 4, 4}, {kN, 12, 6, 5}, {{"group", int64_t{6}}}},
      {"Conv", {kN, 6, 9, 8}, {6, 2, 5, 5}, {kN, 6, 5, 4}, {{"group", int64_t{3}}}},
      {"Conv",
       {kN, 5, 9, 8},
       {7, 5, 3, 3},
       {kN, 7, 5, 4},
       {{"dilations", Ints{2, 2}}, {"strides", Ints{1, 1}}}},
      {"Conv", {kN, 4, 19}, {3, 4, 5}, {kN, 3, 8}, {{"strides", Ints{2}}}},
      {"MatMul", {kN, 13}, {13, 19}, {kN, 19}},
      {"MatMul", {kN, 3, 13}, {13, 19}, {kN, 3, 19}},
      {"Gemm", {kN, 13}, {13, 19}, {kN, 19}, {{"alpha", 0.5F}}},
      {"Gemm", {kN, 13}, {19, 13}, {kN, 19}, {{"transB", int64_t{1}}}},
  };
}

enum class Weight { kInput, kConstant };

// y = Relu(op(x, w)) and the product itself where it is `visible`.
std::string Model(const Product& product, Weight weight, const Tensor& value, bool visible) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, product.x);
  if (weight == Weight::kInput) {
    builder.Input("w", DType::kFloat, graph::ToDims(product.weight));
  } else {
    builder.Initializer("w", value);
  }
  builder.Node(product.op, {"x", "w"}, {"p"}, product.attributes)
      .Node("Relu", {"p"}, {"y"})
      .Output("y", DType::kFloat, product.y);
  if (visible) builder.Output("p", DType::kFloat, product.y);
  return builder.Serialize();
}

TEST(RuntimeKernels, AnInputAsWeightGivesTheBitsOfAConstant) {
  for (const Product& product : Products()) {
    for (const bool visible : {false, true}) {
      SCOPED_TRACE(product.op + " " + ToString(product.weight));
      const Tensor value = RandomFloats(product.weight, 3);
      ExpectMeans(
          Model(product, Weight::kInput, value, visible),
          {.oracle = Model(product, Weight::kConstant, value, visible), .given = {{"w", value}}});
    }
  }
}

// z[1,6,k+2,k+2] through a small tower becomes the kernel k[6,1,k,k] with which the features of x
// are compared, channel by channel.
std::string CrossCorrelation(int64_t size, bool computed, const Tensor& kernel) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 3, 11, 10})
      .Initializer("w1", RandomFloats({6, 3, 3, 3}, 1))
      .Initializer("w2", RandomFloats({6, 6, 1, 1}, 2));
  std::vector<std::string> towers = {"x"};
  if (computed) {
    builder.Input("z", DType::kFloat, {1, 3, size + 2, size + 2})
        .Initializer("filters", Tensor::Of<int64_t>({4}, {6, 1, size, size}));
    towers.push_back("z");
  } else {
    builder.Initializer("k", kernel);
  }
  for (const std::string& from : towers) {
    builder.Node("Conv", {from, "w1"}, {from + "1"})
        .Node("Relu", {from + "1"}, {from + "2"})
        .Node("Conv", {from + "2", "w2"}, {from + "3"});
  }
  if (computed) {
    builder.Node("Reshape", {"z3", "filters"}, {"k"});
  }
  return builder.Node("Conv", {"x3", "k"}, {"y"}, {{"group", int64_t{6}}})
      .Output("y", DType::kFloat, {kN, 6, 10 - size, 9 - size})
      .Output("k", DType::kFloat, {6, 1, size, size})
      .Serialize();
}

TEST(RuntimeKernels, ATemplateComparedWithAnImageIsAConstantFilter) {
  for (const int64_t size : {2, 4, 5}) {
    SCOPED_TRACE(size);
    const NamedTensor z = {"z", RandomFloats({1, 3, size + 2, size + 2}, 7)};
    const std::string computed = CrossCorrelation(size, true, {});
    const Engine engine(EngineOptions{.threads = 1});
    const auto model = LoadModel(engine, computed);
    ASSERT_NE(model, nullptr);
    const Tensor kernel = test::Answers(*model, test::InputsOf(*model, 1, {z})).at("k");
    ExpectMeans(computed, {.oracle = CrossCorrelation(size, false, kernel), .given = {z}});
  }
}

// The features of x and the kernel k of z are quantised before they are compared.
std::string QuantisedCorrelation(int64_t size, bool computed, const Tensor& kernel) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 3, 11, 10})
      .Initializer("w", RandomFloats({6, 3, 3, 3}, 1))
      .Initializer("scale", Tensor::Scalar(0.02F))
      .Initializer("zero", Tensor::Scalar<uint8_t>(117))
      .Initializer("k_scale", Tensor::Scalar(0.015F))
      .Initializer("k_zero", Tensor::Scalar<int8_t>(-3))
      .Initializer("y_scale", Tensor::Scalar(0.1F))
      .Initializer("y_zero", Tensor::Scalar<uint8_t>(131));
  if (computed) {
    builder.Input("z", DType::kFloat, {1, 3, size + 2, size + 2})
        .Initializer("filters", Tensor::Of<int64_t>({4}, {6, 1, size, size}))
        .Node("Conv", {"z", "w"}, {"z1"})
        .Node("Tanh", {"z1"}, {"z2"})
        .Node("Reshape", {"z2", "filters"}, {"z3"})
        .Node("QuantizeLinear", {"z3", "k_scale", "k_zero"}, {"k"});
  } else {
    builder.Initializer("k", kernel);
  }
  return builder.Node("Conv", {"x", "w"}, {"x1"})
      .Node("Tanh", {"x1"}, {"x2"})
      .Node("QuantizeLinear", {"x2", "scale", "zero"}, {"q"})
      .Node("QLinearConv", {"q", "scale", "zero", "k", "k_scale", "k_zero", "y_scale", "y_zero"},
            {"y"}, {{"group", int64_t{6}}})
      .Output("y", DType::kUint8, {kN, 6, 10 - size, 9 - size})
      .Output("k", DType::kInt8, {6, 1, size, size})
      .Serialize();
}

TEST(RuntimeKernels, AQuantisedTemplateIsAConstantFilter) {
  for (const int64_t size : {2, 4, 5}) {
    SCOPED_TRACE(size);
    const NamedTensor z = {"z", RandomFloats({1, 3, size + 2, size + 2}, 7)};
    const std::string computed = QuantisedCorrelation(size, true, {});
    const Engine engine(EngineOptions{.threads = 1});
    const auto model = LoadModel(engine, computed);
    ASSERT_NE(model, nullptr);
    const Tensor kernel = test::Answers(*model, test::InputsOf(*model, 1, {z})).at("k");
    ASSERT_EQ(kernel.dtype(), DType::kInt8);
    ExpectMeans(computed, {.oracle = QuantisedCorrelation(size, false, kernel), .given = {z}});
  }
}

// The right side of a product made from z by views and by another product.
struct RightSide {
  std::string op;  // that reads x [N,13] and k
  graph::Attributes attributes;
  std::function<void(ModelBuilder&)> nodes;  // from z [1,13] to k
  Shape k = {13, 19};
};

std::vector<RightSide> RightSides() {
  const auto product = [](const Shape& shape) {
    return [shape](ModelBuilder& b) {
      b.Initializer("spread", RandomFloats({13, 13 * 19}, 5))
          .Initializer("shape", Tensor::Of<int64_t>({2}, {shape[0], shape[1]}))
          .Node("MatMul", {"z", "spread"}, {"flat"})
          .Node("Reshape", {"flat", "shape"}, {"k"});
    };
  };
  const auto turned = [](ModelBuilder& b) {
    b.Initializer("spread", RandomFloats({13, 13 * 19}, 5))
        .Initializer("shape", Tensor::Of<int64_t>({2}, {19, 13}))
        .Node("MatMul", {"z", "spread"}, {"flat"})
        .Node("Reshape", {"flat", "shape"}, {"upright"})
        .Node("Transpose", {"upright"}, {"k"}, {{"perm", Ints{1, 0}}});
  };
  return {
      {"MatMul", {}, product({13, 19})},
      {"MatMul", {}, turned},
      {"Gemm", {{"alpha", 0.5F}}, product({13, 19})},
      {"Gemm", {{"transB", int64_t{1}}}, product({19, 13}), {19, 13}},
      {"Gemm", {}, turned},
  };
}

std::string ProductWith(const RightSide& side, bool computed, const Tensor& k) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 13});
  if (computed) {
    builder.Input("z", DType::kFloat, {1, 13});
    side.nodes(builder);
  } else {
    builder.Initializer("k", k);
  }
  return builder.Node(side.op, {"x", "k"}, {"p"}, side.attributes)
      .Node("Relu", {"p"}, {"y"})
      .Output("y", DType::kFloat, {kN, 19})
      .Output("k", DType::kFloat, graph::ToDims(side.k))
      .Serialize();
}

TEST(RuntimeKernels, ARightSideThatOtherNodesComputeIsAConstantOne) {
  for (const RightSide& side : RightSides()) {
    SCOPED_TRACE(side.op);
    const NamedTensor z = {"z", RandomFloats({1, 13}, 7)};
    const std::string computed = ProductWith(side, true, {});
    const Engine engine(EngineOptions{.threads = 1});
    const auto model = LoadModel(engine, computed);
    ASSERT_NE(model, nullptr);
    const Tensor k = test::Answers(*model, test::InputsOf(*model, 1, {z})).at("k");
    ASSERT_EQ(k.shape(), side.k);
    ExpectMeans(computed, {.oracle = ProductWith(side, false, k), .given = {z}});
  }
}

// The weight changes from run to run, and nothing of the last one stays.
TEST(RuntimeKernels, EveryRunHasItsOwnWeight) {
  for (const Product& product : Products()) {
    SCOPED_TRACE(product.op + " " + ToString(product.weight));
    const Engine engine(EngineOptions{.threads = 2});
    const auto model = LoadModel(engine, Model(product, Weight::kInput, {}, false));
    ASSERT_NE(model, nullptr);
    for (uint32_t seed = 1; seed <= 3; ++seed) {
      const Tensor value = RandomFloats(product.weight, seed);
      const auto constant = LoadModel(engine, Model(product, Weight::kConstant, value, false));
      ASSERT_NE(constant, nullptr);
      const auto inputs = test::InputsOf(*model, 2, {{"w", value}});
      test::ExpectClose(test::Answers(*model, inputs),
                        test::Answers(*constant, test::InputsOf(*constant, 2)), test::Exact());
    }
  }
}

}  // namespace
}  // namespace tandem
