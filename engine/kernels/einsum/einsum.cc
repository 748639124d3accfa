#include "engine/kernels/einsum/einsum.h"

#include <concepts>

#include "engine/kernels/elementwise/number.h"

namespace tandem::kernels {
namespace {

template <typename T>
using Sum = std::conditional_t<std::integral<T>, T, double>;

template <typename T>
Sum<T> Load(T value) {
  if constexpr (std::integral<T>) {
    return value;
  } else {
    return AsDouble(value);
  }
}

template <typename T>
T Store(Sum<T> value) {
  if constexpr (std::integral<T>) {
    return value;
  } else {
    return FromDouble<T>(value);
  }
}

using Offsets = absl::InlinedVector<int64_t, 3>;

void Advance(Offsets& offsets, const EinsumAxis& axis, int64_t steps) {
  for (size_t k = 0; k < offsets.size(); ++k) offsets[k] += steps * axis.strides[k];
}

template <typename T>
struct Contraction {
  const EinsumPlan& plan;
  std::span<const void* const> operands;

  Sum<T> Product(const Offsets& offsets) const {
    Sum<T> product = 1;
    for (size_t k = 0; k < offsets.size(); ++k) {
      const Sum<T> factor = Load(static_cast<const T*>(operands[k])[offsets[k]]);
      if constexpr (std::integral<T>) {
        product = WrapMul(product, factor);
      } else {
        product *= factor;
      }
    }
    return product;
  }

  // The sum over axes [axis, end) of what starts at `offsets`.
  Sum<T> Over(size_t axis, Offsets offsets) const {
    if (axis == plan.sums.size()) return Product(offsets);
    Sum<T> sum = 0;
    for (int64_t i = 0; i < plan.sums[axis].extent; ++i) {
      const Sum<T> term = Over(axis + 1, offsets);
      if constexpr (std::integral<T>) {
        sum = WrapAdd(sum, term);
      } else {
        sum += term;
      }
      Advance(offsets, plan.sums[axis], 1);
    }
    return sum;
  }
};

template <typename T>
void Einsum(const EinsumPlan& plan, std::span<const void* const> operands, void* out,
            const Parallel& parallel) {
  int64_t elements = 1;
  int64_t terms = 1;
  for (const EinsumAxis& axis : plan.outputs) elements *= axis.extent;
  for (const EinsumAxis& axis : plan.sums) terms *= axis.extent;
  const Contraction<T> contraction{plan, operands};
  const int64_t grain = GrainOf(kGrainSlowElements, terms * std::ssize(operands));
  parallel.For(elements, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Offsets offsets(operands.size(), 0);
      int64_t rest = i;
      for (size_t k = plan.outputs.size(); k-- > 0;) {
        Advance(offsets, plan.outputs[k], rest % plan.outputs[k].extent);
        rest /= plan.outputs[k].extent;
      }
      static_cast<T*>(out)[i] = Store<T>(contraction.Over(0, std::move(offsets)));
    }
  });
}

}  // namespace

EinsumFunction FindEinsum(DType dtype) {
  return ForNumber(dtype, []<typename T>(T) -> EinsumFunction { return Einsum<T>; });
}

}  // namespace tandem::kernels
