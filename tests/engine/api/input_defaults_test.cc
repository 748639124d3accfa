// Inputs that the file gives a default: a request leaves them out and gets what a constant would
// give, a request that names one is refused, and nothing of that reaches the next request.
#include <gmock/gmock.h>
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

enum class Weight { kDefault, kConstant };

// The models: y of x, and of w, which is an initializer and, as a default, an input, too.
struct Case {
  std::string name;
  graph::DimVector x;
  Shape w;
  graph::DimVector y;
  std::function<void(ModelBuilder&)> nodes;
};

// r = op(inputs), without inputs of its own: w comes from around it.
ModelBuilder Branch(const std::string& op, const std::vector<std::string>& inputs) {
  ModelBuilder body(17);
  body.Node(op, inputs, {"r"}).Output("r");
  return body;
}

// sum = sum w, as the body of a Loop.
ModelBuilder Iteration() {
  ModelBuilder body(17);
  body.Input("i", DType::kInt64, {})
      .Input("go", DType::kBool, {})
      .Input("sum", DType::kFloat, {kN, 13})
      .Node("MatMul", {"sum", "w"}, {"next"})
      .Node("Identity", {"go"}, {"on"})
      .Output("on", DType::kBool, {})
      .Output("next", DType::kFloat, {kN, 13});
  return body;
}

std::vector<Case> Cases() {
  return {
      {"a product",
       {kN, 40},
       {40, 30},
       {kN, 30},
       [](ModelBuilder& b) {
         b.Node("MatMul", {"x", "w"}, {"y"});
       }},
      {"a convolution",
       {kN, 3, 9, 8},
       {5, 3, 3, 3},
       {kN, 5, 7, 6},
       [](ModelBuilder& b) {
         b.Node("Conv", {"x", "w"}, {"y"});
       }},
      {"what is folded",
       {kN, 40},
       {40, 30},
       {kN, 30},
       [](ModelBuilder& b) {
         b.Node("Tanh", {"w"}, {"t"}).Node("MatMul", {"x", "t"}, {"y"});
       }},
      {"a weight norm",
       {kN, 6, 20},
       {32, 3, 5},
       {kN, 32, 16},
       [](ModelBuilder& b) {
         b.Initializer("g", RandomFloats({32, 1, 1}, 2, 0.5F, 2))
             .Node("ReduceL2", {"w"}, {"norm"}, {{"axes", Ints{1, 2}}})
             .Node("Div", {"g", "norm"}, {"scale"})
             .Node("Mul", {"w", "scale"}, {"v"})
             .Node("Conv", {"x", "v"}, {"y"}, {{"group", int64_t{2}}});
       }},
      {"an operand that fuses",
       {kN, 40},
       {30},
       {kN, 30},
       [](ModelBuilder& b) {
         b.Initializer("m", RandomFloats({40, 30}, 2))
             .Node("MatMul", {"x", "m"}, {"p"})
             .Node("Add", {"p", "w"}, {"y"});
       }},
      {"a branch",
       {kN, 13},
       {13, 13},
       {kN, 13},
       [](ModelBuilder& b) {
         b.Initializer("zero", Tensor::Scalar(0.0F))
             .Node("ReduceSum", {"x"}, {"s"}, {{"keepdims", int64_t{0}}})
             .Node("Greater", {"s", "zero"}, {"c"})
             .Node("If", {"c"}, {"y"})
             .Body("then_branch", Branch("MatMul", {"x", "w"}))
             .Body("else_branch", Branch("Identity", {"x"}));
       }},
      {"an iteration",
       {kN, 13},
       {13, 13},
       {kN, 13},
       [](ModelBuilder& b) {
         b.Initializer("trips", Tensor::Scalar<int64_t>(3))
             .Node("Loop", {"trips", "", "x"}, {"y"})
             .Body("body", Iteration());
       }},
  };
}

ModelBuilder Build(const Case& c, Weight weight) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, c.x);
  if (weight == Weight::kDefault) builder.Input("w", DType::kFloat, graph::ToDims(c.w));
  builder.Initializer("w", RandomFloats(c.w, 1, -0.5F, 0.5F));
  c.nodes(builder);
  builder.Output("y", DType::kFloat, c.y);
  return builder;
}

TEST(InputDefaults, AreTheNumbersOfAConstant) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    ExpectMeans(Build(c, Weight::kDefault).Serialize(),
                {.oracle = Build(c, Weight::kConstant).Serialize()});
  }
}

TEST(InputDefaults, ARequestThatNamesOneIsRefusedAndTheNextOneIsRight) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    const Engine engine(EngineOptions{.threads = 2});
    const auto model = LoadModel(engine, Build(c, Weight::kDefault).Serialize());
    ASSERT_NE(model, nullptr);
    const std::vector<NamedTensor> inputs = test::InputsOf(*model, 2);
    ASSERT_EQ(inputs.size(), 1u) << "an input with a default need not be given";
    const auto before = test::Answers(*model, inputs);
    std::vector<NamedTensor> more = inputs;
    more.push_back({"w", RandomFloats(c.w, 7)});
    const Status refused = model->Validate(more);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(Message(refused)),
              "input 'w' has a default, which this model does not let requests replace");
    EXPECT_EQ(model->Run(more).status(), refused);
    EXPECT_EQ(model->Report(std::vector<NamedShape>{{"x", inputs[0].tensor.shape()}, {"w", c.w}})
                  .status()
                  .code(),
              absl::StatusCode::kInvalidArgument);
    test::ExpectClose(test::Answers(*model, inputs), before, test::Exact());
  }
}

TEST(InputDefaults, AreToldWithTheInputs) {
  const Engine engine(EngineOptions{.threads = 1});
  const Case product = Cases()[0];
  const auto model = LoadModel(engine, Build(product, Weight::kDefault).Serialize());
  ASSERT_NE(model, nullptr);
  ASSERT_EQ(model->info().inputs.size(), 2u);
  EXPECT_FALSE(model->info().inputs[0].optional);
  EXPECT_EQ(model->info().inputs[1].name, "w");
  EXPECT_TRUE(model->info().inputs[1].optional);
}

// Before IR version 4 every initializer was listed as an input, and meant as a constant.
TEST(InputDefaults, BeforeIr4AreNoInputsAtAll) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    ModelBuilder old = Build(c, Weight::kDefault);
    old.IrVersion(3);
    ExpectMeans(old.Serialize(), {.oracle = Build(c, Weight::kConstant).Serialize()});
    const Engine engine(EngineOptions{.threads = 1});
    const auto model = LoadModel(engine, old.Serialize());
    ASSERT_NE(model, nullptr);
    std::vector<NamedTensor> more = test::InputsOf(*model, 2);
    more.push_back({"w", RandomFloats(c.w, 7)});
    const Status refused = model->Validate(more);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(Message(refused)), "the model has no input 'w'; its inputs are 'x'");
  }
}

// A default that is a graph output, too, comes back as the file has it.
TEST(InputDefaults, MayBeOutputs) {
  const Case product = Cases()[0];
  ModelBuilder builder = Build(product, Weight::kDefault);
  builder.Output("w", DType::kFloat, graph::ToDims(product.w));
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = LoadModel(engine, builder.Serialize());
  ASSERT_NE(model, nullptr);
  const auto outputs = test::Answers(*model, test::InputsOf(*model, 2));
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_TRUE(test::Close(outputs.at("w"), RandomFloats(product.w, 1, -0.5F, 0.5F), test::Exact()));
}

}  // namespace
}  // namespace tandem
