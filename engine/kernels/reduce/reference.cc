#include <cmath>
#include <concepts>
#include <limits>

#include "engine/kernels/elementwise/integer.h"
#include "engine/kernels/reduce/driver.h"
#include "engine/kernels/reduce/reduce.h"

namespace tandem::kernels {
namespace {

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;

// The element as a number that can be computed with.
template <typename T>
auto Load(T value) {
  if constexpr (kIsHalf<T>) {
    return ToFloat(value);
  } else {
    return value;
  }
}

// A double as element: rounded, or for integers truncated and saturated.
template <typename T>
T Store(double value) {
  if constexpr (kIsHalf<T>) {
    return std::is_same_v<T, Float16> ? T{ToFloat16(static_cast<float>(value)).bits}
                                      : T{ToBfloat16(static_cast<float>(value)).bits};
  } else if constexpr (std::integral<T>) {
    return SaturateTo<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

// Gives an operator of one element per call the rows and columns that the driver asks for.
template <typename Op>
struct PerElement : Op {
  template <int kPass>
  static void Row(typename Op::State& state, const typename Op::In* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) Op::template Add<kPass>(state, Load(x[i]));
  }
  template <int kPass>
  static void Columns(typename Op::State* states, const typename Op::In* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) Op::template Add<kPass>(states[i], Load(x[i]));
  }
};

// What a sum or product is kept in: double, or the integer itself (which wraps).
template <typename T>
using Accumulator = std::conditional_t<std::integral<T>, T, double>;

template <typename T>
auto Absolute(T value) {
  if constexpr (std::floating_point<T>) return std::fabs(value);
  if constexpr (std::unsigned_integral<T>) return value;
  if constexpr (std::signed_integral<T>) return value < 0 ? WrapNeg(value) : value;
}

template <typename T>
T Plus(T a, T b) {
  if constexpr (std::integral<T>) {
    return WrapAdd(a, b);
  } else {
    return a + b;
  }
}

template <typename T>
T Times(T a, T b) {
  if constexpr (std::integral<T>) {
    return WrapMul(a, b);
  } else {
    return a * b;
  }
}

template <typename T, ReduceOp kOp>
struct Fold {
  using In = T;
  using Out = T;
  using State = Accumulator<T>;
  static constexpr int kPasses = 1;

  static void Start(State& state) { state = kOp == ReduceOp::kProd ? 1 : 0; }

  template <int kPass>
  static void Add(State& state, auto x) {
    const auto value = static_cast<State>(x);
    if constexpr (kOp == ReduceOp::kSum) state = Plus(state, value);
    if constexpr (kOp == ReduceOp::kProd) state = Times(state, value);
    if constexpr (kOp == ReduceOp::kL1) state = Plus(state, Absolute(value));
    if constexpr (kOp == ReduceOp::kSumSquare) state = Plus(state, Times(value, value));
  }

  static T Finish(const State& state, int64_t) {
    if constexpr (std::integral<T>) {
      return state;
    } else {
      return Store<T>(state);
    }
  }
};

template <typename T>
struct Mean {
  using In = T;
  using Out = T;
  // Wide enough for 2^63 elements of 64 bits.
  using State = std::conditional_t<std::integral<T>, __int128, double>;
  static constexpr int kPasses = 1;

  static void Start(State& state) { state = 0; }
  template <int kPass>
  static void Add(State& state, auto x) {
    state += static_cast<State>(x);
  }
  static T Finish(const State& state, int64_t count) {
    if constexpr (std::integral<T>) {
      return count == 0 ? T{0} : static_cast<T>(state / count);
    } else {
      return Store<T>(state / static_cast<double>(count));
    }
  }
};

// L2 and LogSum: a sum in double and a function of it.
template <typename T, ReduceOp kOp>
struct SumThenMap {
  using In = T;
  using Out = T;
  using State = double;
  static constexpr int kPasses = 1;

  static void Start(State& state) { state = 0; }
  template <int kPass>
  static void Add(State& state, auto x) {
    const auto value = static_cast<double>(x);
    state += kOp == ReduceOp::kL2 ? value * value : value;
  }
  static T Finish(const State& state, int64_t) {
    return Store<T>(kOp == ReduceOp::kL2 ? std::sqrt(state) : std::log(state));
  }
};

template <typename T>
struct LogSumExp {
  using In = T;
  using Out = T;
  struct State {
    double max;
    double sum;
  };
  static constexpr int kPasses = 2;

  static void Start(State& state) { state = {-std::numeric_limits<double>::infinity(), 0}; }
  template <int kPass>
  static void Add(State& state, auto x) {
    const auto value = static_cast<double>(x);
    if constexpr (kPass == 0) {
      state.max = std::fmax(state.max, value);
    } else if (!std::isinf(state.max)) {
      state.sum += std::exp(value - state.max);
    } else {
      state.sum += value;  // the maximum decides, unless there is a NaN
    }
  }
  static T Finish(const State& state, int64_t) {
    if (std::isinf(state.max)) {
      return Store<T>(std::isnan(state.sum) && state.max < 0 ? state.sum : state.max);
    }
    return Store<T>(state.max + std::log(state.sum));
  }
};

// Max and Min; bool is ordered false < true.
template <typename T, bool kMax>
struct Extreme {
  using In = T;
  using Out = T;
  using State = decltype(Load(T{}));
  static constexpr int kPasses = 1;

