// Single-thread speed of pooling, channels last.
#include <benchmark/benchmark.h>

#include "engine/kernels/pool/pool.h"
#include "loadtest/kernel_bench.h"

namespace tandem::kernels {
namespace {

using loadtest::Data;
using loadtest::Measure;
using loadtest::MemoryWork;

// Arguments: channels, extent, kernel, stride, pad.
Pool PoolOf(const benchmark::State& state, PoolKind kind) {
  Pool pool;
  pool.kind = kind;
  pool.channels = state.range(0);
  WindowAxis axis{.in = state.range(1), .kernel = state.range(2), .stride = state.range(3)};
  axis.pad_begin = state.range(4);
  axis.pad_end = state.range(4);
  axis.out = (axis.in + 2 * state.range(4) - axis.kernel) / axis.stride + 1;
  pool.axes[1] = axis;
  pool.axes[2] = axis;
  pool.in = {.channel = 1, .spatial = pool.channels};
  pool.out = pool.in;
  return pool;
}

void BM_Pool(benchmark::State& state, PoolKind kind) {
  const Pool pool = PoolOf(state, kind);
  const int64_t inputs = pool.channels * pool.in_spatial();
  const int64_t outputs = pool.channels * pool.out_spatial();
  Data<> x(inputs);
  Data<> y(outputs);
  const SequentialParallel parallel;
  Measure(state, MemoryWork({x.bytes(), y.bytes()}),
          [&] { PoolChannelsLast(DetectIsa(), pool, x.get(), y.get(), parallel); });
}
BENCHMARK_CAPTURE(BM_Pool, max, PoolKind::kMax)
    ->ArgNames({"channels", "extent", "kernel", "stride", "pad"})
    ->Args({64, 112, 3, 2, 1})  // ResNet-50
    ->Args({64, 224, 2, 2, 0})  // VGG-16, its first
    ->Args({512, 14, 2, 2, 0})  // and last
    ->Args({480, 14, 3, 1, 1})  // GoogLeNet
    ->Args({512, 20, 5, 1, 2})  // YOLOv5
    ->Args({512, 20, 13, 1, 6});
BENCHMARK_CAPTURE(BM_Pool, average, PoolKind::kAverage)
    ->ArgNames({"channels", "extent", "kernel", "stride", "pad"})
    ->Args({128, 56, 2, 2, 0})    // DenseNet-121
    ->Args({192, 35, 3, 1, 1})    // Inception v3
    ->Args({2048, 7, 7, 1, 0})    // the mean of ResNet-50
    ->Args({144, 56, 56, 1, 0});  // squeeze and excitation, EfficientNet-B0

void BM_MaxPoolBytes(benchmark::State& state) {
  const Pool pool = PoolOf(state, PoolKind::kMax);
  const int64_t inputs = pool.channels * pool.in_spatial();
  const int64_t outputs = pool.channels * pool.out_spatial();
  Data<uint8_t> x(inputs);
  Data<uint8_t> y(outputs);
  const PoolBuffers buffers{DType::kUint8, x.get(), y.get()};
  const SequentialParallel parallel;
  Measure(state, MemoryWork({x.bytes(), y.bytes()}),
          [&] { MaxPoolBytes(DetectIsa(), pool, buffers, parallel); });
}
BENCHMARK(BM_MaxPoolBytes)
    ->ArgNames({"channels", "extent", "kernel", "stride", "pad"})
    ->Args({64, 112, 3, 2, 1});

}  // namespace
}  // namespace tandem::kernels
