// Single-thread speed of convolutions as they come in residual networks.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "engine/kernels/conv/conv.h"
#include "engine/kernels/conv/transposed.h"
#include "engine/kernels/depthwise/depthwise.h"
#include "engine/kernels/winograd/winograd.h"
#include "loadtest/conv_layer.h"
#include "loadtest/kernel_bench.h"

namespace tandem::kernels {
namespace {

using loadtest::ConvLayer;
using loadtest::Data;
using loadtest::FloatWork;
using loadtest::Measure;

// Arguments: input channels, output channels, input extent, kernel, stride, group, precision.
loadtest::SquareConv ConvOf(const benchmark::State& state) {
  return {state.range(0), state.range(1), state.range(2),
          state.range(3), state.range(4), state.range(5)};
}

void BM_Conv(benchmark::State& state) {
  const auto precision = static_cast<Precision>(state.range(6));
  const Arithmetic by{
      std::min(DetectIsa(), precision == Precision::kF32Plain ? Isa::kAvx512 : Isa::kAmx),
      precision};
  ConvLayer layer(ConvOf(state));
  const ConvGeometry& geometry = layer.geometry();
  const bool grouped = HasShortGroups(by.isa, geometry);
  Data<> packed(grouped ? PackedShortGroupFloats(by.isa, geometry)
                        : PackedConvFloats(by, geometry));
  const ConvData data = layer.data();
  const SequentialParallel parallel;
  if (grouped) {
    PackShortGroups(by.isa, geometry, layer.weights(), packed.get());
  } else {
    PackConvWeights(by, geometry, layer.weights(), packed.get());
  }
  Measure(state, FloatWork(by.isa, layer.multiply_adds(), layer.traffic()), [&] {
    if (grouped) {
      ConvShortGroups(by.isa, geometry, packed.get(), data, parallel);
    } else {
      Conv(by, geometry, packed.get(), data, parallel);
    }
  });
}
// Convolutions of known networks, plain and as sums of bfloat16 products.
void ConvArguments(benchmark::internal::Benchmark* bench) {
  const std::vector<std::vector<int64_t>> shapes = {
      {3, 64, 224, 7, 2, 1},    {64, 64, 56, 3, 1, 1},    {64, 256, 56, 1, 1, 1},
      {128, 128, 28, 3, 1, 1},  {256, 512, 28, 1, 2, 1},  {256, 256, 14, 3, 1, 1},
      {1024, 256, 14, 1, 1, 1}, {512, 512, 7, 3, 1, 1},   {2048, 512, 7, 1, 1, 1},
      {128, 128, 56, 3, 1, 32}, {256, 256, 28, 3, 1, 32}, {512, 512, 14, 3, 1, 32},
      {104, 104, 28, 3, 1, 13}, {60, 240, 28, 1, 1, 3},   {32, 64, 56, 3, 1, 32},
      {128, 32, 56, 3, 1, 1},   {128, 32, 28, 3, 1, 1},   {128, 32, 14, 3, 1, 1},
      {128, 32, 7, 3, 1, 1},    {64, 64, 224, 3, 1, 1},   {256, 256, 56, 3, 1, 1},
      {512, 512, 28, 3, 1, 1},  {512, 512, 14, 3, 1, 1},  {16, 16, 56, 3, 1, 1},
      {96, 16, 112, 1, 1, 1},   {240, 40, 28, 1, 1, 1},   {3, 32, 224, 3, 2, 1}};
  bench->ArgNames({"ic", "oc", "hw", "k", "s", "g", "precision"});
  for (std::vector<int64_t> arguments : shapes) {
    arguments.resize(7);
    for (const Precision precision : {Precision::kF32Plain, Precision::kF32, Precision::kBf16}) {
      arguments[6] = static_cast<int64_t>(precision);
      bench->Args(arguments);
    }
  }
}
BENCHMARK(BM_Conv)->Apply(ConvArguments);

// By minimal filtering of m x m outputs; GFLOP/s are those of the direct convolution.
void BM_Winograd(benchmark::State& state) {
  const auto m = static_cast<int>(state.range(6));
  const Isa isa = std::min(DetectIsa(), Isa::kAvx512);
  ConvLayer layer(ConvOf(state));
  const ConvGeometry& geometry = layer.geometry();
  Data<> packed(PackedWinogradFloats(isa, m, geometry));
  Data<> scratch(WinogradScratchFloats(isa, m, geometry, 1));
  ConvData data = layer.data();
  data.scratch = scratch.get();
  PackWinogradWeights(isa, m, geometry, layer.weights(), packed.get());
  const SequentialParallel parallel;
  Measure(state, FloatWork(isa, layer.multiply_adds()),
          [&] { ConvWinograd(isa, m, geometry, packed.get(), data, parallel); });
  state.SetLabel(fmt::format("chosen: {}", WinogradTile({isa, Precision::kF32}, geometry)));
}
void WinogradArguments(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"ic", "oc", "hw", "k", "s", "g", "m"});
  for (const auto& [in, out, extent] : {std::array<int64_t, 3>{64, 64, 56},
                                        {128, 128, 28},
                                        {256, 256, 14},
                                        {512, 512, 7},
                                        {128, 32, 56},
                                        {128, 32, 28},
                                        {128, 32, 14},
                                        {128, 32, 7},
                                        {64, 64, 224},
                                        {256, 256, 56},
                                        {512, 512, 28},
                                        {512, 512, 14},
                                        {16, 16, 56}}) {
    for (const int64_t m : {2, 4}) bench->Args({in, out, extent, 3, 1, 1, m});
  }
}
BENCHMARK(BM_Winograd)->Apply(WinogradArguments);

