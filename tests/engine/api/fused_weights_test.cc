// A product whose epilogue takes the nodes behind it keeps the pack it had without them: nothing is
// packed again, whatever is fused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/kernels/epilogue.h"
#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using kernels::EpilogueOp;
using test::LoadModel;
using test::ModelBuilder;
using test::RandomFloats;
using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");

// A node behind the product; "@" is what the node before it makes.
struct Link {
  std::string op;
  std::vector<std::string> inputs = {"@"};
  graph::Attributes attributes = {};
};

// A chain of nodes with the stages that the epilogue of the product has for it.
struct Tail {
  std::string name;
  std::vector<Link> links;
  std::vector<EpilogueOp> stages;
  test::Tolerance tolerance = test::Exact();  // of the fused form
};

std::vector<Tail> Tails() {
  return {
      {"Relu", {{"Relu"}}, {EpilogueOp::kRelu}},
      {"Clip", {{"Clip", {"@", "low", "high"}}}, {EpilogueOp::kClip}},
      {"Sigmoid", {{"Sigmoid"}}, {EpilogueOp::kSigmoid}},
      {"Tanh", {{"Tanh"}}, {EpilogueOp::kTanh}},
      {"HardSwish", {{"HardSwish"}}, {EpilogueOp::kHardSwish}},
      {"Gelu", {{"Gelu"}}, {EpilogueOp::kGeluErf}},
      {"Gelu by tanh",
       {{"Gelu", {"@"}, {{"approximate", std::string("tanh")}}}},
       {EpilogueOp::kGeluTanh}},
      {"LeakyRelu", {{"LeakyRelu", {"@"}, {{"alpha", 0.1F}}}}, {EpilogueOp::kLeakyRelu}},
      {"HardSigmoid",
       {{"HardSigmoid", {"@"}, {{"alpha", 0.25F}, {"beta", 0.4F}}}},
       {EpilogueOp::kHardSigmoid}},
      {"Mish", {{"Mish"}}, {EpilogueOp::kMish}},
      {"PRelu", {{"PRelu", {"@", "channel"}}}, {EpilogueOp::kPRelu}},
      {"bias", {{"Add", {"@", "channel"}}}, {EpilogueOp::kAdd}},
      {"scale", {{"Mul", {"channel", "@"}}}, {EpilogueOp::kMul}},
      {"residual", {{"Add", {"r", "@"}}}, {EpilogueOp::kAdd}},
      {"difference", {{"Sub", {"@", "r"}}}, {EpilogueOp::kSub}},
      {"difference from a number", {{"Sub", {"half", "@"}}}, {EpilogueOp::kReverseSub}},
      {"bias, residual and Relu",
       {{"Add", {"@", "channel"}}, {"Add", {"@", "r"}}, {"Relu"}},
       {EpilogueOp::kAdd, EpilogueOp::kAdd, EpilogueOp::kRelu}},
      {"Relu and Sigmoid", {{"Relu"}, {"Sigmoid"}}, {EpilogueOp::kRelu, EpilogueOp::kSigmoid}},
      {"Elu, which no epilogue has", {{"Elu"}}, {}},
  };
}

// x sigmoid(x) is two nodes that read one value and becomes one stage.
Tail Silu() { return {"SiLU", {}, {EpilogueOp::kSilu}, test::OfScale(1e-6)}; }

// True for every operation there is: one that is added does not compile before it is listed here.
bool IsListed(EpilogueOp op) {
  switch (op) {
    case EpilogueOp::kAdd:
    case EpilogueOp::kSub:
    case EpilogueOp::kReverseSub:
    case EpilogueOp::kMul:
    case EpilogueOp::kPRelu:
    case EpilogueOp::kRelu:
    case EpilogueOp::kClip:
    case EpilogueOp::kLeakyRelu:
    case EpilogueOp::kSigmoid:
    case EpilogueOp::kTanh:
    case EpilogueOp::kHardSigmoid:
    case EpilogueOp::kHardSwish:
    case EpilogueOp::kSilu:
    case EpilogueOp::kGeluErf:
    case EpilogueOp::kGeluTanh:
    case EpilogueOp::kMish:
      return true;
  }
  return false;
}

TEST(FusedWeights, EveryStageOfAnEpilogueIsAmongTheTails) {
  std::set<EpilogueOp> covered = {EpilogueOp::kSilu};
  for (const Tail& tail : Tails()) covered.insert(tail.stages.begin(), tail.stages.end());
  for (int op = 0; IsListed(static_cast<EpilogueOp>(op)); ++op) {
    EXPECT_TRUE(covered.contains(static_cast<EpilogueOp>(op))) << "operation " << op;
  }
}

