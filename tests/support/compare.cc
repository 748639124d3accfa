#include "tests/support/compare.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace tandem::test {
namespace {

template <typename T>
double AsDouble(T value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
    return ToFloat(value);
  } else {
    return static_cast<double>(value);
  }
}

double UlpOf(double value) {
  const auto magnitude = static_cast<float>(std::abs(value));
  if (!std::isfinite(magnitude)) return 0;
  return std::nextafter(magnitude, std::numeric_limits<float>::infinity()) - magnitude;
}

template <typename T>
testing::AssertionResult CloseFloats(const TensorView& actual, const TensorView& expected,
                                     Tolerance tolerance) {
  const auto a = actual.span<T>();
  const auto e = expected.span<T>();
  double scale = 0;
  for (const T element : e) {
    if (std::isfinite(AsDouble(element))) scale = std::max(scale, std::abs(AsDouble(element)));
  }
  for (size_t i = 0; i < e.size(); ++i) {
    const double x = AsDouble(a[i]);
    const double y = AsDouble(e[i]);
    if (std::isnan(x) && std::isnan(y)) continue;
    if (x == y) continue;
    const double allowed = std::max(tolerance.ulps * UlpOf(y), tolerance.relative * scale) +
                           tolerance.of_each * std::abs(y) + tolerance.absolute;
    if (std::isfinite(x) && std::isfinite(y) && std::abs(x - y) <= allowed) continue;
    return testing::AssertionFailure()
           << "element " << i << " of " << ToString(expected.shape()) << " is " << x << " where "
           << y << " is expected (allowed difference " << allowed << ", scale " << scale << ")";
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult SameBytes(const TensorView& actual, const TensorView& expected) {
  const auto a = actual.bytes();
  const auto e = expected.bytes();
  for (size_t i = 0; i < e.size(); ++i) {
    if (a[i] == e[i]) continue;
    const size_t bits = std::max<size_t>(1, DTypeBits(expected.dtype()));
    auto failure = testing::AssertionFailure() << "element " << i * 8 / bits << " of "
                                               << ToString(expected.shape()) << " has other bits";
    if (expected.dtype() == DType::kFloat) {
      failure << ": " << actual.span<float>()[i / 4] << " for " << expected.span<float>()[i / 4];
    } else if (expected.dtype() == DType::kInt64) {
      failure << ": " << actual.span<int64_t>()[i / 8] << " for "
              << expected.span<int64_t>()[i / 8];
    }
    return failure;
  }
  return testing::AssertionSuccess();
}

}  // namespace

Tolerance Exact() { return {.exact = true}; }

Tolerance Ulp(double n) { return {.ulps = n}; }

Tolerance Reduction(int64_t k) {
  const double epsilon = std::numeric_limits<float>::epsilon();
  return {.ulps = 4,
          .relative = 4 * epsilon * std::sqrt(static_cast<double>(std::max<int64_t>(1, k)))};
}

Tolerance OfScale(double share) { return {.relative = share}; }

Tolerance OtherRuntime() { return {.relative = 1e-6, .of_each = 1e-5, .absolute = 1e-7}; }

Tolerance OnnxBackend() { return {.of_each = 1e-3, .absolute = 1e-7}; }

testing::AssertionResult Close(const TensorView& actual, const TensorView& expected,
                               Tolerance tolerance) {
  if (actual.dtype() != expected.dtype()) {
    return testing::AssertionFailure() << "dtype " << DTypeName(actual.dtype()) << " where "
                                       << DTypeName(expected.dtype()) << " is expected";
  }
  if (actual.shape() != expected.shape()) {
    return testing::AssertionFailure() << "shape " << ToString(actual.shape()) << " where "
                                       << ToString(expected.shape()) << " is expected";
  }
  if (expected.dtype() == DType::kString) {
    const auto a = actual.span<std::string>();
    const auto e = expected.span<std::string>();
    for (size_t i = 0; i < e.size(); ++i) {
      if (a[i] != e[i]) {
        return testing::AssertionFailure()
               << "string " << i << " is '" << a[i] << "' where '" << e[i] << "' is expected";
      }
    }
    return testing::AssertionSuccess();
  }
  if (!tolerance.exact) {
    switch (expected.dtype()) {
      case DType::kFloat:
        return CloseFloats<float>(actual, expected, tolerance);
      case DType::kDouble:
        return CloseFloats<double>(actual, expected, tolerance);
      case DType::kFloat16:
        return CloseFloats<Float16>(actual, expected, tolerance);
      case DType::kBfloat16:
        return CloseFloats<Bfloat16>(actual, expected, tolerance);
      default:
        break;
    }
  }
  return SameBytes(actual, expected);
}

}  // namespace tandem::test
