// The time that loading takes as a whole grows as the file does: import, inference, passes,
// layouts, packs, schedule and the plan of its memory.
#include <gtest/gtest.h>

#include <map>

#include "engine/engine.h"
#include "tests/support/linearity.h"
#include "tests/support/model_builder.h"

namespace tandem {
namespace {

using test::ModelBuilder;

const graph::Dim kN = graph::Dim::Symbol("N");

using Build = std::string (*)(int nodes);

double SecondsToLoad(const Engine& engine, const std::string& bytes) {
  const double start = test::SecondsOfThread();
  const auto model = engine.LoadBytes(bytes);
  const double seconds = test::SecondsOfThread() - start;
  EXPECT_TRUE(model.ok()) << model.status();
  return seconds;
}

double RatioOfTwice(Build build, int nodes) {
  const Engine engine(EngineOptions{.threads = 1});
  std::map<int, std::string> files;
  return test::RatioOfTwice(
      [&](int size) {
        std::string& bytes = files[size];
        if (bytes.empty()) bytes = build(size);
        return SecondsToLoad(engine, bytes);
      },
      nodes);
}

// An output of the same extents as the only input, at the end of a chain.
std::string Finish(ModelBuilder& builder, const std::string& last, const graph::DimVector& dims) {
  return builder.Input("x", DType::kFloat, dims).Output(last, DType::kFloat, dims).Serialize();
}

// MatMul, Add and Relu in turn, each product with a weight and a bias of its own.
std::string Products(int nodes) {
  ModelBuilder builder(17);
  std::string last = "x";
  for (int i = 0; i < nodes; i += 3) {
    const std::string n = std::to_string(i);
    const float value = 1 + static_cast<float>(i) * 1e-6F;
    builder.Initializer("w" + n, Tensor::Of<float>({1, 1}, {value}))
        .Initializer("b" + n, Tensor::Of<float>({1}, {-value}))
        .Node("MatMul", {last, "w" + n}, {"m" + n})
        .Node("Add", {"m" + n, "b" + n}, {"a" + n})
        .Node("Relu", {"a" + n}, {"r" + n});
    last = "r" + n;
  }
  return Finish(builder, last, {kN, 1});
}

// Conv, BatchNormalization and Relu in turn.
std::string Convolutions(int nodes) {
  ModelBuilder builder(17);
  builder.Initializer("one", Tensor::Of<float>({1}, {1}))
      .Initializer("shift", Tensor::Of<float>({1}, {0.25F}));
  std::string last = "x";
  for (int i = 0; i < nodes; i += 3) {
    const std::string n = std::to_string(i);
    builder
        .Initializer("w" + n, Tensor::Of<float>({1, 1, 1, 1}, {1 + static_cast<float>(i) * 1e-6F}))
        .Node("Conv", {last, "w" + n}, {"c" + n})
        .Node("BatchNormalization", {"c" + n, "one", "shift", "shift", "one"}, {"b" + n})
        .Node("Relu", {"b" + n}, {"r" + n});
    last = "r" + n;
  }
  return Finish(builder, last, {kN, 1, 3, 3});
}

// Nodes that read nothing but constants, each the one before it, and one that reads the last.
std::string ConstantChain(int nodes) {
  ModelBuilder builder(17);
  builder.Initializer("c", Tensor::Of<float>({4}, {-2, -1, 1, 2}));
  std::string last = "c";
  for (int i = 0; i < nodes; ++i) {
    const std::string next = "n" + std::to_string(i);
    builder.Node(i % 2 == 0 ? "Neg" : "Tanh", {last}, {next});
    last = next;
  }
  builder.Node("Add", {"x", last}, {"y"});
  return Finish(builder, "y", {kN, 4});
}

// One node that reads all others, each of which reads x alone.
std::string OneSum(const std::string& op, int nodes) {
  ModelBuilder builder(17);
  std::vector<std::string> terms;
  for (int i = 0; i < nodes; ++i) {
    terms.push_back("t" + std::to_string(i));
    if (op == "MatMul") {
      const float value = 1 + static_cast<float>(i) * 1e-6F;
      builder.Initializer("w" + terms.back(), Tensor::Of<float>({1, 1}, {value}))
          .Node(op, {"x", "w" + terms.back()}, {terms.back()});
    } else {
      builder.Node(op, {"x"}, {terms.back()});
    }
  }
  builder.Node("Sum", terms, {"y"});
  return Finish(builder, "y", {kN, 1});
}

TEST(LoadTime, IsLinearInTheInputsOfOneNode) {
  for (const Build build : {Build([](int nodes) { return OneSum("Tanh", nodes); }),
                            Build([](int nodes) { return OneSum("MatMul", nodes); })}) {
    EXPECT_LT(RatioOfTwice(build, 20'000), test::kLinear);
  }
}

TEST(LoadTime, IsLinearInTheProducts) { EXPECT_LT(RatioOfTwice(Products, 10'000), test::kLinear); }

TEST(LoadTime, IsLinearInTheConvolutions) {
  EXPECT_LT(RatioOfTwice(Convolutions, 10'000), test::kLinear);
}

TEST(LoadTime, IsLinearInAConstantChain) {
  EXPECT_LT(RatioOfTwice(ConstantChain, 6'000), test::kLinear);
}

TEST(LoadTime, OfTenThousandNodesIsShort) {
  const Engine engine(EngineOptions{.threads = 1});
  EXPECT_LT(SecondsToLoad(engine, Products(10'000)), 10.0);
  EXPECT_LT(SecondsToLoad(engine, Convolutions(10'000)), 10.0);
}

}  // namespace
}  // namespace tandem
