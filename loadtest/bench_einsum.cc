// Single-thread speed of the general sum of products, which serves equations that are no product of
// matrices.
#include <benchmark/benchmark.h>

#include <vector>

#include "engine/kernels/einsum/einsum.h"
#include "loadtest/kernel_bench.h"

namespace tandem::kernels {
namespace {

using loadtest::Data;

// y[i, j] = sum over k and l of a[i, k, l] * b[k, l, j]. Arguments: i, j, k, l.
void BM_Einsum(benchmark::State& state) {
  const int64_t i = state.range(0);
  const int64_t j = state.range(1);
  const int64_t k = state.range(2);
  const int64_t l = state.range(3);
  Data<> a(i * k * l);
  Data<> b(k * l * j);
  Data<> y(i * j);
  EinsumPlan plan;
  plan.outputs = {{i, {k * l, 0}}, {j, {0, 1}}};
  plan.sums = {{k, {l, l * j}}, {l, {1, j}}};
  const EinsumFunction function = FindEinsum(DType::kFloat);
  const std::vector<const void*> operands = {a.get(), b.get()};
  const SequentialParallel parallel;
  loadtest::Measure(
      state, loadtest::FloatWork(DetectIsa(), i * j * k * l, {a.bytes() + b.bytes(), y.bytes()}),
      [&] { function(plan, operands, y.get(), parallel); });
}
BENCHMARK(BM_Einsum)->ArgNames({"i", "j", "k", "l"})->Args({16, 16, 4, 8})->Args({64, 64, 8, 32});

}  // namespace
}  // namespace tandem::kernels
