#include <algorithm>
#include <type_traits>

#include "engine/kernels/recurrent/recurrent.h"
#include "engine/tensor/dtype.h"

namespace tandem::kernels {
namespace {

// What an element is computed in.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T>
Wide<T> Load(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return value;
  } else {
    return ToFloat(value);
  }
}

template <typename T>
void Store(Wide<T> value, T& to) {
  if constexpr (std::is_floating_point_v<T>) {
    to = value;
  } else {
    to = FromFloat<T>(value);
  }
}

template <typename A>
A Activate(const GateActivation& activation, A x) {
  x *= static_cast<A>(activation.inner_scale);
  if (activation.op) {
    const void* operand = &x;
    const int64_t step = 1;
    A y = 0;
    FindUnaryReference(*activation.op, kDTypeOf<A>)({&operand, &step, 1, &y, 1}, activation.params);
    x = y;
  }
  return static_cast<A>(activation.scale) * x + static_cast<A>(activation.offset);
}

// One item: its state, and the sums that go into its gates.
template <typename T>
class ItemRun {
 public:
  using A = Wide<T>;

  ItemRun(const RecurrentProblem<T>& problem, const RecurrentWeights<T>& weights, A* scratch)
      : problem_(problem),
        cell_(problem.cell),
        weights_(weights),
        hidden_(problem.size.hidden),
        h_(scratch),
        c_(h_ + hidden_),
        reset_(c_ + hidden_),
        gates_(reset_ + hidden_) {}

  void Run(int64_t item) {
    LoadState(problem_.initial_h, item, h_);
    LoadState(problem_.initial_c, item, c_);
    const int64_t length = problem_.length(item);
    for (int64_t i = 0; i < length; ++i) {
      const int64_t step = problem_.order == TimeOrder::kForward ? i : length - 1 - i;
      x_ = problem_.x.at(step, item);
      Step();
      if (problem_.y.data != nullptr) StoreState(h_, problem_.y.at(step, item));
    }
    for (int64_t step = length; step < problem_.size.steps && problem_.y.data != nullptr; ++step) {
      std::fill_n(problem_.y.at(step, item), hidden_, T{});
    }
    if (problem_.last_h.data != nullptr) StoreState(h_, problem_.last_h.at(item));
    if (problem_.last_c.data != nullptr) StoreState(c_, problem_.last_c.at(item));
  }

 private:
  void LoadState(const ItemRows<const T>& rows, int64_t item, A* state) const {
    for (int64_t j = 0; j < hidden_; ++j) {
      state[j] = rows.data == nullptr ? A{0} : Load(rows.at(item)[j]);
    }
  }
  void StoreState(const A* state, T* row) const {
    for (int64_t j = 0; j < hidden_; ++j) Store<T>(state[j], row[j]);
  }

  A Dot(const T* row, int64_t n, const T* x) const {
    A sum = 0;
    for (int64_t k = 0; k < n; ++k) sum += Load(row[k]) * Load(x[k]);
    return sum;
  }
  A Dot(const T* row, const A* state) const {
    A sum = 0;
    for (int64_t k = 0; k < hidden_; ++k) sum += Load(row[k]) * state[k];
    return sum;
  }

  A FromInput(int64_t gate, int64_t j) const {
    const int64_t row = gate * hidden_ + j;
    const A bias = problem_.bias == nullptr ? A{0} : Load(problem_.bias[row]);
    return Dot(weights_.w + row * problem_.size.input, problem_.size.input, x_) + bias;
  }
  A FromState(int64_t gate, int64_t j, const A* state) const {
    const int64_t row = gate * hidden_ + j;
    const int64_t gates = GateCount(cell_.kind);
    const A bias = problem_.bias == nullptr ? A{0} : Load(problem_.bias[gates * hidden_ + row]);
    return Dot(weights_.r + row * hidden_, state) + bias;
  }
  A Peephole(int64_t gate, int64_t j) const {
    return problem_.peepholes == nullptr ? A{0}
                                         : Load(problem_.peepholes[gate * hidden_ + j]) * c_[j];
  }