struct Product {
  std::string name;
  std::string op;
  Shape weight;
  graph::Attributes attributes = {};
  bool image = true;  // [N,8,5,5] to the same; else [N,8]
};

std::vector<Product> Products() {
  const graph::Attributes same = {{"pads", Ints{1, 1, 1, 1}}};
  return {
      {"Conv", "Conv", {8, 8, 3, 3}, same},
      {"depthwise Conv", "Conv", {8, 1, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}, {"group", int64_t{8}}}},
      {"ConvTranspose", "ConvTranspose", {8, 8, 3, 3}, same},
      {"MatMul", "MatMul", {8, 8}, {}, false},
      {"Gemm", "Gemm", {8, 8}, {}, false},
  };
}

std::string Build(const Product& product, const Tail& tail) {
  const graph::DimVector dims =
      product.image ? graph::DimVector{kN, 8, 5, 5} : graph::DimVector{kN, 8};
  ModelBuilder builder(20);
  builder.Input("x", DType::kFloat, dims)
      .Initializer("w", RandomFloats(product.weight, 1))
      .Initializer("channel", RandomFloats(product.image ? Shape{1, 8, 1, 1} : Shape{8}, 2))
      .Initializer("low", Tensor::Scalar(-0.5F))
      .Initializer("high", Tensor::Scalar(0.75F))
      .Initializer("half", Tensor::Scalar(0.5F))
      .Node(product.op, {"x", "w"}, {"v0"}, product.attributes);
  std::string last = "v0";
  bool residual = false;
  for (const Link& link : tail.links) {
    std::vector<std::string> inputs = link.inputs;
    std::ranges::replace(inputs, "@", last);
    residual |= std::ranges::find(inputs, "r") != inputs.end();
    last += "n";
    builder.Node(link.op, inputs, {last}, link.attributes);
  }
  if (tail.name == Silu().name) {
    builder.Node("Sigmoid", {"v0"}, {"gate"}).Node("Mul", {"v0", "gate"}, {"v0n"});
    last = "v0n";
  }
  if (residual) builder.Input("r", DType::kFloat, dims);
  return builder.Output(last, DType::kFloat, dims).Serialize();
}

// The one task that holds a pack.
TaskReport ProductTask(const Model& model) {
  std::vector<TaskReport> tasks;
  for (const TaskReport& task : test::ReportOf(model, test::InputsOf(model, 2)).tasks) {
    if (std::ranges::find(task.packed, true) != task.packed.end()) tasks.push_back(task);
  }
  EXPECT_EQ(tasks.size(), 1u);
  return tasks.empty() ? TaskReport() : tasks[0];
}

void ExpectSamePack(const Product& product, const Tail& tail) {
  SCOPED_TRACE(product.name + " and " + tail.name);
  const Engine engine(EngineOptions{.threads = 1});
  const auto plain = LoadModel(engine, Build(product, {"nothing", {}, {}}));
  const std::string bytes = Build(product, tail);
  const auto model = LoadModel(engine, bytes);
  ASSERT_TRUE(plain != nullptr && model != nullptr);
  const TaskReport task = ProductTask(*model);
  EXPECT_EQ(task.kernel, ProductTask(*plain).kernel);
  EXPECT_EQ(task.epilogue.size(), tail.stages.size());
  EXPECT_EQ(engine.stats().packs_built, 1u);
  const EngineStats loaded = engine.stats();
  const auto inputs = test::InputsOf(*model, 2);
  for (int run = 0; run < 20; ++run) test::Answers(*model, inputs);
  EXPECT_EQ(engine.stats().packs_built, 1u);
  EXPECT_EQ(engine.stats().packs_shared, loaded.packs_shared);
  EXPECT_EQ(engine.stats().pack_bytes, loaded.pack_bytes);
  EXPECT_THAT(test::PackingOfConstantsInRuns(test::ReportOf(*model, inputs)), testing::IsEmpty());
  test::ExpectMeans(bytes, {.oracle = bytes,
                            .options = test::WithoutPasses(),
                            .tolerance = tail.tolerance,
                            .batches = {1, 2}});
}

TEST(FusedWeights, WhateverIsFusedLeavesThePackWhereItWas) {
  for (const Product& product : Products()) {
    for (const Tail& tail : Tails()) ExpectSamePack(product, tail);
    ExpectSamePack(product, Silu());
  }
}

}  // namespace
}  // namespace tandem
