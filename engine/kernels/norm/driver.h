// The loop nest of a normalization, shared by the scalar and the vector kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/kernels/norm/norm.h"

namespace tandem::kernels {

// A place in x and y, in scale and in bias.
struct NormOffset {
  int64_t data = 0;
  int64_t scale = 0;
  int64_t bias = 0;

  void Advance(const NormAxis& axis, int64_t steps) {
    data += axis.data * steps;
    scale += axis.scale * steps;
    bias += axis.bias * steps;
  }
};

// Walks the reduced axes outside of `inner` in row-major order, from `offset` on: f(offset).
template <typename F>
void ForEachNormRun(const NormPlan& plan, NormOffset offset, const F& f) {
  if (plan.count == 0) return;
  absl::InlinedVector<int64_t, 4> index(plan.reduced.size(), 0);
  while (true) {
    f(offset);
    size_t axis = plan.reduced.size();
    while (true) {
      if (axis == 0) return;
      --axis;
      offset.Advance(plan.reduced[axis], 1);
      if (++index[axis] < plan.reduced[axis].extent) break;
      offset.Advance(plan.reduced[axis], -plan.reduced[axis].extent);
      index[axis] = 0;
    }
  }
}

// Where the set (or the row of neighbouring sets) with this number over the kept axes begins.
inline NormOffset NormStart(const NormPlan& plan, int64_t number) {
  NormOffset offset;
  for (size_t axis = plan.kept.size(); axis-- > 0;) {
    offset.Advance(plan.kept[axis], number % plan.kept[axis].extent);
    number /= plan.kept[axis].extent;
  }
  return offset;
}

// How one set is normalised: y = ((x - mean) * inverse + rest) * scale + bias, where `rest` makes
// up for the rounding of the mean.
template <typename A>
struct NormFactors {
  A mean;
  A inverse;
  A rest;
};

inline bool HasMean(NormKind kind) {
  return kind == NormKind::kStandard || kind == NormKind::kDeviation;
}

// `spread` is the sum of |x| for kL1, else of the squares around the mean.
inline double NormInverse(const NormCall& call, double spread) {
  const auto count = static_cast<double>(call.plan.count);
  switch (call.kind) {
    case NormKind::kStandard:
    case NormKind::kRootMeanSquare:
      return 1 / std::sqrt(spread / count + call.epsilon);
    case NormKind::kDeviation:
      return 1 / (std::sqrt(spread / count) + call.epsilon);
    case NormKind::kL1:
      return spread == 0 ? 0 : 1 / spread;
    case NormKind::kL2:
      return spread == 0 ? 0 : 1 / std::sqrt(spread);
  }
  return 0;
}

template <typename A>
NormFactors<A> MakeNormFactors(const NormCall& call, int64_t set, double mean, double spread) {
  const double inverse = NormInverse(call, spread);
  if (call.data.mean != nullptr) static_cast<A*>(call.data.mean)[set] = static_cast<A>(mean);
  if (call.data.inverse != nullptr) {
    static_cast<A*>(call.data.inverse)[set] = static_cast<A>(inverse);
  }
  const A rounded = static_cast<A>(mean);
  return {rounded, static_cast<A>(inverse), static_cast<A>((rounded - mean) * inverse)};
}

// One run of neighbours and the operands it reads; `steps` are 0 or 1.
template <typename In, typename Out, typename A>
struct NormRun {
  const In* x;
  Out* y;
  const A* scale;
  const A* bias;
  int64_t scale_step;
  int64_t bias_step;
};

// Kernel: types In, Out and A (what is computed with);
//   double Sum(const In*, int64_t n)                           sum of a row
//   double Squares(const In*, int64_t n, double mean)          sum of (x - mean)^2
//   double Magnitudes(const In*, int64_t n)                    sum of |x|
//   void Write(NormRun, int64_t n, NormFactors<A>)
// and for n <= kNormColumns neighbouring sets, one element of each:
//   void SumColumns(double* sums, const In*, int64_t n)
//   void SquareColumns(double* sums, const In*, int64_t n, const double* means)
//   void MagnitudeColumns(double* sums, const In*, int64_t n)
//   void WriteColumns(NormRun, int64_t n, const A* mean, const A* inverse, const A* rest)
template <typename Kernel>
class NormDriver {
 public:
  using In = typename Kernel::In;
  using Out = typename Kernel::Out;
  using A = typename Kernel::A;