// Arguments: input channels, output channels, input extent, kernel, stride, padding.
void BM_ConvTranspose(benchmark::State& state) {
  const Arithmetic by{std::min(DetectIsa(), Isa::kAvx512)};
  ConvGeometry geometry;
  geometry.in_channels = state.range(0);
  geometry.out_channels = state.range(1);
  WindowAxis axis{.in = state.range(2), .kernel = state.range(3), .stride = state.range(4)};
  axis.pad_begin = state.range(5);
  axis.pad_end = state.range(5);
  axis.out = (axis.in - 1) * axis.stride + axis.kernel - 2 * state.range(5);
  geometry.axes = PadAxes({axis, axis});
  geometry.outputs.resize(kConvAxes);
  const int64_t filter = geometry.out_channels * geometry.taps();
  Data<> x(geometry.in_pixels() * geometry.in_channels);
  Data<> y(geometry.out_pixels() * geometry.out_channels);
  Data<> weights(geometry.in_channels * filter);
  Data<> zeros(geometry.in_channels);
  std::fill_n(zeros.get(), zeros.elements(), 0.0f);
  Data<> packed(PackedConvTransposeFloats(by, geometry));
  PackConvTransposeWeights(by, geometry, weights.get(), packed.get());
  const Epilogue none;
  const ConvData data{x.get(), y.get(), zeros.get(), &none};
  const SequentialParallel parallel;
  Measure(state, FloatWork(by.isa, x.elements() * filter, {x.bytes() + weights.bytes(), y.bytes()}),
          [&] { ConvTranspose(by, geometry, packed.get(), data, parallel); });
}
BENCHMARK(BM_ConvTranspose)
    ->ArgNames({"ic", "oc", "hw", "k", "s", "pad"})
    ->Args({1024, 512, 14, 2, 2, 0})  // U-Net
    ->Args({128, 64, 112, 2, 2, 0})
    ->Args({512, 256, 8, 4, 2, 1})  // DCGAN
    ->Args({64, 3, 32, 4, 2, 1});

}  // namespace
}  // namespace tandem::kernels
