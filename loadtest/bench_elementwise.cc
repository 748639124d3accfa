// Single-thread speed of element-wise kernels: of one operand and several, in chains, broadcast,
// and from type to type.
#include <benchmark/benchmark.h>

#include <array>

#include "engine/kernels/elementwise/binary.h"
#include "engine/kernels/elementwise/broadcast.h"
#include "engine/kernels/elementwise/cast.h"
#include "engine/kernels/elementwise/chain.h"
#include "engine/kernels/elementwise/unary.h"
#include "loadtest/kernel_bench.h"
#include "loadtest/row_bench.h"

namespace tandem::kernels {
namespace {

using loadtest::Along;
using loadtest::Data;
using loadtest::ForAll;
using loadtest::Measure;
using loadtest::MeasureRow;
using loadtest::MemoryWork;

// Elements of an activation in the second-level cache, and of ResNet-50's largest.
constexpr int64_t kSmall = int64_t{14} * 14 * 128;
constexpr int64_t kLarge = int64_t{112} * 112 * 64;

void BM_Unary(benchmark::State& state, UnaryOp op) {
  Data<> x(state.range(0));
  Data<> y(state.range(0));
  MeasureRow(state, {FindUnary(op, DType::kFloat, DetectIsa()), {1, 1}}, {Along(x)}, y);
}
BENCHMARK_CAPTURE(BM_Unary, relu, UnaryOp::kRelu)->ArgName("n")->Arg(kSmall)->Arg(kLarge);
BENCHMARK_CAPTURE(BM_Unary, hard_swish, UnaryOp::kHardSwish)
    ->ArgName("n")
    ->Arg(kSmall)
    ->Arg(kLarge);
BENCHMARK_CAPTURE(BM_Unary, sigmoid, UnaryOp::kSigmoid)->ArgName("n")->Arg(kSmall);
BENCHMARK_CAPTURE(BM_Unary, silu, UnaryOp::kSilu)->ArgName("n")->Arg(kSmall);
BENCHMARK_CAPTURE(BM_Unary, exp, UnaryOp::kExp)->ArgName("n")->Arg(kSmall);
BENCHMARK_CAPTURE(BM_Unary, tanh, UnaryOp::kTanh)->ArgName("n")->Arg(kSmall);
BENCHMARK_CAPTURE(BM_Unary, gelu_erf, UnaryOp::kGeluErf)->ArgName("n")->Arg(kSmall);
BENCHMARK_CAPTURE(BM_Unary, gelu_tanh, UnaryOp::kGeluTanh)->ArgName("n")->Arg(kSmall);
BENCHMARK_CAPTURE(BM_Unary, mish, UnaryOp::kMish)->ArgName("n")->Arg(kSmall);

// The row kernel of two operands, broadcast as networks do it. Arguments: rows, columns, and
// whether b goes along rows and along columns.
void BM_Binary(benchmark::State& state, BinaryOp op) {
  const int64_t extents[] = {state.range(0), state.range(1)};
  const bool along_rows = state.range(2) != 0;
  const bool along_columns = state.range(3) != 0;
  const int64_t n = extents[0] * extents[1];
  const int64_t b_elements = (along_rows ? extents[0] : 1) * (along_columns ? extents[1] : 1);
  Data<> a(n);
  Data<> b(b_elements);
  Data<> y(n);
  const int64_t column_step = along_columns ? 1 : 0;
  const int64_t row_step = !along_rows ? 0 : along_columns ? extents[1] : 1;
  const BroadcastOperand operands[] = {{a.get(), 4, {extents[1], 1}},
                                       {b.get(), 4, {row_step, column_step}}};
  const BroadcastLoop loop(extents, operands);
  const RowFunction function = FindBinary(op, DType::kFloat, DetectIsa());
  const SequentialParallel parallel;
  Measure(state, MemoryWork({a.bytes() + b.bytes(), y.bytes()}),
          [&] { loop.Run([&](const RowArgs& row) { function(row, {}); }, y.get(), 4, parallel); });
}
BENCHMARK_CAPTURE(BM_Binary, add, BinaryOp::kAdd)
    ->ArgNames({"rows", "columns", "along_rows", "along_columns"})
    ->Args({3136, 256, 1, 1})   // ResNet-50's first residual
    ->Args({49, 2048, 1, 1})    // its last
    ->Args({3136, 64, 0, 1})    // a bias, channels last
    ->Args({3136, 3, 0, 1})     // of an image
    ->Args({1536, 128, 0, 1});  // BERT's mask
BENCHMARK_CAPTURE(BM_Binary, mul, BinaryOp::kMul)
    ->ArgNames({"rows", "columns", "along_rows", "along_columns"})
    ->Args({3136, 144, 0, 1})  // squeeze and excitation, channels last
    ->Args({144, 3136, 1, 0})  // and native
    ->Args({128, 768, 0, 0});  // a scale
BENCHMARK_CAPTURE(BM_Binary, div, BinaryOp::kDiv)
    ->ArgNames({"rows", "columns", "along_rows", "along_columns"})
    ->Args({128, 768, 1, 0});
BENCHMARK_CAPTURE(BM_Binary, greater, BinaryOp::kGreater)
    ->ArgNames({"rows", "columns", "along_rows", "along_columns"})
    ->Args({128, 768, 0, 0});

// Third powers.
void BM_Pow(benchmark::State& state) {
  Data<> x(state.range(0));
  Data<> y(state.range(0));
  MeasureRow(state, {FindPow(DType::kFloat, DType::kFloat, DetectIsa()), {}},
             {Along(x), ForAll(3.0f)}, y);
}
BENCHMARK(BM_Pow)->ArgName("n")->Arg(98304);

// Relu6.
void BM_Clip(benchmark::State& state) {
  Data<> x(state.range(0));
  Data<> y(state.range(0));
  MeasureRow(state, {FindClip(DType::kFloat, DetectIsa()), {}},
             {Along(x), ForAll(0.0f), ForAll(6.0f)}, y);
}
BENCHMARK(BM_Clip)->ArgName("n")->Arg(kSmall)->Arg(kLarge);

// Masked scores.
void BM_Where(benchmark::State& state) {
  Data<bool> condition(state.range(0));
  Data<> a(state.range(0));
  Data<> y(state.range(0));
  MeasureRow(state, {FindWhere(DType::kFloat), {}}, {Along(condition), Along(a), ForAll(-1e9f)}, y);
}
BENCHMARK(BM_Where)->ArgName("n")->Arg(196608);

// relu(x * scale + residual) in one pass and in three.
void BM_Chain(benchmark::State& state) {
  const int64_t n = state.range(0);
  const bool chained = state.range(1) != 0;
  const Isa isa = DetectIsa();
  Data<> x(n);
  Data<> residual(n);
  Data<> y(n);
  const float scale = 0.5f;
  const RowKernel mul{FindBinary(BinaryOp::kMul, DType::kFloat, isa), {}};
  const RowKernel add{FindBinary(BinaryOp::kAdd, DType::kFloat, isa), {}};
  const RowKernel relu{FindUnary(UnaryOp::kRelu, DType::kFloat, isa), {}};
  const std::array<ChainStage, 2> stages = {ChainStage{add, 2}, ChainStage{relu, -1}};
  const void* operands[] = {x.get(), &scale, residual.get()};
  const int64_t steps[] = {1, 0, 1};
  const RowArgs row{operands, steps, 3, y.get(), n};
  const ChainRun again{y.get(), y.get(), n};
  Measure(state, MemoryWork({x.bytes() + residual.bytes(), y.bytes()}), [&] {
    if (chained) return RunChain(mul, 2, stages, 4, row);
    mul.function({operands, steps, 2, y.get(), n}, mul.params);
    RunStage(stages[0], {residual.get(), 1}, again);
    RunStage(stages[1], {}, again);
  });
}
BENCHMARK(BM_Chain)->ArgNames({"n", "chained"})->ArgsProduct({{kSmall, kLarge}, {0, 1}});

template <typename From, typename To>
void BM_Cast(benchmark::State& state) {
  Data<From> x(state.range(0));
  Data<To> y(state.range(0));
  MeasureRow(state, {FindCast(kDTypeOf<From>, kDTypeOf<To>), {}}, {Along(x)}, y);
}
BENCHMARK_TEMPLATE(BM_Cast, Float16, float)->ArgName("n")->Arg(kSmall);
BENCHMARK_TEMPLATE(BM_Cast, float, Float16)->ArgName("n")->Arg(kSmall);
BENCHMARK_TEMPLATE(BM_Cast, float, Bfloat16)->ArgName("n")->Arg(kSmall);
BENCHMARK_TEMPLATE(BM_Cast, uint8_t, float)->ArgName("n")->Arg(kSmall);
BENCHMARK_TEMPLATE(BM_Cast, int64_t, float)->ArgName("n")->Arg(kSmall);
BENCHMARK_TEMPLATE(BM_Cast, float, int64_t)->ArgName("n")->Arg(kSmall);

}  // namespace
}  // namespace tandem::kernels
