// Single-thread speed of convolutions as they come in residual networks, in units of 10^9
// floating-point operations a second (a multiply-add counts as two). bench_gemm prints the peak.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "engine/base/arena.h"
#include "engine/kernels/conv/conv.h"
#include "engine/kernels/depthwise/depthwise.h"

namespace tandem::kernels {
namespace {

struct Data {
  Buffer buffer;
  explicit Data(int64_t floats) : buffer(*Buffer::Allocate(static_cast<size_t>(floats) * 4)) {
    for (int64_t i = 0; i < floats; ++i) get()[i] = static_cast<float>(i % 17) * 0.25f - 2;
  }
  float* get() { return reinterpret_cast<float*>(buffer.data()); }
};

// Arguments: input channels, output channels, input extent, kernel, stride, group, precision.
ConvGeometry GeometryOf(const benchmark::State& state) {
  ConvGeometry geometry;
  geometry.in_channels = state.range(0);
  geometry.out_channels = state.range(1);
  geometry.group = state.range(5);
  WindowAxis axis{.in = state.range(2), .kernel = state.range(3), .stride = state.range(4)};
  axis.pad_begin = axis.kernel / 2;
  axis.pad_end = axis.kernel / 2;
  axis.out = (axis.in + axis.pad_begin + axis.pad_end - axis.kernel) / axis.stride + 1;
  geometry.axes = PadAxes({axis, axis});
  return geometry;
}

void BM_Conv(benchmark::State& state) {
  const ConvGeometry geometry = GeometryOf(state);
  const auto precision = static_cast<Precision>(state.range(6));
  const Arithmetic by{
      std::min(DetectIsa(), precision == Precision::kF32Plain ? Isa::kAvx512 : Isa::kAmx),
      precision};
  const int64_t filter = geometry.in_per_group() * geometry.taps();
  Data x(geometry.in_pixels() * geometry.in_channels);
  Data y(geometry.out_pixels() * geometry.out_channels);
  Data weights(geometry.out_channels * filter);
  const bool grouped = HasShortGroups(by.isa, geometry);
  Data packed(grouped ? PackedShortGroupFloats(by.isa, geometry) : PackedConvFloats(by, geometry));
  const ConvWeights native = NativeWeights(geometry, weights.get());
  Data zeros(geometry.in_per_group());
  std::fill_n(zeros.get(), geometry.in_per_group(), 0.0f);
  Data bias(geometry.out_channels);
  const Epilogue epilogue = {{EpilogueOp::kAdd, OperandKind::kColumn, 0, 0},
                             {EpilogueOp::kRelu, OperandKind::kNone, 0, 0}};
  const EpilogueOperand operands[] = {{bias.get(), 0}, {}};
  const ConvData data{x.get(), y.get(), zeros.get(), &epilogue, operands};
  const SequentialParallel parallel;
  if (grouped) {
    PackShortGroups(by.isa, geometry, native, packed.get());
    while (state.KeepRunning()) ConvShortGroups(by.isa, geometry, packed.get(), data, parallel);
  } else {
    PackConvWeights(by, geometry, native, packed.get());
    while (state.KeepRunning()) Conv(by, geometry, packed.get(), data, parallel);
  }
  const auto flops =
      2.0 * static_cast<double>(geometry.out_pixels() * geometry.out_channels * filter);
  state.counters["GFLOP/s"] = benchmark::Counter(
      flops * static_cast<double>(state.iterations()) * 1e-9, benchmark::Counter::kIsRate);
}
// Convolutions of known networks, plain and as sums of bfloat16 products.
void ConvArguments(benchmark::internal::Benchmark* bench) {
  const std::vector<std::vector<int64_t>> shapes = {
      {3, 64, 224, 7, 2, 1},     {64, 64, 56, 3, 1, 1},    {64, 256, 56, 1, 1, 1},
      {128, 128, 28, 3, 1, 1},   {256, 512, 28, 1, 2, 1},  {256, 256, 14, 3, 1, 1},
      {1024, 256, 14, 1, 1, 1},  {512, 512, 7, 3, 1, 1},   {2048, 512, 7, 1, 1, 1},
      {128, 128, 56, 3, 1, 32},  {256, 256, 28, 3, 1, 32}, {512, 512, 14, 3, 1, 32},
      {104, 104, 28, 3, 1, 13},  {60, 240, 28, 1, 1, 3},   {96, 96, 56, 7, 1, 96},
      {144, 144, 56, 3, 2, 144}, {960, 960, 7, 5, 1, 960}, {32, 64, 56, 3, 1, 32},
      {96, 16, 112, 1, 1, 1},    {240, 40, 28, 1, 1, 1},   {3, 32, 224, 3, 2, 1}};
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

}  // namespace
}  // namespace tandem::kernels
