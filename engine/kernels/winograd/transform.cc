// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/winograd/transform.cc"
#include "hwy/foreach_target.h"  // before every other Highway header
#include "engine/kernels/winograd/transform.h"
#include "engine/kernels/epilogue-inl.h"
#include "engine/kernels/simd.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = FloatTag;
using V = FloatVec;
constexpr int64_t kLanes = HWY_LANES(float);
constexpr float kHuge = 4294967296.0f;

HWY_INLINE V Times(double factor, V x) {
  return hn::Mul(hn::Set(D(), static_cast<float>(factor)), x);
}
HWY_INLINE V TimesAdd(double factor, V x, V sum) {
  return hn::MulAdd(hn::Set(D(), static_cast<float>(factor)), x, sum);
}

// One-dimensional transforms: In of the inputs, whose factors are the coefficients of the product
// of (x - point) over the other points, and Out of the products, whose factors are powers of the
// points.
struct Of2 {
  static constexpr int kOutputs = 2;
  static constexpr double kPoints[] = {0, 1, -1};
  static HWY_INLINE void In(const V (&d)[4], V (&t)[4]) {
    t[0] = hn::Sub(d[2], d[0]);
    t[1] = hn::Add(d[2], d[1]);
    t[2] = hn::Sub(d[2], d[1]);
    t[3] = hn::Sub(d[3], d[1]);
  }
  static HWY_INLINE void Out(const V (&t)[4], V (&y)[2]) {
    y[0] = hn::Add(t[0], hn::Add(t[1], t[2]));
    y[1] = hn::Add(t[3], hn::Sub(t[1], t[2]));
  }
};

struct Of4 {
  static constexpr int kOutputs = 4;
  static constexpr double kA = 0.75;
  static constexpr double kB = 1.5;
  static constexpr double kPoints[] = {0, kA, -kA, kB, -kB};
  static HWY_INLINE void In(const V (&d)[6], V (&t)[6]) {
    constexpr double kA2 = kA * kA;
    constexpr double kB2 = kB * kB;
    t[0] = TimesAdd(kA2 * kB2, d[0], TimesAdd(-(kA2 + kB2), d[2], d[4]));
    const V even_a = TimesAdd(-kB2, d[2], d[4]);
    const V odd_a = Times(kA, TimesAdd(-kB2, d[1], d[3]));
    t[1] = hn::Add(even_a, odd_a);
    t[2] = hn::Sub(even_a, odd_a);
    const V even_b = TimesAdd(-kA2, d[2], d[4]);
    const V odd_b = Times(kB, TimesAdd(-kA2, d[1], d[3]));
    t[3] = hn::Add(even_b, odd_b);
    t[4] = hn::Sub(even_b, odd_b);
    t[5] = TimesAdd(kA2 * kB2, d[1], TimesAdd(-(kA2 + kB2), d[3], d[5]));
  }
  static HWY_INLINE void Out(const V (&t)[6], V (&y)[4]) {
    const V even_a = hn::Add(t[1], t[2]);
    const V odd_a = hn::Sub(t[1], t[2]);
    const V even_b = hn::Add(t[3], t[4]);
    const V odd_b = hn::Sub(t[3], t[4]);
    y[0] = hn::Add(t[0], hn::Add(even_a, even_b));
    y[1] = TimesAdd(kA, odd_a, Times(kB, odd_b));
    y[2] = TimesAdd(kA * kA, even_a, Times(kB * kB, even_b));
    y[3] = TimesAdd(kA * kA * kA, odd_a, TimesAdd(kB * kB * kB, odd_b, t[5]));
  }
};

// What a window's weights are multiplied by, for each point: powers of the point over the product
// of its distances from the other ones; infinity takes the last weight.
template <class F>
struct FactorsOf {
  double of[F::kOutputs + 2][3] = {};

  constexpr FactorsOf() {
    for (int i = 0; i < F::kOutputs + 1; ++i) {
      double distances = 1;
      for (int j = 0; j < F::kOutputs + 1; ++j) {
        if (j != i) distances *= F::kPoints[i] - F::kPoints[j];
      }
      of[i][0] = 1 / distances;
      of[i][1] = F::kPoints[i] / distances;
      of[i][2] = F::kPoints[i] * F::kPoints[i] / distances;
    }
    of[F::kOutputs + 1][2] = 1;
  }
};

template <class F>
HWY_INLINE void TransformWindow(const V (&w)[3], V (&t)[F::kOutputs + 2]) {
  constexpr FactorsOf<F> kFactors;
  TANDEM_UNROLL
  for (int i = 0; i < F::kOutputs + 2; ++i) {
    const auto& factors = kFactors.of[i];
    t[i] = TimesAdd(factors[0], w[0], TimesAdd(factors[1], w[1], Times(factors[2], w[2])));
  }
}

