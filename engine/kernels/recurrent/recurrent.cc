#include "engine/kernels/recurrent/recurrent.h"

#include <algorithm>

#include "engine/base/arena.h"
#include "engine/kernels/elementwise/binary.h"
#include "engine/kernels/gemm/gemm.h"

namespace tandem::kernels {
namespace {

// Products of W that are kept for the steps to come: enough rows for one large product, little
// enough to stay in a cache.
constexpr int64_t kProjectedFloats = int64_t{1} << 18;
constexpr int64_t kMinProjectedSteps = 8;

int64_t ProjectedSteps(CellKind kind, const RecurrentSize& size) {
  const int64_t floats = std::max<int64_t>(1, size.items * GateCount(kind) * size.hidden);
  return std::min(size.steps, std::max(kMinProjectedSteps, kProjectedFloats / floats));
}

// Columns of R's first matrix; the rest are the second one.
int64_t FirstColumns(CellKind kind, int64_t hidden) {
  return (kind == CellKind::kGru ? 2 : GateCount(kind)) * hidden;
}

// Consecutive parts of the scratch memory, in floats.
struct Parts {
  int64_t floats = 0;
  int64_t Take(int64_t count) {
    const int64_t at = floats;
    floats +=
        static_cast<int64_t>(AlignUp(static_cast<size_t>(count) * sizeof(float)) / sizeof(float));
    return at;
  }
};

struct Memory {
  Parts parts;
  int64_t bias;
  int64_t projected;  // [steps, items, gates * hidden]
  int64_t gates;      // [items, gates * hidden]
  int64_t h;          // [items, hidden], as all that follow
  int64_t c;
  int64_t extra;

  Memory(CellKind kind, const RecurrentSize& size) {
    const int64_t width = GateCount(kind) * size.hidden;
    bias = parts.Take(width);
    projected = parts.Take(ProjectedSteps(kind, size) * size.items * width);
    gates = parts.Take(size.items * width);
    h = parts.Take(size.items * size.hidden);
    c = parts.Take(size.items * size.hidden);
    extra = parts.Take(size.items * size.hidden);
  }
};

// Arithmetic on rows of `n` floats; the result may be an operand.
class Rows {
 public:
  Rows(Isa isa, int64_t n)
      : isa_(isa),
        n_(n),
        add_(FindBinary(BinaryOp::kAdd, DType::kFloat, isa)),
        sub_(FindBinary(BinaryOp::kSub, DType::kFloat, isa)),
        mul_(FindBinary(BinaryOp::kMul, DType::kFloat, isa)),
        clip_(FindClip(DType::kFloat, isa)) {}

  void Add(const float* a, const float* b, float* y) const { Apply(add_, {a, b}, {1, 1}, y); }
  void Mul(const float* a, const float* b, float* y) const { Apply(mul_, {a, b}, {1, 1}, y); }
  void OneMinus(const float* a, float* y) const {
    const float one = 1;
    Apply(sub_, {&one, a}, {0, 1}, y);
  }
  void Clip(const float bound, float* y) const {
    const float low = -bound;
    const void* operands[] = {y, &low, &bound};
    const int64_t steps[] = {1, 0, 0};
    clip_({operands, steps, 3, y, n_}, {});
  }
  void Activate(const GateActivation& activation, const float* x, float* y) const {
    if (activation.inner_scale != 1) {
      Apply(mul_, {x, &activation.inner_scale}, {1, 0}, y);
      x = y;
    }
    if (activation.op) {
      const void* operand = x;
      const int64_t step = 1;
      FindUnary(*activation.op, DType::kFloat, isa_)({&operand, &step, 1, y, n_},
                                                     activation.params);
      x = y;
    }
    if (activation.scale != 1 || x != y) Apply(mul_, {x, &activation.scale}, {1, 0}, y);
    if (activation.offset != 0) Apply(add_, {y, &activation.offset}, {1, 0}, y);
  }

 private:
  void Apply(RowFunction function, std::array<const void*, 2> operands,
             std::array<int64_t, 2> steps, float* y) const {
    function({operands.data(), steps.data(), 2, y, n_}, {});
  }

