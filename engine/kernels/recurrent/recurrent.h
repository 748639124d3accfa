// Recurrent layers: RNN, GRU and LSTM cells along time, one direction at a time.
//
//   RNN   h = f(Wx + Rh + b)
//   GRU   z, r = f(Wx + Rh + b);  n = g(Wx + R(r h) + b), or g(Wx + wb + r (Rh + rb));
//         h = (1 - z) n + z h
//   LSTM  i, f = f(Wx + Rh + b + p c);  n = g(Wx + Rh + b);  c = f c + i n;
//         o = f(Wx + Rh + b + p c);  h = o h(c)
//
// Gates lie in ONNX's order: z r n; i o f n. Clipping bounds what goes into f and g, never the cell
// state. An item whose length is shorter than the number of steps keeps its state from there on
// (in reverse order: takes part from there on), so its last state is the one of its length, and
// that of length 0 is its initial state; Y is 0 beyond the length. Every item has the same bits
// alone and inside any batch. Functions cannot fail, never allocate and may run from several
// threads at once. Source: ONNX operators RNN, GRU and LSTM.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/base/cpu.h"
#include "engine/base/parallel.h"
#include "engine/kernels/elementwise/unary.h"

namespace tandem::kernels {

enum class CellKind : uint8_t { kRnn, kGru, kLstm };

// 1, 3, 4.
int GateCount(CellKind kind);

// y = scale * f(inner_scale * x) + offset.
struct GateActivation {
  std::optional<UnaryOp> op;  // nothing: f is the identity
  RowParams params;
  float inner_scale = 1;
  float scale = 1;
  float offset = 0;
};

// Of a GRU: where the reset gate goes in.
enum class ResetPlace : uint8_t { kBeforeProduct, kAfterProduct };
// Of an LSTM: a forget gate of its own, or 1 - i.
enum class ForgetGate : uint8_t { kOwn, kCoupled };

struct Cell {
  CellKind kind = CellKind::kRnn;
  std::array<GateActivation, 3> activations;  // f, g, h as far as the kind has them
  std::optional<float> clip;
  ResetPlace reset = ResetPlace::kBeforeProduct;
  ForgetGate forget = ForgetGate::kOwn;
};

struct RecurrentSize {
  int64_t steps = 0;
  int64_t items = 0;
  int64_t input = 0;
  int64_t hidden = 0;
};

enum class TimeOrder : uint8_t { kForward, kReverse };

// A row of neighbours per step and item, or per item; strides count elements.
template <typename T>
struct TimeRows {
  T* data = nullptr;
  int64_t time_stride = 0;
  int64_t item_stride = 0;
  T* at(int64_t step, int64_t item) const { return data + step * time_stride + item * item_stride; }
};
template <typename T>
struct ItemRows {
  T* data = nullptr;
  int64_t stride = 0;
  T* at(int64_t item) const { return data + item * stride; }
};

// One direction. Rows without data: initial states are 0, results are not wanted.
template <typename T>
struct RecurrentProblem {
  Cell cell;
  RecurrentSize size;
  TimeOrder order = TimeOrder::kForward;
  const int32_t* lengths = nullptr;  // by item, 0 to steps; null: all steps
  TimeRows<const T> x;
  const T* bias = nullptr;       // [2 * gates * hidden]: of W, then of R
  const T* peepholes = nullptr;  // [3 * hidden]: of i, o, f
  ItemRows<const T> initial_h;
  ItemRows<const T> initial_c;
  TimeRows<T> y;
  ItemRows<T> last_h;
  ItemRows<T> last_c;

  int64_t length(int64_t item) const { return lengths == nullptr ? size.steps : lengths[item]; }
};

// Weights as ONNX has them: W [gates * hidden, input] and R [gates * hidden, hidden].
template <typename T>
struct RecurrentWeights {
  const T* w = nullptr;
  const T* r = nullptr;
};

// In plain loops, item by item: float, double, and the 16-bit floating types, which are computed in
// float32.
template <typename T>
size_t ReferenceScratchBytes(CellKind kind, const RecurrentSize& size);
template <typename T>
void RecurrentReference(const RecurrentProblem<T>& problem, const RecurrentWeights<T>& weights,
                        std::span<std::byte> scratch);

// Weights packed for the matrix product of `isa`, which is not kReference. R of a GRU is packed as
// two matrices: the gates z and r, and n. Only `input` and `hidden` of the size count.
int64_t PackedWFloats(Isa isa, CellKind kind, const RecurrentSize& size);
void PackW(Isa isa, CellKind kind, const RecurrentSize& size, const float* w, float* packed);
int64_t PackedRFloats(Isa isa, CellKind kind, const RecurrentSize& size);
void PackR(Isa isa, CellKind kind, const RecurrentSize& size, const float* r, float* packed);

// The products of W with a stretch of steps are one matrix product; those of R one per step, of all
// items. `weights` are packed; `scratch` is aligned to kBufferAlignment.
size_t RecurrentScratchBytes(CellKind kind, const RecurrentSize& size);
void Recurrent(Isa isa, const RecurrentProblem<float>& problem,
               const RecurrentWeights<float>& weights, std::span<std::byte> scratch,
               const Parallel& parallel);

}  // namespace tandem::kernels
