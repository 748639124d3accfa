// Single-thread speed of quantization.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "engine/kernels/quant/quantised_sum.h"
#include "engine/kernels/quant/quantize.h"
#include "loadtest/kernel_bench.h"
#include "loadtest/row_bench.h"

namespace tandem::kernels {
namespace {

using loadtest::Along;
using loadtest::Data;
using loadtest::ForAll;
using loadtest::MeasureRow;

// Elements of ResNet-50's last activation, and of one of its largest.
constexpr int64_t kSmall = int64_t{7} * 7 * 2048;
constexpr int64_t kLarge = int64_t{56} * 56 * 256;

constexpr float kScale = 0.02f;
constexpr uint8_t kZeroPoint = 117;

void BM_Quantize(benchmark::State& state) {
  Data<> x(state.range(0));
  Data<uint8_t> y(state.range(0));
  MeasureRow(state, {FindQuantizeSimd(DType::kFloat, DType::kUint8, DetectIsa()), {}},
             {Along(x), ForAll(kScale), ForAll(kZeroPoint)}, y);
}
BENCHMARK(BM_Quantize)->ArgName("n")->Arg(kSmall)->Arg(kLarge);

void BM_Dequantize(benchmark::State& state) {
  Data<uint8_t> x(state.range(0));
  Data<> y(state.range(0));
  MeasureRow(state, {FindDequantizeSimd(DType::kUint8, DType::kFloat, DetectIsa()), {}},
             {Along(x), ForAll(kScale), ForAll(kZeroPoint)}, y);
}
BENCHMARK(BM_Dequantize)->ArgName("n")->Arg(kSmall)->Arg(kLarge);

// A row whose columns have scales of their own.
void BM_QuantizeColumns(benchmark::State& state) {
  Data<> x(state.range(0));
  Data<> scales(state.range(0));
  Data<int8_t> zero_points(state.range(0));
  Data<int8_t> y(state.range(0));
  std::fill_n(scales.get(), scales.elements(), kScale);
  MeasureRow(state, {FindQuantize(DType::kFloat, DType::kInt8), {}},
             {Along(x), Along(scales), Along(zero_points)}, y);
}
BENCHMARK(BM_QuantizeColumns)->ArgName("columns")->Arg(768);

void BM_DequantizeColumns(benchmark::State& state) {
  Data<int8_t> x(state.range(0));
  Data<> scales(state.range(0));
  Data<int8_t> zero_points(state.range(0));
  Data<> y(state.range(0));
  MeasureRow(state, {FindDequantize(DType::kInt8, DType::kFloat), {}},
             {Along(x), Along(scales), Along(zero_points)}, y);
}
BENCHMARK(BM_DequantizeColumns)->ArgName("columns")->Arg(768);

// A residual of quantised tensors.
void BM_QuantisedSum(benchmark::State& state) {
  const int64_t n = state.range(0);
  Data<uint8_t> a(n);
  Data<uint8_t> b(n);
  Data<uint8_t> y(n);
  const QuantisedSum sum{0.02f, 0.03f, 0.04f, 117, 120, 110, 0, 255};
  const AddQuantised function = AddQuantisedFor(DType::kUint8, DetectIsa());
  const void* operands[] = {a.get(), b.get()};
  const int64_t steps[] = {1, 1};
  const RowArgs row{operands, steps, 2, y.get(), n};
  loadtest::Measure(state, loadtest::MemoryWork({a.bytes() + b.bytes(), y.bytes()}),
                    [&] { function(sum, row); });
}
BENCHMARK(BM_QuantisedSum)->ArgName("n")->Arg(kSmall)->Arg(kLarge);

}  // namespace
}  // namespace tandem::kernels
