// Single-thread speed of moves: transposes, layouts, and the copies behind Concat, Split, Pad and
// Expand.
#include <benchmark/benchmark.h>

#include <vector>

#include "engine/kernels/move/permute.h"
#include "engine/kernels/move/strided_copy.h"
#include "loadtest/kernel_bench.h"

namespace tandem::kernels {
namespace {

using loadtest::Data;
using loadtest::Measure;
using loadtest::MemoryWork;

int64_t Elements(const StridedAxes& axes) {
  int64_t elements = 1;
  for (const StridedAxis& axis : axes) elements *= axis.extent;
  return elements;
}

// Bytes from the first to the last element on one side.
int64_t Span(const StridedAxes& axes, int64_t StridedAxis::*stride, int64_t element_size) {
  int64_t last = 0;
  for (const StridedAxis& axis : axes) last += (axis.extent - 1) * (axis.*stride);
  return (last + 1) * element_size;
}

// Elements that are repeated are read once.
int64_t ElementsRead(const StridedAxes& axes) {
  int64_t elements = 1;
  for (const StridedAxis& axis : axes) elements *= axis.in_stride == 0 ? 1 : axis.extent;
  return elements;
}

void Copy(benchmark::State& state, const StridedAxes& axes, int element_size) {
  Data<std::byte> in(Span(axes, &StridedAxis::in_stride, element_size));
  Data<std::byte> out(Span(axes, &StridedAxis::out_stride, element_size));
  const SequentialParallel parallel;
  Measure(state, MemoryWork({ElementsRead(axes) * element_size, Elements(axes) * element_size}),
          [&] { StridedCopy(axes, element_size, in.get(), out.get(), parallel); });
}

void BM_Permute(benchmark::State& state, const std::vector<int64_t>& extents,
                const std::vector<int>& order, int element_size) {
  Copy(state, PermutationAxes(extents, order), element_size);
}
using Extents = std::vector<int64_t>;
using Order = std::vector<int>;
BENCHMARK_CAPTURE(BM_Permute, heads_of_bert, Extents{128, 12, 64}, Order{1, 0, 2}, 4);
BENCHMARK_CAPTURE(BM_Permute, keys_of_bert, Extents{128, 12, 64}, Order{1, 2, 0}, 4);
BENCHMARK_CAPTURE(BM_Permute, shuffled_channels, Extents{784, 2, 58}, Order{0, 2, 1}, 4);
BENCHMARK_CAPTURE(BM_Permute, windows_of_swin, Extents{8, 7, 8, 7, 96}, Order{0, 2, 1, 3, 4}, 4);
BENCHMARK_CAPTURE(BM_Permute, depth_to_space, Extents{3, 2, 2, 256, 256}, Order{0, 3, 1, 4, 2}, 4);
BENCHMARK_CAPTURE(BM_Permute, square_of_bytes, Extents{512, 512}, Order{1, 0}, 1);
BENCHMARK_CAPTURE(BM_Permute, square_of_halves, Extents{512, 512}, Order{1, 0}, 2);
BENCHMARK_CAPTURE(BM_Permute, square_of_floats, Extents{512, 512}, Order{1, 0}, 4);
BENCHMARK_CAPTURE(BM_Permute, square_of_doubles, Extents{512, 512}, Order{1, 0}, 8);

// Arguments: channels, pixels, bytes of an element, to channels last.
void BM_Layout(benchmark::State& state) {
  const LayoutConversion conversion{1, state.range(0), state.range(1),
                                    static_cast<int>(state.range(2)),
                                    state.range(3) != 0 ? LayoutDirection::kNativeToChannelsLast
                                                        : LayoutDirection::kChannelsLastToNative};
  const int64_t bytes = conversion.channels * conversion.spatial * conversion.element_size;
  Data<std::byte> in(bytes);
  Data<std::byte> out(bytes);
  const SequentialParallel parallel;
  Measure(state, MemoryWork({in.bytes(), out.bytes()}),
          [&] { ConvertLayout(conversion, in.get(), out.get(), parallel); });
}
BENCHMARK(BM_Layout)
    ->ArgNames({"channels", "pixels", "bytes", "to_last"})
    ->Args({3, 50176, 4, 1})  // an image
    ->Args({3, 50176, 1, 1})
    ->Args({64, 3136, 4, 1})
    ->Args({64, 3136, 4, 0})
    ->Args({2048, 49, 4, 0})
    ->Args({21, 270400, 4, 0});

// Rows of `columns` floats into rows of `of`, or out of them: what Concat and Split do along the
// last axis. Arguments: rows, columns, of, whether out of them.
void BM_Columns(benchmark::State& state) {
  const int64_t rows = state.range(0);
  const int64_t columns = state.range(1);
  const int64_t of = state.range(2);
  const bool out_of = state.range(3) != 0;
  Copy(state, {{rows, out_of ? of : columns, out_of ? columns : of}, {columns, 1, 1}}, 4);
}
BENCHMARK(BM_Columns)
    ->ArgNames({"rows", "columns", "of", "out_of"})
    ->Args({3136, 32, 256, 0})  // DenseNet-121 in its first block
    ->Args({784, 128, 512, 0})
    ->Args({784, 58, 116, 1})    // ShuffleNetV2's halves
    ->Args({128, 768, 2304, 1})  // queries of BERT
    ->Args({8400, 4, 84, 1});    // boxes of YOLOv8

// An image into the middle of a larger one, channels last. Arguments: extent, channels, pad.
void BM_Pad(benchmark::State& state) {
  const int64_t extent = state.range(0);
  const int64_t channels = state.range(1);
  const int64_t wide = (extent + 2 * state.range(2)) * channels;
  Copy(state, {{extent, extent * channels, wide}, {extent * channels, 1, 1}}, 4);
}
BENCHMARK(BM_Pad)->ArgNames({"extent", "channels", "pad"})->Args({224, 3, 3})->Args({56, 64, 1});

// Every run of `inner` floats several times: Expand and Tile.
void BM_Expand(benchmark::State& state) {
  const int64_t outer = state.range(0);
  const int64_t times = state.range(1);
  const int64_t inner = state.range(2);
  Copy(state, {{outer, inner, times * inner}, {times, 0, inner}, {inner, 1, 1}}, 4);
}
BENCHMARK(BM_Expand)
    ->ArgNames({"outer", "times", "inner"})
    ->Args({8, 4, 32768})   // heads of K for the queries of Llama 3 8B
    ->Args({1, 8, 151296})  // one tensor for a batch
    ->Args({128, 768, 1})
    ->Args({3136, 2, 64});

}  // namespace
}  // namespace tandem::kernels
