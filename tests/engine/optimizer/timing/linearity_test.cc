// The optimizer's time grows as the graph does.
#include "tests/support/linearity.h"

#include <gtest/gtest.h>

#include "engine/ops/registry.h"
#include "tests/engine/optimizer/toy_ops.h"
#include "tests/support/random_tensor.h"

namespace tandem::optimizer::test {
namespace {

using tandem::test::kLinear;
using tandem::test::SecondsOfThread;

Tensor Four() { return Tensor::Of<float>({4}, {-2, -1, 1, 2}); }

using Build = void (*)(ToyGraph&, int nodes);

// Of `copies` graphs, so that short times add up to many ticks of the clock.
double SecondsToOptimize(Build build, int nodes, int copies) {
  double seconds = 0;
  for (int i = 0; i < copies; ++i) {
    ToyGraph toy;
    build(toy, nodes);
    const double start = SecondsOfThread();
    EXPECT_TRUE(Optimize(toy.graph, toy.constants, {}).ok());
    seconds += SecondsOfThread() - start;
  }
  return seconds;
}

double RatioOfTwice(Build build, int nodes, int copies) {
  return tandem::test::RatioOfTwice(
      [&](int size) { return SecondsToOptimize(build, size, copies); }, nodes);
}

// The constant is read by every node, which is the worst case for lists of uses.
void BuildWide(ToyGraph& toy, int nodes) {
  const graph::ValueId x = toy.Input("x");
  const graph::ValueId c = toy.Constant("c", Four());
  graph::ValueId last = x;
  for (int i = 0; i < nodes; i += 2) {
    const graph::ValueId h = toy.Node("Gemm", {last}, "h", Producer());
    last = toy.Node("Add", {h, c}, "y", Residual());
  }
  toy.Output(last);
}

void BuildConstantChain(ToyGraph& toy, int nodes) {
  graph::ValueId last = toy.Constant("c", Four());
  for (int i = 0; i < nodes; ++i) last = toy.Node("Double", {last}, "h", Double());
  toy.Output(toy.Node("Add", {toy.Input("x"), last}, "y", Residual()));
}

// A node of ONNX with a result of the extents of the last input.
graph::ValueId Add(ToyGraph& toy, const std::string& op, std::vector<graph::ValueId> inputs) {
  graph::Node node;
  node.op_type = op;
  node.opset = 17;
  node.outputs = {toy.graph.AddValue("v", toy.graph.value(inputs.front()).type)};
  node.inputs = std::move(inputs);
  node.op = *ops::ParseNode(node);
  const graph::ValueId result = node.outputs[0];
  toy.graph.AddNode(std::move(node));
  return result;
}

// Element-wise operators behind one convolution.
void BuildElementwiseChain(ToyGraph& toy, int nodes) {
  const graph::ValueId x =
      toy.graph.AddInput("x", {.dtype = DType::kFloat, .dims = graph::DimVector{1, 4, 3, 3}});
  const graph::ValueId w = toy.Constant("w", tandem::test::RandomFloats({4, 4, 1, 1}, 1));
  graph::ValueId last = Add(toy, "Conv", {x, w});
  for (int i = 0; i < nodes; ++i) last = Add(toy, i % 2 == 0 ? "Relu" : "Neg", {last});
  toy.Output(last);
}

TEST(Linearity, OfTheNodes) { EXPECT_LT(RatioOfTwice(BuildWide, 10'000, 4), kLinear); }

TEST(Linearity, OfAChainOfElementwiseOperators) {
  for (const int nodes : {2000, 4000}) {
    EXPECT_LT(RatioOfTwice(BuildElementwiseChain, nodes, 2), kLinear) << nodes;
  }
}

TEST(Linearity, OfAConstantChain) {
  EXPECT_LT(RatioOfTwice(BuildConstantChain, 600, 200), kLinear);
}

}  // namespace
}  // namespace tandem::optimizer::test
