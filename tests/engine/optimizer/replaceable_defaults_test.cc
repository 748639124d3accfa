// Defaults that requests may replace are no constants to any pass: an optimized graph answers for
// another value as the graph of the file does.
#include <gtest/gtest.h>

#include <functional>

#include "engine/onnx/import.h"
#include "engine/ops/registry.h"
#include "engine/optimizer/optimizer.h"
#include "tests/support/compare.h"
#include "tests/support/interpreter.h"
#include "tests/support/model_builder.h"
#include "tests/support/random_tensor.h"

namespace tandem::optimizer {
namespace {

using test::Close;
using test::ModelBuilder;
using test::NamedTensors;
using test::RandomFloats;
using test::Tolerance;
using Ints = std::vector<int64_t>;

struct Case {
  std::string name;
  Shape x;
  Tensor stored;  // "w" in the file
  Tensor given;   // in a request
  std::function<void(ModelBuilder&)> nodes;
  Tolerance tolerance = test::Exact();  // of what is optimized
};

// r = op(inputs), without inputs of its own.
ModelBuilder Branch(const std::string& op, const std::vector<std::string>& inputs) {
  ModelBuilder body(17);
  body.Node(op, inputs, {"r"}).Output("r");
  return body;
}

void AddNormalized(ModelBuilder& b, const std::string& overridden) {
  for (const std::string name : {"kernel", "scale", "bias", "mean", "var"}) {
    if (name == overridden) continue;
    const Shape shape = name == "kernel" ? Shape{5, 3, 3, 3} : Shape{5};
    b.Initializer(name, RandomFloats(shape, static_cast<uint32_t>(name[0]), 0.5F, 2));
  }
  const auto pick = [&](const std::string& name) { return name == overridden ? "w" : name; };
  b.Node("Conv", {"x", pick("kernel")}, {"h"})
      .Node("BatchNormalization", {"h", pick("scale"), pick("bias"), pick("mean"), pick("var")},
            {"y"});
}

std::vector<Case> Cases() {
  const auto floats = [](const Shape& shape, uint32_t seed) {
    return RandomFloats(shape, seed, 0.5F, 2);
  };
  const auto scalar = [](float value) { return Tensor::Scalar(value); };
  std::vector<Case> cases;
  for (const std::string name : {"kernel", "scale", "bias", "mean", "var"}) {
    const Shape shape = name == "kernel" ? Shape{5, 3, 3, 3} : Shape{5};
    cases.push_back({"batch normalization, " + name,
                     {2, 3, 6, 7},
                     floats(shape, 11),
                     floats(shape, 12),
                     [name](ModelBuilder& b) { AddNormalized(b, name); }});
  }
  const std::vector<Case> more = {
      {"a weight behind a function",
       {3, 7},
       floats({7, 5}, 1),
       floats({7, 5}, 2),
       [](ModelBuilder& b) {
         b.Node("Tanh", {"w"}, {"t"}).Node("MatMul", {"x", "t"}, {"y"});
       }},
      {"a weight behind a transposition",
       {3, 7},
       floats({5, 7}, 1),
       floats({5, 7}, 2),
       [](ModelBuilder& b) {
         b.Node("Transpose", {"w"}, {"t"}).Node("MatMul", {"x", "t"}, {"y"});
       }},
      {"a bias",
       {3, 7},
       floats({5}, 1),
       floats({5}, 2),
       [&](ModelBuilder& b) {
         b.Initializer("m", RandomFloats({7, 5}, 3))
             .Node("MatMul", {"x", "m"}, {"p"})
             .Node("Add", {"p", "w"}, {"y"});
       }},
      {"a scaled bias",
       {3, 7},
       floats({5}, 1),
       floats({5}, 2),
       [](ModelBuilder& b) {
         b.Initializer("m", RandomFloats({7, 5}, 3))
             .Node("Gemm", {"x", "m", "w"}, {"y"}, {{"alpha", 0.5F}, {"beta", 3.0F}});
       },
       test::Reduction(7)},
      {"a bound",
       {2, 3, 6, 7},
       scalar(1),
       scalar(0.25F),
       [](ModelBuilder& b) {
         b.Initializer("k", RandomFloats({5, 3, 3, 3}, 3))
             .Node("Conv", {"x", "k"}, {"h"})
             .Node("Clip", {"h", "", "w"}, {"y"});
       }},
      {"the epsilon of a layer normalization",
       {2, 3, 7},
       scalar(1e-3F),
       scalar(0.5F),
       [](ModelBuilder& b) {
         const graph::Attributes last = {{"axes", Ints{-1}}};
         b.Initializer("two", Tensor::Scalar(2.0F))
             .Initializer("row", RandomFloats({7}, 3))
             .Node("ReduceMean", {"x"}, {"a"}, last)
             .Node("Sub", {"x", "a"}, {"d"})
             .Node("Pow", {"d", "two"}, {"p"})
             .Node("ReduceMean", {"p"}, {"v"}, last)
             .Node("Add", {"v", "w"}, {"e"})
             .Node("Sqrt", {"e"}, {"r"})
             .Node("Div", {"d", "r"}, {"n"})
             .Node("Mul", {"n", "row"}, {"s"})
             .Node("Add", {"s", "row"}, {"y"});
       }},
      {"the exponent of a layer normalization",
       {2, 3, 7},
       scalar(2),
       scalar(4),
       [](ModelBuilder& b) {
         const graph::Attributes last = {{"axes", Ints{-1}}};
         b.Initializer("epsilon", Tensor::Scalar(1e-3F))
             .Initializer("row", RandomFloats({7}, 3))
             .Node("ReduceMean", {"x"}, {"a"}, last)
             .Node("Sub", {"x", "a"}, {"d"})
             .Node("Pow", {"d", "w"}, {"p"})
             .Node("ReduceMean", {"p"}, {"v"}, last)
             .Node("Add", {"v", "epsilon"}, {"e"})
             .Node("Sqrt", {"e"}, {"r"})
             .Node("Div", {"d", "r"}, {"n"})
             .Node("Mul", {"n", "row"}, {"s"})
             .Node("Add", {"s", "row"}, {"y"});
       }},
      {"the root of a Gelu",
       {3, 7},
       scalar(1.4142135F),
       scalar(2),
       [](ModelBuilder& b) {
         b.Initializer("one", Tensor::Scalar(1.0F))
             .Initializer("half", Tensor::Scalar(0.5F))
             .Node("Div", {"x", "w"}, {"a"})
             .Node("Erf", {"a"}, {"e"})
             .Node("Add", {"e", "one"}, {"c"})
             .Node("Mul", {"x", "c"}, {"d"})
             .Node("Mul", {"d", "half"}, {"y"});
       }},
      {"a shape",
       {4, 6},
       Tensor::Of<int64_t>({2}, {3, 8}),
       Tensor::Of<int64_t>({2}, {8, 3}),
       [](ModelBuilder& b) {
         b.Node("Reshape", {"x", "w"}, {"r"}).Node("Relu", {"r"}, {"y"});
       }},
      {"a condition",
       {3, 7},
       Tensor::Scalar(true),
       Tensor::Scalar(false),
       [](ModelBuilder& b) {
         b.Node("If", {"w"}, {"y"})
             .Body("then_branch", Branch("Neg", {"x"}))
             .Body("else_branch", Branch("Abs", {"x"}));
       }},
  };
  cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

// Bodies that read w from around them, as it is and through nodes that would fold.
std::vector<Case> CasesOfBodies() {
  const Tensor stored = RandomFloats({7}, 1, 0.5F, 2);
  const Tensor given = RandomFloats({7}, 2, 0.5F, 2);
  return {
      {"a branch",
       {3, 7},
       stored,
       given,
       [](ModelBuilder& b) {
         ModelBuilder then(17);
         then.Node("Neg", {"w"}, {"k"}).Node("Add", {"x", "k"}, {"r"}).Output("r");
         b.Input("c", DType::kBool, {})
             .Node("If", {"c"}, {"y"})
             .Body("then_branch", then)
             .Body("else_branch", Branch("Mul", {"x", "w"}));
       }},
      {"an iteration",
       {3, 7},
       stored,
       given,
       [](ModelBuilder& b) {
         ModelBuilder body(17);
         body.Input("i", DType::kInt64, {})
             .Input("go", DType::kBool, {})
             .Input("sum", DType::kFloat, {3, 7})
             .Node("Neg", {"w"}, {"k"})
             .Node("Add", {"sum", "k"}, {"next"})
             .Output("go")
             .Output("next");
         b.Initializer("trips", Tensor::Scalar<int64_t>(3))
             .Node("Loop", {"trips", "", "x"}, {"y"})
             .Body("body", body);
       }},
      {"a body in a body",
       {3, 7},
       stored,
       given,
       [](ModelBuilder& b) {
         ModelBuilder inner(17);
         inner.Input("i", DType::kInt64, {})
             .Input("go", DType::kBool, {})
             .Input("sum", DType::kFloat, {3, 7})
             .Node("Neg", {"k"}, {"minus"})
             .Node("Add", {"sum", "minus"}, {"next"})
             .Output("go")
             .Output("next");
         ModelBuilder then(17);
         then.Node("Tanh", {"w"}, {"k"})
             .Node("Loop", {"trips", "", "x"}, {"r"})
             .Body("body", inner)
             .Output("r");
         b.Input("c", DType::kBool, {})
             .Initializer("trips", Tensor::Scalar<int64_t>(3))
             .Node("If", {"c"}, {"y"})
             .Body("then_branch", then)
             .Body("else_branch", Branch("Abs", {"x"}));
       }},
      {"a condition of a body",
       {3, 7},
       Tensor::Scalar(true),
       Tensor::Scalar(false),
       [](ModelBuilder& b) {
         ModelBuilder then(17);
         then.Node("If", {"w"}, {"r"})
             .Body("then_branch", Branch("Neg", {"x"}))
             .Body("else_branch", Branch("Abs", {"x"}))
             .Output("r");
         b.Input("c", DType::kBool, {})
             .Node("If", {"c"}, {"y"})
             .Body("then_branch", then)
             .Body("else_branch", Branch("Relu", {"x"}));
       }},
  };
}

struct Loaded {
  // Without what the file gives inputs: each must be given then.
  explicit Loaded(const Case& c) {
    ModelBuilder builder(17);
    builder.Input("x", DType::kFloat, graph::ToDims(c.x))
        .Input("w", c.stored.dtype(), graph::ToDims(c.stored.shape()))
        .Initializer("w", c.stored);
    c.nodes(builder);
    builder.Output("y");
    auto imported = onnx_import::ImportBytes(builder.Serialize(), {}, constants);
    EXPECT_TRUE(imported.ok()) << imported.status();
    graph = std::move(imported->graph);
    defaults = graph::TakeDefaults(graph);
    const Status resolved = ops::ResolveAll(graph);
    EXPECT_TRUE(resolved.ok()) << resolved;
    const Status inferred = ops::InferAll(graph);
    EXPECT_TRUE(inferred.ok()) << inferred;
  }

  graph::ConstantStore constants;
  graph::Graph graph;
  graph::Defaults defaults;
};

void ExpectReplaceable(const Case& c, const Tensor& condition) {
  SCOPED_TRACE(c.name);
  const Loaded before(c);
  Loaded after(c);
  OptimizeOptions options;
  options.defaults = after.defaults;
  const auto report = Optimize(after.graph, after.constants, options);
  ASSERT_TRUE(report.ok()) << report.status();
  for (const Tensor& w : {c.stored, c.given}) {
    NamedTensors inputs = {{"x", RandomFloats(c.x, 3)}, {"w", w}};
    if (condition.valid()) inputs["c"] = condition;
    const auto expected = test::Interpret(before.graph, inputs);
    const auto actual = test::Interpret(after.graph, inputs);
    ASSERT_TRUE(expected.ok() && actual.ok()) << expected.status() << actual.status();
    EXPECT_TRUE(Close(actual->at("y"), expected->at("y"), c.tolerance))
        << (w.owner() == c.given.owner() ? "replaced" : "by default");
  }
}

TEST(ReplaceableDefaults, AreConstantsToNoPass) {
  for (const Case& c : Cases()) ExpectReplaceable(c, {});
}

TEST(ReplaceableDefaults, AreConstantsToNoBody) {
  for (const Case& c : CasesOfBodies()) {
    for (const bool condition : {true, false}) ExpectReplaceable(c, Tensor::Scalar(condition));
  }
}

}  // namespace
}  // namespace tandem::optimizer
