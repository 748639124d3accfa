// The optimizer's time grows as the graph does.
#include <gtest/gtest.h>
#include <malloc.h>
#include <time.h>

#include <algorithm>

#include "tests/engine/optimizer/toy_ops.h"

namespace tandem::optimizer::test {
namespace {

Tensor Four() { return Tensor::Of<float>({4}, {-2, -1, 1, 2}); }

constexpr double kLinear = 2.5;

using Build = void (*)(ToyGraph&, int nodes);

// Processor time of this thread, from the scheduler's clock: the times that getrusage tells are
// estimated from ticks, which other programs bend.
double SecondsOfThread() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

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

// Time for twice the nodes against time for the nodes, in seven alternating pairs: the lower
// quartile, so that a limit is passed only when the whole range between the quartiles is beyond it.
double RatioOfTwice(Build build, int nodes, int copies) {
  // Memory that is freed stays with the process: whether the kernel has to find fresh pages for the
  // next graph is not a matter of the driver.
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  SecondsToOptimize(build, 2 * nodes, 1);
  std::vector<double> ratios;
  for (int i = 0; i < 7; ++i) {
    const double once = SecondsToOptimize(build, nodes, copies);
    ratios.push_back(SecondsToOptimize(build, 2 * nodes, copies) / once);
  }
  std::ranges::sort(ratios);
  return ratios[1];
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
