// Single-thread speed of the matrix product.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <vector>

#include "engine/kernels/elementwise/unary.h"
#include "engine/kernels/gemm/gemm.h"
#include "loadtest/kernel_bench.h"

namespace tandem::kernels {
namespace {

using loadtest::Data;
using loadtest::FloatWork;
using loadtest::Measure;

void BM_Gemm(benchmark::State& state) {
  const int64_t m = state.range(0);
  const int64_t n = state.range(1);
  const int64_t k = state.range(2);
  const Arithmetic by{static_cast<Isa>(state.range(3)), static_cast<Precision>(state.range(4))};
  if (by.isa > DetectIsa()) return state.SkipWithError("not on this machine");
  Data<> a(m * k);
  Data<> b(k * n);
  Data<> bias(n);
  Data<> c(m * n);
  Data<> packed(PackedFloats(by, k, n));
  const SequentialParallel parallel;
  PackB(by, {k, n, {b.get(), n, 1}, 1}, packed.get(), parallel);
  const Epilogue epilogue = {{EpilogueOp::kAdd, OperandKind::kColumn, 0, 0},
                             {EpilogueOp::kRelu, OperandKind::kNone, 0, 0}};
  const EpilogueOperand operands[] = {{bias.get(), 0}, {}};
  const GemmProblem problem{m, n, k, a.get(), k, c.get(), n, &epilogue, operands};
  Measure(state, FloatWork(by.isa, m * n * k, {4 * (m * k + k * n), 4 * m * n}),
          [&] { Gemm(by, problem, packed.get(), parallel); });
  state.SetLabel(fmt::format("{} {}", IsaName(by.isa), PackFormat(by, k, n)));
}

// Extents of products times the kernels that compute them.
void ProductArguments(benchmark::internal::Benchmark* bench) {
  const std::vector<std::vector<int64_t>> shapes = {{512, 512, 512},
                                                    {1024, 1024, 1024},
                                                    {1024, 1024, 1008},
                                                    {3136, 64, 64},
                                                    {3136, 256, 64},
                                                    {3136, 64, 576},
                                                    {784, 512, 128},
                                                    {196, 256, 2304},
                                                    {196, 1024, 256},
                                                    {49, 512, 4608},
                                                    {49, 2048, 512},
                                                    {128, 768, 3072},
                                                    {1, 1024, 1024},
                                                    {2, 1024, 1024},
                                                    // Where sums of bfloat16 products begin to pay.
                                                    {196, 16, 64},
                                                    {196, 32, 32},
                                                    {196, 64, 16},
                                                    {196, 64, 32},
                                                    {196, 16, 256}};
  const Arithmetic kernels[] = {{Isa::kAvx2},
                                {Isa::kAvx512},
                                {Isa::kAmx, Precision::kF32},
                                {Isa::kAmx, Precision::kF32Strict},
                                {Isa::kAmx, Precision::kBf16}};
  bench->ArgNames({"m", "n", "k", "isa", "precision"});
  for (std::vector<int64_t> arguments : shapes) {
    arguments.resize(5);
    for (const Arithmetic& by : kernels) {
      arguments[3] = static_cast<int64_t>(by.isa);
      arguments[4] = static_cast<int64_t>(by.precision);
      bench->Args(arguments);
    }
  }
}
BENCHMARK(BM_Gemm)->Apply(ProductArguments);

// The mean of the rows of a product, made as they come (fused) or afterwards.
void BM_RowMean(benchmark::State& state) {
  const int64_t items = state.range(0);
  const int64_t m = state.range(1);
  const int64_t n = state.range(2);
  const int64_t k = state.range(3);
  const bool fused = state.range(4) != 0;
  const Isa isa = DetectIsa();
  Data<> a(items * m * k);
  Data<> b(k * n);
  Data<> c(items * m * n);
  Data<> y(items * n);
  Data<> packed(PackedFloats({isa}, k, n));
  const SequentialParallel parallel;
  PackB({isa}, {k, n, {b.get(), n, 1}, 1}, packed.get(), parallel);
  ReducedGemm product;
  product.items = items;
  product.joined = items;
  product.problem = {m, n, k, nullptr, k, y.get(), n};
  product.op = ReduceOp::kMean;
  Data<> scratch(ReducedGemmScratchFloats({isa}, product, 1));
  const GemmProblem whole{items * m, n, k, a.get(), k, c.get(), n};
  const int64_t extents[] = {items, m, n};
  const ReducePlan plan = MakeReducePlan(extents, {false, true, false});
  const ReduceFunction reduce = FindReduce(ReduceOp::kMean, DType::kFloat, isa);
  const auto operands = [&](int64_t item) -> ReducedGemm::Operands {
    return {a.get() + item * m * k, packed.get()};
  };
  Measure(state, FloatWork(isa, items * m * n * k), [&] {
    if (fused) {
      ReduceGemm({isa}, product, operands, scratch.get(), parallel);
    } else {
      Gemm({isa}, whole, packed.get(), parallel);
      RunReduce(reduce, plan, c.get(), y.get(), parallel);
    }
  });
}
BENCHMARK(BM_RowMean)
    ->ArgNames({"items", "m", "n", "k", "fused"})
    ->ArgsProduct({{1}, {197, 3136}, {768}, {64, 768}, {0, 1}})
    ->ArgsProduct({{8}, {7, 49, 197}, {256}, {64, 256}, {0, 1}})
    ->ArgsProduct({{1}, {50000}, {64}, {16, 64}, {0, 1}});

// A product of an A that an element-wise kernel makes as it is read (fused) or before.
void BM_Prologue(benchmark::State& state) {
  const int64_t m = state.range(0);
  const int64_t n = state.range(1);
  const int64_t k = state.range(2);
  const auto op = static_cast<UnaryOp>(state.range(3));
  const bool fused = state.range(4) != 0;
  const Isa isa = DetectIsa();
  Data<> a(m * k);
  Data<> made(m * k);
  Data<> b(k * n);
  Data<> c(m * n);
  Data<> packed(PackedFloats({isa}, k, n));
  const SequentialParallel parallel;
  PackB({isa}, {k, n, {b.get(), n, 1}, 1}, packed.get(), parallel);
  const RowKernel kernel = {FindUnary(op, DType::kFloat, isa), {}};
  Prologue prologue;
  prologue.stages = {{kernel, -1, false}};
  GemmProblem problem{m, n, k, fused ? a.get() : made.get(), k, c.get(), n};
  if (fused) problem.prologue = &prologue;
  Measure(state, FloatWork(isa, m * n * k), [&] {
    if (!fused) ApplyPrologue(prologue, {a.get(), 0, m * k}, made.get());
    Gemm({isa}, problem, packed.get(), parallel);
  });
}
BENCHMARK(BM_Prologue)
    ->ArgNames({"m", "n", "k", "op", "fused"})
    ->ArgsProduct({{1, 14, 197, 3136},
                   {64, 256, 512, 1024, 3072},
                   {256, 768},
                   {static_cast<int>(UnaryOp::kRelu), static_cast<int>(UnaryOp::kGeluErf)},
                   {0, 1}});

}  // namespace
}  // namespace tandem::kernels
