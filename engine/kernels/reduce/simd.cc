#include <cmath>
#include <limits>

#include "engine/kernels/reduce/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/reduce/simd.cc"
// First of all.
#include "hwy/foreach_target.h"
// After it.
#include "engine/kernels/reduce/driver.h"
#include "engine/kernels/reduce/sum-inl.h"
#include "engine/kernels/simd.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kBufferLanes = HWY_MAX_BYTES / sizeof(float);

// Sums of f(x) in double.
template <class Map>
struct SumOf {
  using In = float;
  using Out = float;
  using State = double;
  static constexpr int kPasses = 1;

  static void Start(State& state) { state = 0; }

  template <int kPass>
  static void Row(State& state, const float* x, int64_t n) {
    state += SumOfRow(x, n, [](WideVec value) HWY_ATTR { return Map::F(value); });
  }

  template <int kPass>
  static void Columns(State* states, const float* x, int64_t n) {
    AddColumns(states, x, n, [](WideVec value, int64_t) HWY_ATTR { return Map::F(value); });
  }

  static State Merge(State a, State b) { return a + b; }
};

struct SumMap {
  static HWY_INLINE WideVec F(WideVec x) { return x; }
};
struct AbsMap {
  static HWY_INLINE WideVec F(WideVec x) { return hn::Abs(x); }
};
struct SquareMap {
  // The square of a float is exact in double, fused or not.
  static HWY_INLINE WideVec F(WideVec x) { return hn::Mul(x, x); }
};

template <class Map>
struct Total : SumOf<Map> {
  static float Finish(double sum, int64_t) { return static_cast<float>(sum); }
};
struct Mean : SumOf<SumMap> {
  static float Finish(double sum, int64_t count) {
    return static_cast<float>(sum / static_cast<double>(count));
  }
};
struct L2 : SumOf<SquareMap> {
  static float Finish(double sum, int64_t) { return static_cast<float>(std::sqrt(sum)); }
};
struct LogSum : SumOf<SumMap> {
  static float Finish(double sum, int64_t) { return static_cast<float>(std::log(sum)); }
};

// The larger or smaller of the two; a NaN on either side wins.
template <bool kMax>
HWY_INLINE float PickOne(float a, float b) {
  return (kMax ? b > a : b < a) || b != b ? b : a;
}
template <bool kMax, class V>
HWY_INLINE V Pick(V a, V b) {
  const auto better = kMax ? hn::Gt(b, a) : hn::Lt(b, a);
  return hn::IfThenElse(hn::Or(better, hn::Not(hn::Eq(b, b))), b, a);
}

template <bool kMax>
struct Extreme {
  using In = float;
  using Out = float;
  using State = float;
  static constexpr int kPasses = 1;

  static void Start(State& state) {
    state = kMax ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  }

  template <int kPass>
  static void Row(State& state, const float* x, int64_t n) {
    const hn::ScalableTag<float> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    int64_t i = 0;
    auto best = hn::Set(d, state);
    for (; i + lanes <= n; i += lanes) best = Pick<kMax>(best, hn::LoadU(d, x + i));
    HWY_ALIGN float rest[kBufferLanes];
    hn::Store(best, d, rest);
    for (int64_t lane = 0; lane < lanes; ++lane) state = PickOne<kMax>(state, rest[lane]);
    for (; i < n; ++i) state = PickOne<kMax>(state, x[i]);
  }

  template <int kPass>
  static void Columns(State* states, const float* x, int64_t n) {
    const hn::ScalableTag<float> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      hn::StoreU(Pick<kMax>(hn::LoadU(d, states + i), hn::LoadU(d, x + i)), d, states + i);
    }
    for (; i < n; ++i) states[i] = PickOne<kMax>(states[i], x[i]);
  }

  static State Merge(State a, State b) { return PickOne<kMax>(a, b); }

  static float Finish(const State& state, int64_t) { return state; }
};

// Op's states, kept in the memory of as many doubles.
template <class Op>
struct ColumnsOf {
  using State = typename Op::State;

  static void Start(double* memory, int64_t n) {
    auto* states = reinterpret_cast<State*>(memory);
    for (int64_t i = 0; i < n; ++i) Op::Start(states[i]);
  }
  static void Add(double* memory, const float* row, int64_t n) {
    Op::template Columns<0>(reinterpret_cast<State*>(memory), row, n);
  }
  static void Merge(double* memory, const double* behind, int64_t n) {
    auto* states = reinterpret_cast<State*>(memory);
    const auto* others = reinterpret_cast<const State*>(behind);
    for (int64_t i = 0; i < n; ++i) states[i] = Op::Merge(states[i], others[i]);
  }
  static void Finish(const double* memory, int64_t rows, int64_t n, float* y) {
    const auto* states = reinterpret_cast<const State*>(memory);
    for (int64_t i = 0; i < n; ++i) y[i] = Op::Finish(states[i], rows);
  }
};

struct Found {
  ReduceFunction units = nullptr;
  ColumnReduction columns;
};

template <class Op>
Found Of() {
  using Columns = ColumnsOf<Op>;
  return {ReduceUnits<Op>, {Columns::Start, Columns::Add, Columns::Merge, Columns::Finish}};
}

Found Find(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return Of<Total<SumMap>>();
    case ReduceOp::kL1:
      return Of<Total<AbsMap>>();
    case ReduceOp::kSumSquare:
      return Of<Total<SquareMap>>();
    case ReduceOp::kMean:
      return Of<Mean>();
    case ReduceOp::kL2:
      return Of<L2>();
    case ReduceOp::kLogSum:
      return Of<LogSum>();
    case ReduceOp::kMax:
      return Of<Extreme<true>>();
    case ReduceOp::kMin:
      return Of<Extreme<false>>();
    default:
      return {};
  }
}

ReduceFunction FindUnits(ReduceOp op) { return Find(op).units; }
ColumnReduction FindColumns(ReduceOp op) { return Find(op).columns; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels {
HWY_EXPORT(FindUnits);
HWY_EXPORT(FindColumns);

ReduceFunction FindReduceSimd(ReduceOp op, Isa isa) { return TANDEM_DISPATCH(isa, FindUnits)(op); }

ColumnReduction FindColumnReduction(ReduceOp op, Isa isa) {
  return isa == Isa::kReference ? ColumnReduction() : TANDEM_DISPATCH(isa, FindColumns)(op);
}

}  // namespace tandem::kernels
#endif  // HWY_ONCE
