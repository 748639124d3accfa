// Products of tensors whose rank is known only in a run: they load, and compute what they compute
// on tensors whose rank is known.
#include <gtest/gtest.h>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Answers;
using test::LoadModel;
using test::ModelBuilder;
using test::RandomFloats;

struct Product {
  std::string op;
  std::vector<Shape> shapes;  // of its inputs
  graph::Attributes attributes = {};
};

std::vector<Product> Products() {
  return {
      {"MatMul", {{5, 8}, {8, 6}}},
      {"MatMul", {{2, 5, 8}, {8, 6}}},
      {"MatMul", {{8}, {8, 6}}},
      {"Gemm", {{5, 8}, {8, 6}}},
      {"Gemm", {{5, 8}, {8, 6}, {6}}},
      {"Attention",
       {{1, 5, 8}, {1, 7, 8}, {1, 7, 8}},
       {{"q_num_heads", int64_t{2}}, {"kv_num_heads", int64_t{2}}}},
      {"Conv", {{1, 4, 9, 9}, {8, 4, 3, 3}}},
  };
}

// The product of `x0`, `x1`, ..., of which the input `port` is reshaped to what the request says.
std::string Model(const Product& product, size_t port) {
  ModelBuilder builder(23);
  std::vector<std::string> inputs;
  for (size_t i = 0; i < product.shapes.size(); ++i) {
    const std::string name = fmt::format("x{}", i);
    builder.Input(name, DType::kFloat, graph::ToDims(product.shapes[i]));
    inputs.push_back(name);
  }
  if (port < inputs.size()) {
    builder.Input("shape", DType::kInt64, {graph::Dim::Symbol("R")})
        .Node("Reshape", {inputs[port], "shape"}, {"r"});
    inputs[port] = "r";
  }
  return builder.Node(product.op, inputs, {"y"}, product.attributes).Output("y").Serialize();
}

TEST(UnknownRanks, ProductsOfThemLoadAndAreRight) {
  const Engine engine({.threads = 2, .precision = Precision::kF32Plain});
  for (const Product& product : Products()) {
    std::vector<NamedTensor> inputs;
    for (size_t i = 0; i < product.shapes.size(); ++i) {
      inputs.push_back(
          {fmt::format("x{}", i), RandomFloats(product.shapes[i], static_cast<uint32_t>(i) + 1)});
    }
    const size_t none = product.shapes.size();
    const auto known = LoadModel(engine, Model(product, none));
    ASSERT_NE(known, nullptr);
    const test::NamedTensors expected = Answers(*known, inputs);
    for (size_t port = 0; port < none; ++port) {
      SCOPED_TRACE(fmt::format("{}, input {}", product.op, port));
      const auto model = LoadModel(engine, Model(product, port));
      ASSERT_NE(model, nullptr);
      std::vector<NamedTensor> with = inputs;
      const Shape& shape = product.shapes[port];
      Tensor extents = *Tensor::Allocate(DType::kInt64, {shape.rank()});
      for (int axis = 0; axis < shape.rank(); ++axis) {
        extents.mutable_data<int64_t>()[axis] = shape[axis];
      }
      with.push_back({"shape", extents});
      test::ExpectClose(Answers(*model, with), expected, test::Reduction(64));
    }
  }
}

}  // namespace
}  // namespace tandem
