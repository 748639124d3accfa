// Single-thread speed of depthwise convolutions, alone and in strips between pointwise ones.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "engine/kernels/depthwise/depthwise.h"
#include "engine/kernels/depthwise/strips.h"
#include "loadtest/conv_layer.h"
#include "loadtest/kernel_bench.h"

namespace tandem::kernels {
namespace {

using loadtest::ConvLayer;
using loadtest::Data;
using loadtest::FloatWork;
using loadtest::Measure;

Data<> PackedDepthwise(Isa isa, ConvLayer& layer) {
  Data<> packed(PackedShortGroupFloats(isa, layer.geometry()));
  PackShortGroups(isa, layer.geometry(), layer.weights(), packed.get());
  return packed;
}

// Arguments: channels, extent, kernel, stride.
void BM_Depthwise(benchmark::State& state) {
  const Isa isa = DetectIsa();
  const int64_t channels = state.range(0);
  ConvLayer layer({channels, channels, state.range(1), state.range(2), state.range(3), channels});
  Data<> packed = PackedDepthwise(isa, layer);
  const ConvData data = layer.data();
  const SequentialParallel parallel;
  Measure(state, FloatWork(isa, layer.multiply_adds(), layer.traffic()),
          [&] { ConvShortGroups(isa, layer.geometry(), packed.get(), data, parallel); });
}
BENCHMARK(BM_Depthwise)
    ->ArgNames({"channels", "extent", "kernel", "stride"})
    ->Args({32, 112, 3, 1})  // MobileNetV2
    ->Args({96, 112, 3, 2})
    ->Args({144, 56, 3, 1})
    ->Args({384, 14, 3, 1})
    ->Args({960, 7, 3, 1})
    ->Args({16, 112, 3, 2})  // MobileNetV3
    ->Args({240, 28, 5, 1})  // EfficientNet-B0
    ->Args({144, 56, 5, 2})
    ->Args({672, 14, 5, 2})
    ->Args({1152, 7, 5, 1})
    ->Args({96, 56, 7, 1})  // ConvNeXt-T
    ->Args({192, 28, 7, 1})
    ->Args({384, 14, 7, 1})
    ->Args({768, 7, 7, 1});

// The inverted bottleneck of MobileNetV2: three convolutions, one after the other or in strips.
// Arguments: channels before, between and behind, extent, kernel, stride, in strips.
void BM_Bottleneck(benchmark::State& state) {
  const Arithmetic by{std::min(DetectIsa(), Isa::kAvx512)};
  const int64_t channels = state.range(1);
  const int64_t extent = state.range(3);
  ConvLayer expansion({state.range(0), channels, extent, 1, 1, 1});
  ConvLayer depthwise({channels, channels, extent, state.range(4), state.range(5), channels});
  ConvLayer projection({channels, state.range(2), depthwise.geometry().axes.back().out, 1, 1, 1});
  const auto packed_pointwise = [&](ConvLayer& layer) {
    Data<> packed(PackedConvFloats(by, layer.geometry()));
    PackConvWeights(by, layer.geometry(), layer.weights(), packed.get());
    return packed;
  };
  Data<> before = packed_pointwise(expansion);
  Data<> filter = PackedDepthwise(by.isa, depthwise);
  Data<> behind = packed_pointwise(projection);
  const ConvData first = expansion.data();
  ConvData second = depthwise.data();
  second.x = first.y;
  ConvData third = projection.data();
  third.x = second.y;

  DepthwiseStrips strips;
  strips.depthwise = depthwise.geometry();
  strips.packed = filter.get();
  strips.data = second;
  strips.expansion = {
      {.k = state.range(0), .a = first.x, .epilogue = first.epilogue, .operands = first.operands},
      before.get()};
  strips.projection = {
      {.n = state.range(2), .c = third.y, .epilogue = third.epilogue, .operands = third.operands},
      behind.get()};
  Data<> scratch(DepthwiseStripsScratchFloats(by, strips, 1));
  const int64_t multiply_adds =
      expansion.multiply_adds() + depthwise.multiply_adds() + projection.multiply_adds();
  const SequentialParallel parallel;
  const bool in_strips = state.range(6) != 0;
  Measure(state, FloatWork(by.isa, multiply_adds), [&] {
    if (in_strips) return ConvDepthwiseStrips(by, strips, scratch.get(), parallel);
    Conv(by, expansion.geometry(), before.get(), first, parallel);
    ConvShortGroups(by.isa, depthwise.geometry(), filter.get(), second, parallel);
    Conv(by, projection.geometry(), behind.get(), third, parallel);
  });
}
void BottleneckArguments(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"before", "between", "behind", "extent", "kernel", "stride", "strips"});
  for (const int64_t in_strips : {0, 1}) {
    bench
        ->Args({16, 96, 24, 112, 3, 2, in_strips})  // MobileNetV2
        ->Args({24, 144, 24, 56, 3, 1, in_strips})
        ->Args({32, 192, 32, 28, 3, 1, in_strips})
        ->Args({64, 384, 64, 14, 3, 1, in_strips})
        ->Args({40, 240, 40, 28, 5, 1, in_strips});  // EfficientNet-B0
  }
}
BENCHMARK(BM_Bottleneck)->Apply(BottleneckArguments);

}  // namespace
}  // namespace tandem::kernels
