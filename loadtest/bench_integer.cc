// Single-thread speed of products of 8-bit integers.
#include <benchmark/benchmark.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "engine/kernels/quant/integer.h"
#include "loadtest/kernel_bench.h"

namespace tandem::kernels {
namespace {

using loadtest::Data;

// uint8 x times int8 w, rounded back to uint8.
void Run(benchmark::State& state, Isa isa, const ConvGeometry& geometry) {
  if (isa > DetectIsa()) return state.SkipWithError("not on this machine");
  const int64_t filters = geometry.out_channels;
  const int64_t inputs = geometry.batch * geometry.in_pixels() * geometry.in_channels;
  const int64_t outputs = geometry.batch * geometry.out_pixels() * geometry.out_channels;
  const int64_t depth = geometry.taps() * geometry.in_per_group();
  Data<std::byte> x(inputs);
  Data<std::byte> w(filters * depth);
  Data<std::byte> y(outputs);
  const std::vector<int32_t> bias(static_cast<size_t>(filters), 5);
  const std::vector<float> multipliers(static_cast<size_t>(filters + kMultiplierSlack), 0.001f);
  const uint8_t x_zero = 117;
  const int8_t w_zero = 0;
  Data<std::byte> packed(static_cast<int64_t>(PackedIntegerBytes(isa, geometry)));
  PackIntegerWeights(isa, DType::kUint8, geometry,
                     NativeIntegerWeights(geometry, DType::kInt8, w.get()), packed.get());
  Data<std::byte> scratch(static_cast<int64_t>(IntegerConvScratchBytes(isa, geometry)));
  IntegerConvData data;
  data.x = {DType::kUint8, x.get(), &x_zero, 0};
  data.w = {DType::kInt8, nullptr, &w_zero, 0};
  data.result = {y.get(), DType::kUint8, bias.data(), multipliers.data(), 100, 0, 255};
  const SequentialParallel parallel;
  loadtest::Measure(state, loadtest::ByteWork(isa, outputs * depth), [&] {
    IntegerConv(isa, geometry, {packed.get(), scratch.get()}, data, parallel);
  });
  state.SetLabel(std::string(IsaName(isa)));
}

void BM_Product(benchmark::State& state) {
  Run(state, static_cast<Isa>(state.range(3)),
      ProductGeometry(state.range(0), state.range(1), state.range(2)));
}
// Each shape by each of the levels.
void AddAll(benchmark::internal::Benchmark* bench, const std::vector<std::vector<int64_t>>& shapes,
            std::initializer_list<Isa> levels) {
  for (std::vector<int64_t> arguments : shapes) {
    arguments.push_back(0);
    for (const Isa isa : levels) {
      arguments.back() = static_cast<int64_t>(isa);
      bench->Args(arguments);
    }
  }
}

void ProductArguments(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"m", "n", "k", "isa"});
  AddAll(bench, {{512, 512, 512}}, {Isa::kAvx2, Isa::kAvx512, Isa::kVnni, Isa::kAmx});
  AddAll(bench,
         {{1024, 1024, 1024},
          {3136, 64, 64},
          {3136, 256, 64},
          {196, 1024, 256},
          {49, 512, 2048},
          {1, 1000, 2048}},
         {Isa::kVnni, Isa::kAmx});
}
BENCHMARK(BM_Product)->Apply(ProductArguments);

// An image of `size` squared with `channels`, a square window, as many filters or one a channel.
void BM_Conv(benchmark::State& state) {
  const int64_t size = state.range(0);
  const int64_t channels = state.range(1);
  const int64_t kernel = state.range(2);
  const int64_t stride = state.range(3);
  ConvGeometry geometry;
  geometry.in_channels = channels;
  geometry.out_channels = channels == 3 ? 64 : channels;
  geometry.group = state.range(4);
  const WindowAxis axis{size, (size - 1) / stride + 1, kernel, stride, 1, kernel / 2, kernel / 2};
  geometry.axes = PadAxes({axis, axis});
  Run(state, static_cast<Isa>(state.range(5)), geometry);
}
void ConvArguments(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"size", "channels", "kernel", "stride", "group", "isa"});
  AddAll(bench, {{224, 3, 7, 2, 1}, {56, 64, 3, 1, 1}, {14, 256, 3, 1, 1}, {7, 512, 3, 1, 1}},
         {Isa::kAvx2, Isa::kVnni, Isa::kAmx});
  AddAll(bench,
         {{112, 32, 3, 1, 32},
          {112, 96, 3, 2, 96},
          {56, 144, 3, 1, 144},
          {14, 384, 3, 1, 384},
          {7, 960, 3, 1, 960}},
         {Isa::kAvx2, Isa::kVnni});
}
BENCHMARK(BM_Conv)->Apply(ConvArguments);

}  // namespace
}  // namespace tandem::kernels
