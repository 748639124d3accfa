// Single-thread speed of attention. The exponentials of the softmax are not counted.
#include <benchmark/benchmark.h>

#include <cmath>

#include "engine/kernels/attention/attention.h"
#include "loadtest/kernel_bench.h"

namespace tandem::kernels {
namespace {

using loadtest::Data;

// Rows of all heads side by side, as products make them.
template <typename T>
Heads<T> SideBySide(T* data, int64_t heads, int64_t rows, int64_t size) {
  return {data, heads * rows * size, size, heads * size};
}

// Arguments: items, heads of Q, of K and V, queries, keys, head size, causal.
void BM_Attention(benchmark::State& state) {
  const Arithmetic by{DetectIsa()};
  AttentionProblem problem;
  problem.shape = {state.range(0), state.range(1), state.range(2), state.range(3),
                   state.range(4), state.range(5), state.range(5)};
  const AttentionShape& shape = problem.shape;
  const int64_t q_floats = shape.batch * shape.q_heads * shape.queries * shape.head_size;
  const int64_t k_floats = shape.batch * shape.kv_heads * shape.keys * shape.head_size;
  Data<> q(q_floats);
  Data<> k(k_floats);
  Data<> v(k_floats);
  Data<> y(q_floats);
  Data<> scratch(AttentionScratchFloats(by, shape, 1));
  problem.q = SideBySide<const float>(q.get(), shape.q_heads, shape.queries, shape.head_size);
  problem.k = SideBySide<const float>(k.get(), shape.kv_heads, shape.keys, shape.head_size);
  problem.v = SideBySide<const float>(v.get(), shape.kv_heads, shape.keys, shape.head_size);
  problem.y = SideBySide(y.get(), shape.q_heads, shape.queries, shape.head_size);
  problem.scale = 1 / std::sqrt(static_cast<float>(shape.head_size));
  problem.causal = state.range(6) != 0;
  // Query i of a square sees keys 0 to i.
  const int64_t scores =
      problem.causal ? shape.queries * (shape.queries + 1) / 2 : shape.queries * shape.keys;
  const int64_t multiply_adds = 2 * shape.batch * shape.q_heads * scores * shape.head_size;
  const SequentialParallel parallel;
  loadtest::Measure(
      state,
      loadtest::FloatWork(by.isa, multiply_adds, {4 * (q_floats + 2 * k_floats), 4 * q_floats}),
      [&] { Attention(by, problem, scratch.get(), parallel); });
}
BENCHMARK(BM_Attention)
    ->ArgNames({"items", "heads", "kv_heads", "queries", "keys", "size", "causal"})
    ->Args({1, 12, 12, 128, 128, 64, 0})    // BERT base
    ->Args({1, 12, 12, 384, 384, 64, 0})    // the same on SQuAD
    ->Args({1, 16, 16, 512, 512, 64, 0})    // BERT large
    ->Args({1, 12, 12, 50, 50, 64, 0})      // ViT-B/32
    ->Args({1, 12, 12, 197, 197, 64, 0})    // ViT-B/16
    ->Args({8, 12, 12, 197, 197, 64, 0})    // a batch of these
    ->Args({64, 3, 3, 49, 49, 32, 0})       // windows of Swin-T
    ->Args({1, 8, 8, 1024, 77, 80, 0})      // a diffusion network on the words of a prompt
    ->Args({1, 12, 12, 1024, 1024, 64, 1})  // GPT-2 on a prompt
    ->Args({1, 12, 12, 1, 1024, 64, 0})     // GPT-2, the next word
    ->Args({1, 32, 8, 1, 1024, 128, 0})     // Llama 3 8B, the next word
    ->Args({1, 6, 6, 1, 1500, 64, 0});      // Whisper tiny, the next word on the sound

}  // namespace
}  // namespace tandem::kernels
