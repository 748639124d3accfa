#include "engine/kernels/norm/norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/norm/simd.cc"
// First of all.
#include "hwy/foreach_target.h"
// After it.
#include "engine/kernels/norm/driver.h"
#include "engine/kernels/reduce/sum-inl.h"
#include "engine/kernels/simd.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE WideVec Square(WideVec x) { return hn::Mul(x, x); }

// A scale or bias along a run: a vector for each place, or one for all.
class Operand {
 public:
  Operand(const float* data, int64_t step)
      : data_(data), step_(step), value_(hn::Set(D(), *data)) {}
  HWY_INLINE V At(int64_t i) const { return step_ == 0 ? value_ : hn::LoadU(D(), data_ + i); }
  HWY_INLINE V At(int64_t i, size_t count) const {
    return step_ == 0 ? value_ : hn::MaskedLoad(hn::FirstN(D(), count), D(), data_ + i);
  }

 private:
  const float* data_;
  int64_t step_;
  V value_;
};

struct Vectors {
  using In = float;
  using Out = float;
  using A = float;
  using Run = NormRun<float, float, float>;

  static double Sum(const float* x, int64_t n) {
    return SumOfRow(x, n, [](WideVec v) HWY_ATTR { return v; });
  }
  static double Squares(const float* x, int64_t n, double mean) {
    const WideVec centre = hn::Set(WideTag(), mean);
    return SumOfRow(x, n, [centre](WideVec v) HWY_ATTR { return Square(hn::Sub(v, centre)); });
  }
  static double Magnitudes(const float* x, int64_t n) {
    return SumOfRow(x, n, [](WideVec v) HWY_ATTR { return hn::Abs(v); });
  }
  static void SumColumns(double* sums, const float* x, int64_t n) {
    AddColumns(sums, x, n, [](WideVec v, int64_t) HWY_ATTR { return v; });
  }
  static void SquareColumns(double* sums, const float* x, int64_t n, const double* means) {
    AddColumns(sums, x, n, [means](WideVec v, int64_t i) HWY_ATTR {
      return Square(hn::Sub(v, hn::LoadU(WideTag(), means + i)));
    });
  }
  static void MagnitudeColumns(double* sums, const float* x, int64_t n) {
    AddColumns(sums, x, n, [](WideVec v, int64_t) HWY_ATTR { return hn::Abs(v); });
  }

  // y = f(x, i), scaled and shifted; f takes a vector and the index of its first lane.
  template <class F>
  static HWY_INLINE void Map(const Run& run, int64_t n, const F& f) {
    const D d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const Operand scale(run.scale, run.scale_step);
    const Operand bias(run.bias, run.bias_step);
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      const V unit = f(hn::LoadU(d, run.x + i), i);
      hn::StoreU(hn::MulAdd(unit, scale.At(i), bias.At(i)), d, run.y + i);
    }
    if (i < n) {
      const auto count = static_cast<size_t>(n - i);
      const auto rest = hn::FirstN(d, count);
      const V unit = f(hn::MaskedLoad(rest, d, run.x + i), i);
      hn::BlendedStore(hn::MulAdd(unit, scale.At(i, count), bias.At(i, count)), rest, d, run.y + i);
    }
  }

  static void Write(const Run& run, int64_t n, const NormFactors<float>& factors) {
    const D d;
    const V mean = hn::Set(d, factors.mean);
    const V inverse = hn::Set(d, factors.inverse);
    const V rest = hn::Set(d, factors.rest);
    Map(run, n, [mean, inverse, rest](V x, int64_t) HWY_ATTR {
      return hn::MulAdd(hn::Sub(x, mean), inverse, rest);
    });
  }
  static void WriteColumns(const Run& run, int64_t n, const float* mean, const float* inverse,
                           const float* rest) {
    const D d;
    Map(run, n, [=](V x, int64_t i) HWY_ATTR {
      return hn::MulAdd(hn::Sub(x, hn::LoadU(d, mean + i)), hn::LoadU(d, inverse + i),
                        hn::LoadU(d, rest + i));
    });
  }
};

NormFunction FindUnits() { return NormDriver<Vectors>::Run; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels {
HWY_EXPORT(FindUnits);

NormFunction FindNormSimd(Isa isa) { return TANDEM_DISPATCH(isa, FindUnits)(); }

}  // namespace tandem::kernels
#endif  // HWY_ONCE
