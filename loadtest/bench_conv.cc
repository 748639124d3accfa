// Single-thread speed of convolutions as they come in residual networks, in units of 10^9
// floating-point operations a second (a multiply-add counts as two). bench_gemm prints the peak.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "engine/base/arena.h"
#include "engine/kernels/conv/conv.h"
#include "engine/kernels/depthwise/depthwise.h"
#include "engine/kernels/winograd/winograd.h"

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

// One convolution with bias and Relu.
class Bench {
 public:
  explicit Bench(const ConvGeometry& geometry)
      : geometry_(geometry),
        x_(geometry.in_pixels() * geometry.in_channels),
        y_(geometry.out_pixels() * geometry.out_channels),
        weights_(geometry.out_channels * filter()),
        zeros_(geometry.in_per_group()),
        bias_(geometry.out_channels) {
    std::fill_n(zeros_.get(), geometry.in_per_group(), 0.0f);
  }

  ConvWeights weights() { return NativeWeights(geometry_, weights_.get()); }
  ConvData data() { return {x_.get(), y_.get(), zeros_.get(), &epilogue_, operands_, nullptr}; }
  void Report(benchmark::State& state) const {
    const auto flops =
        2.0 * static_cast<double>(geometry_.out_pixels() * geometry_.out_channels * filter());
    state.counters["GFLOP/s"] = benchmark::Counter(
        flops * static_cast<double>(state.iterations()) * 1e-9, benchmark::Counter::kIsRate);
  }

 private:
  int64_t filter() const { return geometry_.in_per_group() * geometry_.taps(); }

  const ConvGeometry& geometry_;
  Data x_, y_, weights_, zeros_, bias_;
  const Epilogue epilogue_ = {{EpilogueOp::kAdd, OperandKind::kColumn, 0, 0},
                              {EpilogueOp::kRelu, OperandKind::kNone, 0, 0}};
  const EpilogueOperand operands_[2] = {{bias_.get(), 0}, {}};
};

void BM_Conv(benchmark::State& state) {
  const ConvGeometry geometry = GeometryOf(state);
  const auto precision = static_cast<Precision>(state.range(6));
  const Arithmetic by{
      std::min(DetectIsa(), precision == Precision::kF32Plain ? Isa::kAvx512 : Isa::kAmx),
      precision};
  Bench bench(geometry);
  const bool grouped = HasShortGroups(by.isa, geometry);
  Data packed(grouped ? PackedShortGroupFloats(by.isa, geometry) : PackedConvFloats(by, geometry));
  const ConvData data = bench.data();
  const SequentialParallel parallel;
  if (grouped) {
    PackShortGroups(by.isa, geometry, bench.weights(), packed.get());
    while (state.KeepRunning()) ConvShortGroups(by.isa, geometry, packed.get(), data, parallel);
  } else {
    PackConvWeights(by, geometry, bench.weights(), packed.get());
    while (state.KeepRunning()) Conv(by, geometry, packed.get(), data, parallel);
  }
  bench.Report(state);
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
      {128, 32, 56, 3, 1, 1},    {128, 32, 28, 3, 1, 1},   {128, 32, 14, 3, 1, 1},
      {128, 32, 7, 3, 1, 1},     {64, 64, 224, 3, 1, 1},   {256, 256, 56, 3, 1, 1},
      {512, 512, 28, 3, 1, 1},   {512, 512, 14, 3, 1, 1},  {16, 16, 56, 3, 1, 1},
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

// By minimal filtering of m x m outputs; GFLOP/s are those of the direct convolution.
void BM_Winograd(benchmark::State& state) {
  const ConvGeometry geometry = GeometryOf(state);
  const auto m = static_cast<int>(state.range(6));
  const Isa isa = std::min(DetectIsa(), Isa::kAvx512);
  Bench bench(geometry);
  Data packed(PackedWinogradFloats(isa, m, geometry));
  Data scratch(WinogradScratchFloats(isa, m, geometry, 1));
  ConvData data = bench.data();
  data.scratch = scratch.get();
  PackWinogradWeights(isa, m, geometry, bench.weights(), packed.get());
  const SequentialParallel parallel;
  while (state.KeepRunning()) ConvWinograd(isa, m, geometry, packed.get(), data, parallel);
  bench.Report(state);
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

}  // namespace
}  // namespace tandem::kernels
