#include "tests/engine/api/default_models.h"

#include "tests/engine/api/control_flow_testing.h"
#include "tests/support/random_tensor.h"

namespace tandem::test {
namespace {

using control_flow::Branch;
using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");

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

}  // namespace

std::vector<DefaultModel> DefaultModels() {
  return {
      {"a product",
       {kN, 40},
       {40, 30},
       {kN, 30},
       [](ModelBuilder& b) {
         b.Node("MatMul", {"x", "w"}, {"y"});
       }},
      {"a transposed product with a scaled operand",
       {kN, 40},
       {30, 40},
       {kN, 30},
       [](ModelBuilder& b) {
         b.Initializer("c", RandomFloats({30}, 2))
             .Node("Gemm", {"x", "w", "c"}, {"y"},
                   {{"transB", int64_t{1}}, {"alpha", 0.5F}, {"beta", 3.0F}});
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

Tensor DefaultOf(const DefaultModel& c) { return RandomFloats(c.w, 1, -0.5F, 0.5F); }

ModelBuilder Build(const DefaultModel& c, Weight weight) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, c.x);
  if (weight != Weight::kConstant) builder.Input("w", DType::kFloat, graph::ToDims(c.w));
  if (weight != Weight::kInput) builder.Initializer("w", DefaultOf(c));
  c.nodes(builder);
  builder.Output("y", DType::kFloat, c.y);
  return builder;
}

}  // namespace tandem::test