  Isa isa_;
  int64_t n_;
  RowFunction add_;
  RowFunction sub_;
  RowFunction mul_;
  RowFunction clip_;
};

class Layer {
 public:
  Layer(Isa isa, const RecurrentProblem<float>& problem, const RecurrentWeights<float>& weights,
        float* scratch, const Parallel& parallel)
      : isa_(isa),
        problem_(problem),
        cell_(problem.cell),
        size_(problem.size),
        weights_(weights),
        parallel_(parallel),
        width_(GateCount(problem.cell.kind) * problem.size.hidden),
        row_(isa, problem.size.hidden),
        gate_rows_(isa, width_) {
    const Memory memory(cell_.kind, size_);
    bias_ = scratch + memory.bias;
    projected_ = scratch + memory.projected;
    gates_ = scratch + memory.gates;
    h_ = scratch + memory.h;
    c_ = scratch + memory.c;
    extra_ = scratch + memory.extra;
  }

  void Run() {
    AddBiases();
    for (int64_t item = 0; item < size_.items; ++item) StartItem(item);
    int64_t steps = 0;  // beyond these no item has any
    for (int64_t i = 0; i < size_.items; ++i) steps = std::max(steps, problem_.length(i));
    const int64_t stretch = ProjectedSteps(cell_.kind, size_);
    for (int64_t done = 0; done < steps; done += stretch) {
      const int64_t count = std::min(stretch, steps - done);
      const bool forward = problem_.order == TimeOrder::kForward;
      const int64_t first = forward ? done : steps - done - count;
      Project(first, count);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t offset = forward ? i : count - 1 - i;
        Step(first + offset, projected_ + offset * size_.items * width_);
      }
    }
    for (int64_t item = 0; item < size_.items; ++item) FinishItem(item);
  }

 private:
  bool BiasAfterReset() const {
    return cell_.kind == CellKind::kGru && cell_.reset == ResetPlace::kAfterProduct &&
           problem_.bias != nullptr;
  }

  // The biases of W and R go in with the products of W, but one that the reset gate scales.
  void AddBiases() {
    if (problem_.bias == nullptr) return;
    std::copy_n(problem_.bias, width_, bias_);
    const int64_t both = BiasAfterReset() ? FirstColumns(cell_.kind, size_.hidden) : width_;
    for (int64_t j = 0; j < both; ++j) bias_[j] += problem_.bias[width_ + j];
  }

  void StartItem(int64_t item) {
    const auto start = [&](const ItemRows<const float>& initial, float* state) {
      if (initial.data == nullptr) {
        std::fill_n(state, size_.hidden, 0.0f);
      } else {
        std::copy_n(initial.at(item), size_.hidden, state);
      }
    };
    start(problem_.initial_h, h_ + item * size_.hidden);
    start(problem_.initial_c, c_ + item * size_.hidden);
    // The product reads the rows of all items, of those that have not begun, too.
    std::fill_n(extra_ + item * size_.hidden, size_.hidden, 0.0f);
    for (int64_t step = problem_.length(item); step < size_.steps; ++step) {
      if (problem_.y.data != nullptr) {
        std::fill_n(problem_.y.at(step, item), size_.hidden, 0.0f);
      }
    }
  }

  void FinishItem(int64_t item) {
    const float* h = h_ + item * size_.hidden;
    const float* c = c_ + item * size_.hidden;
    if (problem_.last_h.data != nullptr) std::copy_n(h, size_.hidden, problem_.last_h.at(item));
    if (problem_.last_c.data != nullptr) std::copy_n(c, size_.hidden, problem_.last_c.at(item));
  }

  // One product, with a bias per column if there is one.
  void Product(GemmProblem product, const float* packed, const float* bias) const {
    const Epilogue add = {{EpilogueOp::kAdd, OperandKind::kColumn}};
    const EpilogueOperand operand = {bias, 0};
    if (bias != nullptr) {
      product.epilogue = &add;
      product.operands = &operand;
    }
    Gemm({isa_}, product, packed, parallel_);
  }

