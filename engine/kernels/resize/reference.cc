#include <concepts>

#include "engine/base/check.h"
#include "engine/kernels/elementwise/integer.h"
#include "engine/kernels/resize/rows.h"

namespace tandem::kernels {
namespace {

double Load(Float16 value) { return ToFloat(value); }
double Load(Bfloat16 value) { return ToFloat(value); }
template <typename T>
double Load(T value) {
  return static_cast<double>(value);
}

template <typename T>
T Store(double value) {
  if constexpr (std::integral<T>) {
    return SaturateTo<T>(value);
  } else if constexpr (std::same_as<T, Float16>) {
    return ToFloat16(static_cast<float>(value));
  } else if constexpr (std::same_as<T, Bfloat16>) {
    return ToBfloat16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
struct Row {
  const ResizePlan& plan;
  const T* in;
  double extrapolation;

  T At(const RowTaps& taps, int64_t x, int64_t element) const {
    const ResizeAxis& row = plan.row;
    const auto place = static_cast<size_t>(x);
    if (taps.outside() || (!row.outside.empty() && row.outside[place] != 0)) {
      return Store<T>(extrapolation);
    }
    double sum = 0;
    for (int64_t r = 0; r < taps.count(); ++r) {
      const RowTap tap = taps[r];
      double along = 0;
      for (int t = 0; t < row.taps; ++t) {
        const size_t at = static_cast<size_t>(t * row.out) + place;
        along += row.weights[at] * Load(in[tap.offset + row.places[at] * plan.inner + element]);
      }
      sum += tap.weight * along;
    }
    return Store<T>(sum);
  }
};

template <typename T>
void Run(const ResizePlan& plan, const void* in, void* out, double extrapolation,
         const Parallel& parallel) {
  const Row<T> row{plan, static_cast<const T*>(in), extrapolation};
  parallel.For(plan.rows(), 1, [&](int64_t begin, int64_t end) {
    T* to = static_cast<T*>(out) + begin * plan.row.out * plan.inner;
    for (int64_t r = begin; r < end; ++r) {
      const RowTaps taps(plan, r);
      for (int64_t x = 0; x < plan.row.out; ++x) {
        for (int64_t element = 0; element < plan.inner; ++element) *to++ = row.At(taps, x, element);
      }
    }
  });
}

}  // namespace

void ResizeReference(const ResizePlan& plan, const ResizeBuffers& buffers,
                     const Parallel& parallel) {
  const auto run = [&]<typename T>(T) {
    Run<T>(plan, buffers.in, buffers.out, buffers.extrapolation, parallel);
  };
  switch (buffers.dtype) {
    case DType::kFloat:
      return run(float{});
    case DType::kDouble:
      return run(double{});
    case DType::kFloat16:
      return run(Float16{});
    case DType::kBfloat16:
      return run(Bfloat16{});
    case DType::kInt8:
      return run(int8_t{});
    case DType::kInt16:
      return run(int16_t{});
    case DType::kInt32:
      return run(int32_t{});
    case DType::kInt64:
      return run(int64_t{});
    case DType::kUint8:
      return run(uint8_t{});
    case DType::kUint16:
      return run(uint16_t{});
    case DType::kUint32:
      return run(uint32_t{});
    case DType::kUint64:
      return run(uint64_t{});
    default:
      CHECK(false, "no resampling of {}", DTypeName(buffers.dtype));
  }
}

}  // namespace tandem::kernels
