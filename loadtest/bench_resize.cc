// Single-thread speed of resizing.
#include <benchmark/benchmark.h>

#include <utility>
#include <vector>

#include "engine/kernels/resize/resize.h"
#include "engine/kernels/resize/rows.h"
#include "loadtest/kernel_bench.h"

namespace tandem::kernels {
namespace {

using loadtest::Data;

// Arguments: channels, extent in, extent out, channels last, antialias.
void BM_Resize(benchmark::State& state, ResizeMode mode) {
  const int64_t channels = state.range(0);
  const int64_t in = state.range(1);
  const int64_t out = state.range(2);
  ResizeRule rule{.mode = mode};
  if (state.range(4) != 0) rule.filter = ResizeFilter::kAntialias;
  const auto axis = [&rule](int64_t from, int64_t to) {
    return MakeResizeAxis(rule, {from, to, {static_cast<double>(to), static_cast<double>(from)}});
  };
  std::vector<ResizeAxis> axes = {axis(in, out), axis(in, out)};
  axes.insert(state.range(3) != 0 ? axes.end() : axes.begin(),
              ResizeAxis{.in = channels, .out = channels});
  const ResizePlan plan = MakeResizePlan(std::move(axes));
  Data<> x(channels * in * in);
  Data<> y(channels * out * out);
  const SequentialParallel parallel;
  loadtest::Measure(state, loadtest::MemoryWork({x.bytes(), y.bytes()}), [&] {
    if (mode == ResizeMode::kNearest) return ResizeNearest(plan, x.get(), y.get(), 0.0f, parallel);
    ResizeRows(DetectIsa(), plan, x.get(), y.get(), parallel);
  });
}
BENCHMARK_CAPTURE(BM_Resize, nearest, ResizeMode::kNearest)
    ->ArgNames({"channels", "in", "out", "last", "antialias"})
    ->Args({512, 20, 40, 1, 0})   // YOLO's neck
    ->Args({256, 25, 50, 1, 0})   // a feature pyramid
    ->Args({3, 128, 256, 0, 0});  // an image
BENCHMARK_CAPTURE(BM_Resize, linear, ResizeMode::kLinear)
    ->ArgNames({"channels", "in", "out", "last", "antialias"})
    ->Args({256, 28, 56, 1, 0})  // U-Net
    ->Args({64, 112, 224, 1, 0})
    ->Args({21, 65, 520, 1, 0})  // DeepLabV3's classes, channels last
    ->Args({21, 65, 520, 0, 0})  // and native
    ->Args({3, 512, 224, 0, 0})  // an image
    ->Args({3, 512, 224, 1, 0})
    ->Args({3, 512, 224, 0, 1});
BENCHMARK_CAPTURE(BM_Resize, cubic, ResizeMode::kCubic)
    ->ArgNames({"channels", "in", "out", "last", "antialias"})
    ->Args({3, 256, 512, 0, 0})   // super-resolution
    ->Args({768, 14, 24, 1, 0});  // ViT's positions

}  // namespace
}  // namespace tandem::kernels