  // The products of W with the inputs of `count` steps. Rows of one step, and rows of one item, are
  // evenly spaced; where all are, they are one matrix.
  void Project(int64_t first, int64_t count) {
    const float* bias = problem_.bias == nullptr ? nullptr : bias_;
    const TimeRows<const float>& x = problem_.x;
    const auto rows = [&](int64_t m, const float* a, int64_t stride) {
      return GemmProblem{.m = m,
                         .n = width_,
                         .k = size_.input,
                         .a = a,
                         .a_row_stride = stride,
                         .c = projected_,
                         .c_row_stride = width_};
    };
    if (x.time_stride == size_.items * x.item_stride || size_.items == 1) {
      const int64_t stride = size_.items == 1 ? x.time_stride : x.item_stride;
      return Product(rows(count * size_.items, x.at(first, 0), stride), weights_.w, bias);
    }
    if (size_.items < count) {
      for (int64_t item = 0; item < size_.items; ++item) {
        GemmProblem product = rows(count, x.at(first, item), x.time_stride);
        product.c += item * width_;
        product.c_row_stride = size_.items * width_;
        Product(product, weights_.w, bias);
      }
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      GemmProblem product = rows(size_.items, x.at(first + i, 0), x.item_stride);
      product.c += i * size_.items * width_;
      Product(product, weights_.w, bias);
    }
  }

  // gates[:, columns of R's first or second matrix] = state * R, plus `bias`.
  void ProductOfFirst(const float* state) const {
    const int64_t columns = FirstColumns(cell_.kind, size_.hidden);
    Product({.m = size_.items,
             .n = columns,
             .k = size_.hidden,
             .a = state,
             .a_row_stride = size_.hidden,
             .c = gates_,
             .c_row_stride = width_},
            weights_.r, nullptr);
  }
  void ProductOfSecond(const float* state, const float* bias) const {
    const int64_t columns = FirstColumns(cell_.kind, size_.hidden);
    const float* packed = weights_.r + PackedFloats({isa_}, size_.hidden, columns);
    Product({.m = size_.items,
             .n = width_ - columns,
             .k = size_.hidden,
             .a = state,
             .a_row_stride = size_.hidden,
             .c = gates_ + columns,
             .c_row_stride = width_},
            packed, bias);
  }

  // The rows of one item in one step.
  struct Item {
    const float* projected;
    float* gates;
    float* h;
    float* c;
    float* extra;
    float* y;  // may be null
  };

