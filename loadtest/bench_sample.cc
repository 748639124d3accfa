// Single-thread speed of what samples images between their elements: GridSample and RoiAlign.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "engine/kernels/grid_sample/grid_sample.h"
#include "engine/kernels/roi_align/roi_align.h"
#include "loadtest/kernel_bench.h"

namespace tandem::kernels {
namespace {

using loadtest::Data;
using loadtest::Measure;
using loadtest::MemoryWork;

// Square images at as many points as they have. Arguments: channels, extent.
void BM_GridSample(benchmark::State& state, GridMode mode) {
  const int64_t extent = state.range(1);
  GridSample sample;
  sample.mode = mode;
  sample.channels = state.range(0);
  sample.extents = {extent, extent};
  sample.points = extent * extent;
  Data<> x(sample.channels * sample.points);
  Data<> y(sample.channels * sample.points);
  Data<> grid(2 * sample.points);
  const auto place = [extent](int64_t i) {  // half an element aside
    return 2 * static_cast<float>(i) / static_cast<float>(extent) - 1;
  };
  float* point = grid.get();
  for (int64_t row = 0; row < extent; ++row) {
    for (int64_t column = 0; column < extent; ++column) {
      *point++ = place(column);
      *point++ = place(row);
    }
  }
  const GridBuffers buffers{DType::kFloat, DType::kFloat, x.get(), grid.get(), y.get()};
  const SequentialParallel parallel;
  Measure(state, MemoryWork({x.bytes() + grid.bytes(), y.bytes()}),
          [&] { RunGridSample(sample, buffers, parallel); });
}
BENCHMARK_CAPTURE(BM_GridSample, linear, GridMode::kLinear)
    ->ArgNames({"channels", "extent"})
    ->Args({3, 256})   // an image
    ->Args({64, 64});  // features of RAFT
BENCHMARK_CAPTURE(BM_GridSample, nearest, GridMode::kNearest)
    ->ArgNames({"channels", "extent"})
    ->Args({3, 256});

// Regions of 7 x 7 bins on features of Mask R-CNN. Arguments: channels, extent, regions.
void BM_RoiAlign(benchmark::State& state) {
  RoiAlign align;
  align.sampling = 2;
  align.channels = state.range(0);
  align.height = state.range(1);
  align.width = state.range(1);
  align.out_height = 7;
  align.out_width = 7;
  align.regions = state.range(2);
  Data<> x(align.channels * align.height * align.width);
  Data<> y(align.regions * align.channels * align.out_height * align.out_width);
  Data<> regions(align.regions * 4);
  for (int64_t i = 0; i < align.regions; ++i) {
    const auto corner = static_cast<float>(i % 20);
    const float region[] = {corner, corner, corner + 20, corner + 28};
    std::copy_n(region, 4, regions.get() + 4 * i);
  }
  Data<int64_t> items(align.regions);
  std::fill_n(items.get(), align.regions, 0);
  const RoiBuffers buffers{DType::kFloat, x.get(), regions.get(), items.get(), y.get()};
  const SequentialParallel parallel;
  Measure(state, MemoryWork({x.bytes(), y.bytes()}),
          [&] { RunRoiAlign(align, buffers, parallel); });
}
BENCHMARK(BM_RoiAlign)->ArgNames({"channels", "extent", "regions"})->Args({256, 50, 100});

}  // namespace
}  // namespace tandem::kernels