template <class F>
void TransformWeights(const WinogradWeights& weights) {
  constexpr int kSide = F::kOutputs + 2;
  const D d;
  for (int64_t column = 0; column < weights.columns; column += kLanes) {
    V half[kSide][3];
    TANDEM_UNROLL
    for (int j = 0; j < 3; ++j) {
      V w[3];
      V t[kSide];
      TANDEM_UNROLL
      for (int i = 0; i < 3; ++i)
        w[i] = hn::LoadU(d, weights.taps + (i * 3 + j) * weights.columns + column);
      TransformWindow<F>(w, t);
      TANDEM_UNROLL
      for (int i = 0; i < kSide; ++i) half[i][j] = t[i];
    }
    TANDEM_UNROLL
    for (int i = 0; i < kSide; ++i) {
      V t[kSide];
      TransformWindow<F>(half[i], t);
      TANDEM_UNROLL
      for (int j = 0; j < kSide; ++j) {
        hn::StoreU(t[j], d, weights.to + (i * kSide + j) * weights.point_step + column);
      }
    }
  }
}

template <class F, class Access>
HWY_INLINE void TransformInVector(const WinogradInput& input, int64_t channel, Access access) {
  constexpr int kSide = F::kOutputs + 2;
  V half[kSide][kSide];
  TANDEM_UNROLL
  for (int j = 0; j < kSide; ++j) {
    V d[kSide];
    V t[kSide];
    TANDEM_UNROLL
    for (int i = 0; i < kSide; ++i) d[i] = access.Load(input.pixels[i * kSide + j] + channel);
    F::In(d, t);
    TANDEM_UNROLL
    for (int i = 0; i < kSide; ++i) half[i][j] = t[i];
  }
  TANDEM_UNROLL
  for (int i = 0; i < kSide; ++i) {
    V t[kSide];
    F::In(half[i], t);
    TANDEM_UNROLL
    for (int j = 0; j < kSide; ++j) {
      access.Store(t[j], input.to + (i * kSide + j) * input.point_step + channel);
    }
  }
}

template <class F>
void TransformIn(const WinogradInput& input) {
  int64_t channel = 0;
  for (; input.channels - channel >= kLanes; channel += kLanes) {
    TransformInVector<F>(input, channel, Whole());
  }
  if (channel < input.channels) {
    TransformInVector<F>(input, channel, First{input.channels - channel});
  }
}

template <class F, class Access>
HWY_INLINE bool TransformOutVector(const WinogradOutput& output, int64_t column, Access access) {
  constexpr int kOutputs = F::kOutputs;
  constexpr int kSide = kOutputs + 2;
  const D d;
  V half[kOutputs][kSide];
  TANDEM_UNROLL
  for (int j = 0; j < kSide; ++j) {
    V t[kSide];
    V y[kOutputs];
    TANDEM_UNROLL
    for (int i = 0; i < kSide; ++i) {
      t[i] = access.Load(output.from + (i * kSide + j) * output.point_step + column);
    }
    F::Out(t, y);
    TANDEM_UNROLL
    for (int o = 0; o < kOutputs; ++o) half[o][j] = y[o];
  }
  V y[kOutputs][kOutputs];
  V size = hn::Zero(d);  // of all sums
  TANDEM_UNROLL
  for (int o = 0; o < kOutputs; ++o) {
    F::Out(half[o], y[o]);
    TANDEM_UNROLL
    for (int p = 0; p < kOutputs; ++p) size = hn::Add(size, hn::Abs(y[o][p]));
  }

  const auto for_outputs = [&](auto function) TANDEM_INLINE_LAMBDA {
    for (int o = 0; o < output.rows; ++o) {
      for (int p = 0; p < output.pixels; ++p) y[o][p] = function(o, p, y[o][p]);
    }
  };
  const auto operand = [&](size_t stage, OperandKind kind, int o, int p) TANDEM_INLINE_LAMBDA {
    return LoadOperand(kind, output.operands[stage],
                       output.operand_row + o * output.operand_row_step + p,
                       output.operand_column + column, access);
  };
  if (output.epilogue != nullptr) {
    ApplyStages<kOutputs * kOutputs>(*output.epilogue, for_outputs, operand);
  }
  for_outputs([&](int o, int p, V x) TANDEM_INLINE_LAMBDA {
    access.Store(x, output.y + o * output.row_stride + p * output.pixel_stride + column);
    return x;
  });
  return hn::AllTrue(d, hn::Lt(size, hn::Set(d, kHuge)));
}

template <class F>
bool TransformOut(const WinogradOutput& output) {
  bool usual = true;
  int64_t column = 0;
  for (; output.columns - column >= kLanes; column += kLanes) {
    usual &= TransformOutVector<F>(output, column, Whole());
  }
  if (column < output.columns) {
    usual &= TransformOutVector<F>(output, column, First{output.columns - column});
  }
  return usual;
}

template <class F>
WinogradTransforms TransformsOf() {
  return {&TransformWeights<F>, &TransformIn<F>, &TransformOut<F>};
}

WinogradTransforms MakeTransforms(int m) {
  return m == 2 ? TransformsOf<Of2>() : TransformsOf<Of4>();
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels {

HWY_EXPORT(MakeTransforms);

WinogradTransforms WinogradTransformsFor(Isa isa, int m) {
  return TANDEM_DISPATCH(isa, MakeTransforms)(m);
}

}  // namespace tandem::kernels
#endif  // HWY_ONCE
