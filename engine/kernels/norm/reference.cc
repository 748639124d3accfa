#include <cmath>

#include "engine/kernels/compute_type.h"
#include "engine/kernels/norm/driver.h"

namespace tandem::kernels {
namespace {

template <typename InT, typename OutT>
struct Scalar {
  using In = InT;
  using Out = OutT;
  using A =
      std::conditional_t<std::is_same_v<In, double> || std::is_same_v<Out, double>, double, float>;
  using Run = NormRun<In, Out, A>;

  static double Load(In x) { return static_cast<double>(ToCompute(x)); }
  static double Square(double x) { return x * x; }

  static double Sum(const In* x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += Load(x[i]);
    return sum;
  }
  static double Squares(const In* x, int64_t n, double mean) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += Square(Load(x[i]) - mean);
    return sum;
  }
  static double Magnitudes(const In* x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::fabs(Load(x[i]));
    return sum;
  }
  static void SumColumns(double* sums, const In* x, int64_t n) {
    for (int64_t c = 0; c < n; ++c) sums[c] += Load(x[c]);
  }
  static void SquareColumns(double* sums, const In* x, int64_t n, const double* means) {
    for (int64_t c = 0; c < n; ++c) sums[c] += Square(Load(x[c]) - means[c]);
  }
  static void MagnitudeColumns(double* sums, const In* x, int64_t n) {
    for (int64_t c = 0; c < n; ++c) sums[c] += std::fabs(Load(x[c]));
  }

  static void Store(const Run& run, int64_t i, const NormFactors<A>& factors) {
    const A centred = static_cast<A>(ToCompute(run.x[i])) - factors.mean;
    const A unit = centred * factors.inverse + factors.rest;
    run.y[i] = FromCompute<Out>(unit * run.scale[i * run.scale_step] + run.bias[i * run.bias_step]);
  }
  static void Write(const Run& run, int64_t n, const NormFactors<A>& factors) {
    for (int64_t i = 0; i < n; ++i) Store(run, i, factors);
  }
  static void WriteColumns(const Run& run, int64_t n, const A* mean, const A* inverse,
                           const A* rest) {
    for (int64_t c = 0; c < n; ++c) Store(run, c, {mean[c], inverse[c], rest[c]});
  }
};

template <typename In>
NormFunction FindTo(DType out) {
  switch (out) {
    case DType::kFloat:
      return NormDriver<Scalar<In, float>>::Run;
    case DType::kDouble:
      return NormDriver<Scalar<In, double>>::Run;
    case DType::kFloat16:
      return NormDriver<Scalar<In, Float16>>::Run;
    case DType::kBfloat16:
      return NormDriver<Scalar<In, Bfloat16>>::Run;
    default:
      return nullptr;
  }
}

}  // namespace

NormFunction FindNormReference(DType in, DType out) {
  switch (in) {
    case DType::kFloat:
      return FindTo<float>(out);
    case DType::kDouble:
      return FindTo<double>(out);
    case DType::kFloat16:
      return FindTo<Float16>(out);
    case DType::kBfloat16:
      return FindTo<Bfloat16>(out);
    default:
      return nullptr;
  }
}

}  // namespace tandem::kernels
