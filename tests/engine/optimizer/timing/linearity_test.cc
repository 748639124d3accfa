// The optimizer's time grows as the graph does.
#include "tests/support/linearity.h"

#include <gtest/gtest.h>

#include "tests/engine/optimizer/toy_ops.h"

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

TEST(Linearity, OfTheNodes) { EXPECT_LT(RatioOfTwice(BuildWide, 10'000, 4), kLinear); }

TEST(Linearity, OfAConstantChain) {
  EXPECT_LT(RatioOfTwice(BuildConstantChain, 600, 200), kLinear);
}

}  // namespace
}  // namespace tandem::optimizer::test