  static void Start(State& state) {
    using Limits = std::numeric_limits<State>;
    if constexpr (Limits::has_infinity) {
      state = kMax ? -Limits::infinity() : Limits::infinity();
    } else {
      state = kMax ? Limits::lowest() : Limits::max();
    }
  }
  template <int kPass>
  static void Add(State& state, State x) {
    // A NaN is never replaced, and replaces everything.
    if ((kMax ? x > state : x < state) || x != x) state = x;
  }
  static T Finish(const State& state, int64_t) {
    if constexpr (std::is_same_v<T, bool> || !kIsHalf<T>) {
      return state;
    } else {
      return Store<T>(state);
    }
  }
};

template <typename T, bool kMax, Select kSelect>
struct Arg {
  using In = T;
  using Out = int64_t;
  struct State {
    decltype(Load(T{})) best;
    int64_t index;
    int64_t next;
  };
  static constexpr int kPasses = 1;

  static void Start(State& state) { state = {{}, 0, 0}; }
  template <int kPass>
  static void Add(State& state, decltype(Load(T{})) x) {
    const bool nan = x != x;
    const bool best_nan = state.best != state.best;
    bool better = kMax ? x > state.best : x < state.best;
    bool equal = x == state.best;
    if (nan || best_nan) {
      better = nan && !best_nan;
      equal = nan && best_nan;
    }
    if (state.next == 0 || better || (kSelect == Select::kLastIndex && equal)) {
      state.best = x;
      state.index = state.next;
    }
    ++state.next;
  }
  static int64_t Finish(const State& state, int64_t) { return state.index; }
};

// kernel for T = the storage type of `dtype`.
template <template <typename> typename Op>
ReduceFunction Numbers(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return ReduceUnits<PerElement<Op<float>>>;
    case DType::kDouble:
      return ReduceUnits<PerElement<Op<double>>>;
    case DType::kFloat16:
      return ReduceUnits<PerElement<Op<Float16>>>;
    case DType::kBfloat16:
      return ReduceUnits<PerElement<Op<Bfloat16>>>;
    case DType::kInt8:
      return ReduceUnits<PerElement<Op<int8_t>>>;
    case DType::kInt16:
      return ReduceUnits<PerElement<Op<int16_t>>>;
    case DType::kInt32:
      return ReduceUnits<PerElement<Op<int32_t>>>;
    case DType::kInt64:
      return ReduceUnits<PerElement<Op<int64_t>>>;
    case DType::kUint8:
      return ReduceUnits<PerElement<Op<uint8_t>>>;
    case DType::kUint16:
      return ReduceUnits<PerElement<Op<uint16_t>>>;
    case DType::kUint32:
      return ReduceUnits<PerElement<Op<uint32_t>>>;
    case DType::kUint64:
      return ReduceUnits<PerElement<Op<uint64_t>>>;
    default:
      return nullptr;
  }
}

template <typename T>
using Sum = Fold<T, ReduceOp::kSum>;
template <typename T>
using Prod = Fold<T, ReduceOp::kProd>;
template <typename T>
using L1 = Fold<T, ReduceOp::kL1>;
template <typename T>
using SumSquare = Fold<T, ReduceOp::kSumSquare>;
template <typename T>
using L2 = SumThenMap<T, ReduceOp::kL2>;
template <typename T>
using LogSum = SumThenMap<T, ReduceOp::kLogSum>;
template <typename T>
using Max = Extreme<T, true>;
template <typename T>
using Min = Extreme<T, false>;
template <typename T>
using ArgMaxFirst = Arg<T, true, Select::kFirstIndex>;
template <typename T>
using ArgMaxLast = Arg<T, true, Select::kLastIndex>;
template <typename T>
using ArgMinFirst = Arg<T, false, Select::kFirstIndex>;
template <typename T>
using ArgMinLast = Arg<T, false, Select::kLastIndex>;

}  // namespace

ReduceFunction FindReduceReference(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::kSum:
      return Numbers<Sum>(dtype);
    case ReduceOp::kMean:
      return Numbers<Mean>(dtype);
    case ReduceOp::kProd:
      return Numbers<Prod>(dtype);
    case ReduceOp::kL1:
      return Numbers<L1>(dtype);
    case ReduceOp::kL2:
      return Numbers<L2>(dtype);
    case ReduceOp::kLogSum:
      return Numbers<LogSum>(dtype);
    case ReduceOp::kLogSumExp:
      return Numbers<LogSumExp>(dtype);
    case ReduceOp::kSumSquare:
      return Numbers<SumSquare>(dtype);
    case ReduceOp::kMax:
      if (dtype == DType::kBool) return ReduceUnits<PerElement<Max<bool>>>;
      return Numbers<Max>(dtype);
    case ReduceOp::kMin:
      if (dtype == DType::kBool) return ReduceUnits<PerElement<Min<bool>>>;
      return Numbers<Min>(dtype);
  }
  return nullptr;
}

ReduceFunction FindArg(ArgOp op, Select select, DType dtype) {
  if (op == ArgOp::kMax) {
    return select == Select::kFirstIndex ? Numbers<ArgMaxFirst>(dtype) : Numbers<ArgMaxLast>(dtype);
  }
  return select == Select::kFirstIndex ? Numbers<ArgMinFirst>(dtype) : Numbers<ArgMinLast>(dtype);
}

}  // namespace tandem::kernels