  // Calls body(Item) for the items that are as long as `step`.
  template <class Body>
  void ForItems(int64_t step, const float* projected, Body body) {
    const int64_t grain = GrainOf(kGrainSlowElements, width_);
    parallel_.For(size_.items, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (step >= problem_.length(i)) continue;
        body(Item{projected + i * width_, gates_ + i * width_, h_ + i * size_.hidden,
                  c_ + i * size_.hidden, extra_ + i * size_.hidden,
                  problem_.y.data == nullptr ? nullptr : problem_.y.at(step, i)});
      }
    });
  }

  void Step(int64_t step, const float* projected) {
    ProductOfFirst(h_);
    switch (cell_.kind) {
      case CellKind::kRnn:
        return ForItems(step, projected, [&](const Item& item) { StepRnn(item); });
      case CellKind::kLstm:
        return ForItems(step, projected, [&](const Item& item) { StepLstm(item); });
      case CellKind::kGru:
        break;
    }
    if (cell_.reset == ResetPlace::kAfterProduct) {
      ProductOfSecond(h_, BiasAfterReset() ? problem_.bias + 2 * width_ - size_.hidden : nullptr);
      return ForItems(step, projected, [&](const Item& item) {
        StartGru(item);
        row_.Mul(item.gates + size_.hidden, item.gates + 2 * size_.hidden,
                 item.gates + 2 * size_.hidden);
        FinishGru(item);
      });
    }
    ForItems(step, projected, [&](const Item& item) {
      StartGru(item);
      row_.Mul(item.gates + size_.hidden, item.h, item.extra);
    });
    ProductOfSecond(extra_, nullptr);
    ForItems(step, projected, [&](const Item& item) { FinishGru(item); });
  }

  void Activate(int which, float* gate) const {
    if (cell_.clip) row_.Clip(*cell_.clip, gate);
    row_.Activate(cell_.activations[static_cast<size_t>(which)], gate, gate);
  }

  void Emit(const Item& item) const {
    if (item.y != nullptr) std::copy_n(item.h, size_.hidden, item.y);
  }

  void StepRnn(const Item& item) const {
    row_.Add(item.gates, item.projected, item.gates);
    Activate(0, item.gates);
    std::copy_n(item.gates, size_.hidden, item.h);
    Emit(item);
  }

  void StartGru(const Item& item) const {
    for (int64_t gate = 0; gate < 2; ++gate) {
      float* row = item.gates + gate * size_.hidden;
      row_.Add(row, item.projected + gate * size_.hidden, row);
      Activate(0, row);
    }
  }

  void FinishGru(const Item& item) const {
    float* z = item.gates;
    float* n = item.gates + 2 * size_.hidden;
    row_.Add(n, item.projected + 2 * size_.hidden, n);
    Activate(1, n);
    row_.Mul(z, item.h, item.h);
    row_.OneMinus(z, z);
    row_.Mul(z, n, n);
    row_.Add(item.h, n, item.h);
    Emit(item);
  }

  // row += peephole of the gate * c
  void AddPeephole(const Item& item, int64_t gate, float* row) const {
    if (problem_.peepholes == nullptr) return;
    row_.Mul(problem_.peepholes + gate * size_.hidden, item.c, item.extra);
    row_.Add(row, item.extra, row);
  }

  void StepLstm(const Item& item) const {
    gate_rows_.Add(item.gates, item.projected, item.gates);
    float* in = item.gates;
    float* out = in + size_.hidden;
    float* forget = out + size_.hidden;
    float* n = forget + size_.hidden;
    AddPeephole(item, 0, in);
    Activate(0, in);
    if (cell_.forget == ForgetGate::kCoupled) {
      row_.OneMinus(in, forget);
    } else {
      AddPeephole(item, 2, forget);
      Activate(0, forget);
    }
    Activate(1, n);
    row_.Mul(forget, item.c, item.c);
    row_.Mul(in, n, n);
    row_.Add(item.c, n, item.c);
    AddPeephole(item, 1, out);
    Activate(0, out);
    row_.Activate(cell_.activations[2], item.c, n);
    row_.Mul(out, n, item.h);
    Emit(item);
  }

  const Isa isa_;
  const RecurrentProblem<float>& problem_;
  const Cell& cell_;
  const RecurrentSize& size_;
  const RecurrentWeights<float>& weights_;
  const Parallel& parallel_;
  const int64_t width_;  // of all gates of an item
  const Rows row_;
  const Rows gate_rows_;
  float* bias_;
  float* projected_;
  float* gates_;
  float* h_;
  float* c_;
  float* extra_;
};

// `rows` rows of a weight of `depth` columns, seen as the right side of a product.
PackSource Transposed(const float* weight, int64_t rows, int64_t depth) {
  return {depth, rows, {weight, 1, depth}};
}

}  // namespace

int64_t PackedWFloats(Isa isa, CellKind kind, const RecurrentSize& size) {
  return PackedFloats({isa}, size.input, GateCount(kind) * size.hidden);
}

void PackW(Isa isa, CellKind kind, const RecurrentSize& size, const float* w, float* packed) {
  PackB({isa}, Transposed(w, GateCount(kind) * size.hidden, size.input), packed,
        SequentialParallel());
}

int64_t PackedRFloats(Isa isa, CellKind kind, const RecurrentSize& size) {
  const int64_t first = FirstColumns(kind, size.hidden);
  const int64_t second = GateCount(kind) * size.hidden - first;
  return PackedFloats({isa}, size.hidden, first) + PackedFloats({isa}, size.hidden, second);
}

void PackR(Isa isa, CellKind kind, const RecurrentSize& size, const float* r, float* packed) {
  const int64_t first = FirstColumns(kind, size.hidden);
  const int64_t second = GateCount(kind) * size.hidden - first;
  PackB({isa}, Transposed(r, first, size.hidden), packed, SequentialParallel());
  PackB({isa}, Transposed(r + first * size.hidden, second, size.hidden),
        packed + PackedFloats({isa}, size.hidden, first), SequentialParallel());
}

size_t RecurrentScratchBytes(CellKind kind, const RecurrentSize& size) {
  return static_cast<size_t>(Memory(kind, size).parts.floats) * sizeof(float);
}

void Recurrent(Isa isa, const RecurrentProblem<float>& problem,
               const RecurrentWeights<float>& weights, std::span<std::byte> scratch,
               const Parallel& parallel) {
  Layer(isa, problem, weights, reinterpret_cast<float*>(scratch.data()), parallel).Run();
}

}  // namespace tandem::kernels