  static void Run(const NormCall& call, int64_t begin, int64_t end) {
    const NormDriver driver(call);
    const NormAxis& inner = call.plan.inner;
    if (inner.role == NormAxisRole::kReduced) {
      for (int64_t set = begin; set < end; ++set) driver.Row(set);
      return;
    }
    const int64_t blocks = (inner.extent + kNormColumns - 1) / kNormColumns;
    for (int64_t unit = begin; unit < end; ++unit) {
      driver.Columns(unit / blocks, unit % blocks * kNormColumns);
    }
  }

 private:
  explicit NormDriver(const NormCall& call) : call_(call) {}

  NormRun<In, Out, A> At(const NormOffset& offset) const {
    static constexpr A kOne = 1;
    static constexpr A kZero = 0;
    const NormData& data = call_.data;
    const A* scale = data.scale == nullptr ? &kOne : static_cast<const A*>(data.scale);
    const A* bias = data.bias == nullptr ? &kZero : static_cast<const A*>(data.bias);
    return {X(offset),
            static_cast<Out*>(data.y) + offset.data,
            scale + offset.scale,
            bias + offset.bias,
            call_.plan.inner.scale,
            call_.plan.inner.bias};
  }

  const In* X(const NormOffset& offset) const {
    return static_cast<const In*>(call_.data.x) + offset.data;
  }

  void Row(int64_t set) const {
    const NormPlan& plan = call_.plan;
    const int64_t n = plan.inner.extent;
    const NormOffset start = NormStart(plan, set);
    double mean = 0;
    if (HasMean(call_.kind)) {
      ForEachNormRun(plan, start, [&](const NormOffset& at) { mean += Kernel::Sum(X(at), n); });
      mean /= static_cast<double>(plan.count);
    }
    double spread = 0;
    ForEachNormRun(plan, start, [&](const NormOffset& at) {
      spread += call_.kind == NormKind::kL1 ? Kernel::Magnitudes(X(at), n)
                                            : Kernel::Squares(X(at), n, mean);
    });
    const NormFactors<A> factors = MakeNormFactors<A>(call_, set, mean, spread);
    ForEachNormRun(plan, start, [&](const NormOffset& at) { Kernel::Write(At(at), n, factors); });
  }

  void Columns(int64_t row, int64_t column) const {
    const NormPlan& plan = call_.plan;
    const int64_t n = std::min(kNormColumns, plan.inner.extent - column);
    NormOffset start = NormStart(plan, row);
    start.Advance(plan.inner, column);
    double means[kNormColumns] = {};
    double spreads[kNormColumns] = {};
    if (HasMean(call_.kind)) {
      ForEachNormRun(plan, start,
                     [&](const NormOffset& at) { Kernel::SumColumns(means, X(at), n); });
      for (int64_t c = 0; c < n; ++c) means[c] /= static_cast<double>(plan.count);
    }
    ForEachNormRun(plan, start, [&](const NormOffset& at) {
      if (call_.kind == NormKind::kL1) {
        Kernel::MagnitudeColumns(spreads, X(at), n);
      } else {
        Kernel::SquareColumns(spreads, X(at), n, means);
      }
    });
    A mean[kNormColumns] = {};
    A inverse[kNormColumns] = {};
    A rest[kNormColumns] = {};
    for (int64_t c = 0; c < n; ++c) {
      const int64_t set = row * plan.inner.extent + column + c;
      const auto factors = MakeNormFactors<A>(call_, set, means[c], spreads[c]);
      mean[c] = factors.mean;
      inverse[c] = factors.inverse;
      rest[c] = factors.rest;
    }
    ForEachNormRun(plan, start, [&](const NormOffset& at) {
      Kernel::WriteColumns(At(at), n, mean, inverse, rest);
    });
  }

  const NormCall& call_;
};

}  // namespace tandem::kernels
