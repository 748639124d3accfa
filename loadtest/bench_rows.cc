// Single-thread speed of what goes along whole rows: softmax, normalization, reduction and order.
#include <benchmark/benchmark.h>

#include <vector>

#include "engine/kernels/norm/lrn.h"
#include "engine/kernels/norm/norm.h"
#include "engine/kernels/order/order.h"
#include "engine/kernels/reduce/reduce.h"
#include "engine/kernels/softmax/softmax.h"
#include "loadtest/kernel_bench.h"

namespace tandem::kernels {
namespace {

using loadtest::Data;
using loadtest::Measure;
using loadtest::MemoryWork;

void BM_Softmax(benchmark::State& state, SoftmaxOp op) {
  const SoftmaxShape shape{state.range(0), state.range(1), state.range(2)};
  const int64_t elements = shape.outer * shape.length * shape.inner;
  Data<> x(elements);
  Data<> y(elements);
  const SoftmaxFunction function = FindSoftmax(op, DType::kFloat, DetectIsa());
  const SequentialParallel parallel;
  Measure(state, MemoryWork({x.bytes(), y.bytes()}),
          [&] { RunSoftmax(function, shape, x.get(), y.get(), parallel); });
}
BENCHMARK_CAPTURE(BM_Softmax, softmax, SoftmaxOp::kSoftmax)
    ->ArgNames({"outer", "length", "inner"})
    ->Args({1, 1000, 1})      // ImageNet's classes
    ->Args({1536, 128, 1})    // scores of BERT
    ->Args({2364, 197, 1})    // of ViT-B/16
    ->Args({64, 50257, 1})    // words of GPT-2
    ->Args({1, 21, 270400});  // classes of every pixel, DeepLabV3
BENCHMARK_CAPTURE(BM_Softmax, log_softmax, SoftmaxOp::kLogSoftmax)
    ->ArgNames({"outer", "length", "inner"})
    ->Args({1536, 128, 1});

// Rows, each with statistics of its own.
void BM_Norm(benchmark::State& state, NormKind kind) {
  const int64_t sets = state.range(0);
  const int64_t length = state.range(1);
  Data<> x(sets * length);
  Data<> y(sets * length);
  Data<> scale(length);
  Data<> bias(length);
  const NormAxis axes[] = {{sets}, {length, NormAxisRole::kReduced, 1, 1}};
  const NormCall call{kind, 1e-5, MakeNormPlan(axes), {x.get(), y.get(), scale.get(), bias.get()}};
  const NormFunction function = FindNorm(DType::kFloat, DType::kFloat, DetectIsa());
  const SequentialParallel parallel;
  Measure(state, MemoryWork({x.bytes(), y.bytes()}), [&] { RunNorm(function, call, parallel); });
}
BENCHMARK_CAPTURE(BM_Norm, layer, NormKind::kStandard)
    ->ArgNames({"rows", "length"})
    ->Args({128, 768})  // BERT base
    ->Args({197, 768})  // ViT-B/16
    ->Args({3136, 96})  // ConvNeXt-T, its first stage
    ->Args({49, 768});  // and its last
BENCHMARK_CAPTURE(BM_Norm, root_mean_square, NormKind::kRootMeanSquare)
    ->ArgNames({"rows", "length"})
    ->Args({1, 4096})     // Llama 3 8B, the next word
    ->Args({128, 4096});  // on a prompt

// Every channel of an image alone, in both layouts.
void BM_InstanceNorm(benchmark::State& state) {
  const int64_t channels = state.range(0);
  const int64_t pixels = state.range(1);
  const bool channels_last = state.range(2) != 0;
  const int64_t elements = channels * pixels;
  Data<> x(elements);
  Data<> y(elements);
  Data<> scale(channels);
  Data<> bias(channels);
  const NormAxis channel{channels, NormAxisRole::kKept, 1, 1};
  const NormAxis pixel{pixels, NormAxisRole::kReduced};
  const std::vector<NormAxis> axes =
      channels_last ? std::vector{pixel, channel} : std::vector{channel, pixel};
  const NormCall call{
      NormKind::kStandard, 1e-5, MakeNormPlan(axes), {x.get(), y.get(), scale.get(), bias.get()}};
  const NormFunction function = FindNorm(DType::kFloat, DType::kFloat, DetectIsa());
  const SequentialParallel parallel;
  Measure(state, MemoryWork({x.bytes(), y.bytes()}), [&] { RunNorm(function, call, parallel); });
}
BENCHMARK(BM_InstanceNorm)
    ->ArgNames({"channels", "pixels", "last"})
    ->ArgsProduct({{128}, {3136}, {0, 1}});  // style transfer

// AlexNet's, in both layouts.
void BM_Lrn(benchmark::State& state) {
  const bool channels_last = state.range(2) != 0;
  Lrn lrn{.size = 5, .alpha = 1e-4f, .beta = 0.75f};
  lrn.channels = state.range(0);
  (channels_last ? lrn.outer : lrn.inner) = state.range(1);
  const int64_t elements = state.range(0) * state.range(1);
  Data<> x(elements);
  Data<> y(elements);
  const LrnFunction function = FindLrn(DType::kFloat, lrn, DetectIsa());
  const SequentialParallel parallel;
  Measure(state, MemoryWork({x.bytes(), y.bytes()}),
          [&] { RunLrn(function, lrn, x.get(), y.get(), parallel); });
}
BENCHMARK(BM_Lrn)->ArgNames({"channels", "pixels", "last"})->ArgsProduct({{96}, {3025}, {0, 1}});

// Of elements (o, l, i) along l.
void BM_Reduce(benchmark::State& state, ReduceOp op) {
  const int64_t extents[] = {state.range(0), state.range(1), state.range(2)};
  const int64_t outputs = extents[0] * extents[2];
  Data<> x(outputs * extents[1]);
  Data<> y(outputs);
  const ReducePlan plan = MakeReducePlan(extents, {false, true, false});
  const ReduceFunction function = FindReduce(op, DType::kFloat, DetectIsa());
  const SequentialParallel parallel;
  Measure(state, MemoryWork({x.bytes(), y.bytes()}),
          [&] { RunReduce(function, plan, x.get(), y.get(), parallel); });
}
BENCHMARK_CAPTURE(BM_Reduce, mean, ReduceOp::kMean)
    ->ArgNames({"outer", "length", "inner"})
    ->Args({1, 49, 2048})   // ResNet-50's last pixels, channels last
    ->Args({2048, 49, 1})   // and native
    ->Args({1, 3136, 144})  // squeeze and excitation, EfficientNet-B0
    ->Args({128, 768, 1});  // words of BERT base
BENCHMARK_CAPTURE(BM_Reduce, max, ReduceOp::kMax)
    ->ArgNames({"outer", "length", "inner"})
    ->Args({128, 768, 1});
BENCHMARK_CAPTURE(BM_Reduce, l2, ReduceOp::kL2)
    ->ArgNames({"outer", "length", "inner"})
    ->Args({128, 768, 1});

// The class of every pixel, and the word of every row.
void BM_ArgMax(benchmark::State& state) {
  const int64_t extents[] = {state.range(0), state.range(1), state.range(2)};
  const int64_t outputs = extents[0] * extents[2];
  Data<> x(outputs * extents[1]);
  Data<int64_t> y(outputs);
  const ReducePlan plan = MakeReducePlan(extents, {false, true, false});
  const ReduceFunction function = FindArg(ArgOp::kMax, Select::kFirstIndex, DType::kFloat);
  const SequentialParallel parallel;
  Measure(state, MemoryWork({x.bytes(), y.bytes()}),
          [&] { RunReduce(function, plan, x.get(), y.get(), parallel); });
}
BENCHMARK(BM_ArgMax)
    ->ArgNames({"outer", "length", "inner"})
    ->Args({1, 21, 270400})
    ->Args({64, 50257, 1});

// The largest of each row. Arguments: rows, length, k.
void BM_TopK(benchmark::State& state) {
  const TopKShape shape{.outer = state.range(0), .length = state.range(1), .k = state.range(2)};
  Data<> x(shape.outer * shape.length);
  Data<> values(shape.outer * shape.k);
  Data<int64_t> indices(shape.outer * shape.k);
  const TopKFunction function = FindTopK(DType::kFloat);
  const SequentialParallel parallel;
  Measure(state, MemoryWork({x.bytes(), values.bytes() + indices.bytes()}),
          [&] { function(shape, x.get(), values.get(), indices.get(), parallel); });
}
BENCHMARK(BM_TopK)
    ->ArgNames({"rows", "length", "k"})
    ->Args({1, 1000, 5})     // ImageNet's classes
    ->Args({1, 8400, 300})   // boxes of YOLOv8
    ->Args({1, 50257, 50});  // words of GPT-2

}  // namespace
}  // namespace tandem::kernels
