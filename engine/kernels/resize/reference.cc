#include "engine/base/check.h"
#include "engine/kernels/elementwise/number.h"
#include "engine/kernels/resize/rows.h"

namespace tandem::kernels {
namespace {

template <typename T>
struct Row {
  const ResizePlan& plan;
  const T* in;
  double extrapolation;

  T At(const RowTaps& taps, int64_t x, int64_t element) const {
    const ResizeAxis& row = plan.row;
    const auto place = static_cast<size_t>(x);
    if (taps.outside() || (!row.outside.empty() && row.outside[place] != 0)) {
      return FromDouble<T>(extrapolation);
    }
    double sum = 0;
    for (int64_t r = 0; r < taps.count(); ++r) {
      const RowTap tap = taps[r];
      double along = 0;
      for (int t = 0; t < row.taps; ++t) {
        const size_t at = static_cast<size_t>(t * row.out) + place;
        along += row.weights[at] * AsDouble(in[tap.offset + row.places[at] * plan.inner + element]);
      }
      sum += tap.weight * along;
    }
    return FromDouble<T>(sum);
  }
};

template <typename T>
void Run(const ResizePlan& plan, const ResizeBuffers& buffers, const Parallel& parallel) {
  const Row<T> row{plan, static_cast<const T*>(buffers.in), buffers.extrapolation};
  int64_t work = plan.row.out * plan.inner * plan.row.taps;
  for (const ResizeAxis& axis : plan.outer) work *= std::max(1, axis.taps);
  parallel.For(plan.rows(), GrainOf(kGrainSlowElements, work), [&](int64_t begin, int64_t end) {
    T* to = static_cast<T*>(buffers.out) + begin * plan.row.out * plan.inner;
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
  using Function = void (*)(const ResizePlan&, const ResizeBuffers&, const Parallel&);
  const auto run = ForNumber(buffers.dtype, []<typename T>(T) -> Function { return Run<T>; });
  CHECK(run != nullptr, "no resampling of {}", DTypeName(buffers.dtype));
  run(plan, buffers, parallel);
}

}  // namespace tandem::kernels
