// Single-thread speed of recurrent layers: one step, and sequences. The activations are not
// counted.
#include <benchmark/benchmark.h>

#include <span>

#include "engine/kernels/recurrent/recurrent.h"
#include "loadtest/kernel_bench.h"

namespace tandem::kernels {
namespace {

using loadtest::Data;

// With ONNX's default activations.
Cell CellOf(CellKind kind) {
  const GateActivation sigmoid{.op = UnaryOp::kSigmoid};
  const GateActivation tanh{.op = UnaryOp::kTanh};
  if (kind == CellKind::kRnn) return {kind, {tanh}};
  return {kind, {sigmoid, tanh, tanh}};
}

// Arguments: steps, items, inputs, hidden units.
void BM_Recurrent(benchmark::State& state, CellKind kind) {
  const Isa isa = DetectIsa();
  RecurrentProblem<float> problem;
  problem.cell = CellOf(kind);
  problem.size = {state.range(0), state.range(1), state.range(2), state.range(3)};
  const RecurrentSize& size = problem.size;
  const int64_t rows = GateCount(kind) * size.hidden;
  Data<> w(rows * size.input);
  Data<> r(rows * size.hidden);
  Data<> bias(2 * rows);
  Data<> x(size.steps * size.items * size.input);
  Data<> y(size.steps * size.items * size.hidden);
  Data<> packed_w(PackedWFloats(isa, kind, size));
  Data<> packed_r(PackedRFloats(isa, kind, size));
  PackW(isa, kind, size, w.get(), packed_w.get());
  PackR(isa, kind, size, r.get(), packed_r.get());
  problem.bias = bias.get();
  problem.x = {x.get(), size.items * size.input, size.input};
  problem.y = {y.get(), size.items * size.hidden, size.hidden};
  Data<std::byte> scratch(static_cast<int64_t>(RecurrentScratchBytes(kind, size)));
  const std::span<std::byte> scratch_bytes(scratch.get(), RecurrentScratchBytes(kind, size));
  const int64_t weights = rows * (size.input + size.hidden);
  const int64_t multiply_adds = size.steps * size.items * weights;
  const loadtest::Traffic traffic = {4 * (weights + size.steps * size.items * size.input),
                                     4 * size.steps * size.items * size.hidden};
  const SequentialParallel parallel;
  loadtest::Measure(state, loadtest::FloatWork(isa, multiply_adds, traffic), [&] {
    Recurrent(isa, problem, {packed_w.get(), packed_r.get()}, scratch_bytes, parallel);
  });
}
BENCHMARK_CAPTURE(BM_Recurrent, lstm, CellKind::kLstm)
    ->ArgNames({"steps", "items", "input", "hidden"})
    ->Args({1, 1, 64, 128})  // Silero's voice detector
    ->Args({1, 1, 512, 512})
    ->Args({1, 1, 1024, 1024})
    ->Args({1, 8, 512, 512})
    ->Args({25, 1, 512, 256})  // CRNN's text in an image, one direction
    ->Args({100, 1, 256, 256})
    ->Args({100, 8, 256, 256})
    ->Args({100, 1, 1024, 1024});
BENCHMARK_CAPTURE(BM_Recurrent, gru, CellKind::kGru)
    ->ArgNames({"steps", "items", "input", "hidden"})
    ->Args({1, 1, 512, 512})
    ->Args({100, 1, 256, 256});
BENCHMARK_CAPTURE(BM_Recurrent, rnn, CellKind::kRnn)
    ->ArgNames({"steps", "items", "input", "hidden"})
    ->Args({100, 1, 256, 256});

}  // namespace
}  // namespace tandem::kernels