  A Bound(A x) const {
    if (!cell_.clip) return x;
    const auto bound = static_cast<A>(*cell_.clip);
    return x < -bound ? -bound : (x > bound ? bound : x);
  }
  A F(A x) const { return Activate(cell_.activations[0], Bound(x)); }
  A G(A x) const { return Activate(cell_.activations[1], Bound(x)); }
  A H(A x) const { return Activate(cell_.activations[2], x); }
  A* Gate(int64_t gate) { return gates_ + gate * hidden_; }

  void Step() {
    switch (cell_.kind) {
      case CellKind::kRnn:
        return StepRnn();
      case CellKind::kGru:
        return StepGru();
      case CellKind::kLstm:
        return StepLstm();
    }
  }

  void StepRnn() {
    for (int64_t j = 0; j < hidden_; ++j) Gate(0)[j] = FromInput(0, j) + FromState(0, j, h_);
    for (int64_t j = 0; j < hidden_; ++j) h_[j] = F(Gate(0)[j]);
  }

  void StepGru() {
    for (int64_t gate = 0; gate < 2; ++gate) {
      for (int64_t j = 0; j < hidden_; ++j) {
        Gate(gate)[j] = F(FromInput(gate, j) + FromState(gate, j, h_));
      }
    }
    const A* z = Gate(0);
    const A* r = Gate(1);
    for (int64_t j = 0; j < hidden_; ++j) reset_[j] = r[j] * h_[j];
    for (int64_t j = 0; j < hidden_; ++j) {
      const A state = cell_.reset == ResetPlace::kBeforeProduct ? FromState(2, j, reset_)
                                                                : r[j] * FromState(2, j, h_);
      Gate(2)[j] = G(FromInput(2, j) + state);
    }
    for (int64_t j = 0; j < hidden_; ++j) h_[j] = (1 - z[j]) * Gate(2)[j] + z[j] * h_[j];
  }

  void StepLstm() {
    for (int64_t gate = 0; gate < 4; ++gate) {
      for (int64_t j = 0; j < hidden_; ++j) {
        Gate(gate)[j] = FromInput(gate, j) + FromState(gate, j, h_);
      }
    }
    for (int64_t j = 0; j < hidden_; ++j) {
      const A in = F(Gate(0)[j] + Peephole(0, j));
      const A forget =
          cell_.forget == ForgetGate::kCoupled ? 1 - in : F(Gate(2)[j] + Peephole(2, j));
      c_[j] = forget * c_[j] + in * G(Gate(3)[j]);
      h_[j] = F(Gate(1)[j] + Peephole(1, j)) * H(c_[j]);
    }
  }

  const RecurrentProblem<T>& problem_;
  const Cell& cell_;
  const RecurrentWeights<T>& weights_;
  const int64_t hidden_;
  A* h_;
  A* c_;
  A* reset_;
  A* gates_;
  const T* x_ = nullptr;
};

}  // namespace

int GateCount(CellKind kind) {
  switch (kind) {
    case CellKind::kRnn:
      return 1;
    case CellKind::kGru:
      return 3;
    case CellKind::kLstm:
      return 4;
  }
  return 0;
}

template <typename T>
size_t ReferenceScratchBytes(CellKind kind, const RecurrentSize& size) {
  return static_cast<size_t>((3 + GateCount(kind)) * size.hidden) * sizeof(Wide<T>);
}

template <typename T>
void RecurrentReference(const RecurrentProblem<T>& problem, const RecurrentWeights<T>& weights,
                        std::span<std::byte> scratch) {
  ItemRun<T> run(problem, weights, reinterpret_cast<Wide<T>*>(scratch.data()));
  for (int64_t item = 0; item < problem.size.items; ++item) run.Run(item);
}

#define TANDEM_RECURRENT(T)                                                                   \
  template size_t ReferenceScratchBytes<T>(CellKind, const RecurrentSize&);                   \
  template void RecurrentReference<T>(const RecurrentProblem<T>&, const RecurrentWeights<T>&, \
                                      std::span<std::byte>)
TANDEM_RECURRENT(float);
TANDEM_RECURRENT(double);
TANDEM_RECURRENT(Float16);
TANDEM_RECURRENT(Bfloat16);
#undef TANDEM_RECURRENT

}  // namespace tandem::kernels
