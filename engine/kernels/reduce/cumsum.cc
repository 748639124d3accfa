#include <concepts>

#include "engine/kernels/elementwise/integer.h"
#include "engine/kernels/reduce/reduce.h"

namespace tandem::kernels {
namespace {

template <typename T>
struct Element {
  using Sum = std::conditional_t<std::integral<T>, T, double>;
  static Sum Load(T value) { return value; }
  static T Store(Sum value) { return static_cast<T>(value); }
};
template <>
struct Element<Float16> {
  using Sum = double;
  static double Load(Float16 value) { return ToFloat(value); }
  static Float16 Store(double value) { return ToFloat16(static_cast<float>(value)); }
};
template <>
struct Element<Bfloat16> {
  using Sum = double;
  static double Load(Bfloat16 value) { return ToFloat(value); }
  static Bfloat16 Store(double value) { return ToBfloat16(static_cast<float>(value)); }
};

template <typename S>
S Plus(S a, S b) {
  if constexpr (std::integral<S>) {
    return WrapAdd(a, b);
  } else {
    return a + b;
  }
}

template <typename T>
void Rows(const CumSumShape& shape, const void* x, void* y, int64_t begin, int64_t end) {
  const int64_t step = shape.first == 0 ? shape.inner : -shape.inner;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t base = row / shape.inner * shape.length * shape.inner + row % shape.inner;
    const T* from = static_cast<const T*>(x) + base;
    T* to = static_cast<T*>(y) + base;
    typename Element<T>::Sum sum = 0;
    int64_t offset = shape.first * shape.inner;
    for (int64_t i = 0; i < shape.length; ++i, offset += step) {
      const auto next = Plus(sum, Element<T>::Load(from[offset]));
      to[offset] = Element<T>::Store(shape.lag == 0 ? next : sum);
      sum = next;
    }
  }
}

}  // namespace

CumSumFunction FindCumSum(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return Rows<float>;
    case DType::kDouble:
      return Rows<double>;
    case DType::kFloat16:
      return Rows<Float16>;
    case DType::kBfloat16:
      return Rows<Bfloat16>;
    case DType::kInt32:
      return Rows<int32_t>;
    case DType::kInt64:
      return Rows<int64_t>;
    case DType::kUint32:
      return Rows<uint32_t>;
    case DType::kUint64:
      return Rows<uint64_t>;
    default:
      return nullptr;
  }
}

}  // namespace tandem::kernels
