#include <utility>

#include "engine/kernels/elementwise/number.h"
#include "engine/kernels/order/order.h"

namespace tandem::kernels {
namespace {

// One slice: a heap of the k best indices so far, worst at the root, in the memory of the result.
template <typename T>
class Slice {
 public:
  Slice(const TopKShape& shape, const T* x, int64_t* slots)
      : order_(shape.order), stride_(shape.inner), x_(x), slots_(slots) {}

  void Select(int64_t length, int64_t k) {
    for (int64_t i = 0; i < k; ++i) slot(i) = i;
    for (int64_t i = k / 2; i-- > 0;) Sink(i, k);
    for (int64_t i = k; i < length; ++i) {
      // A later index never replaces an equal element.
      if (!Before(i, slot(0))) continue;
      slot(0) = i;
      Sink(0, k);
    }
    for (int64_t end = k - 1; end > 0; --end) {
      std::swap(slot(0), slot(end));
      Sink(0, end);
    }
  }

 private:
  int64_t& slot(int64_t i) const { return slots_[i * stride_]; }

  bool Before(int64_t a, int64_t b) const {
    const int compared = Compare(x_[a * stride_], x_[b * stride_]);
    if (compared == 0) return a < b;
    return order_ == TopKOrder::kLargestFirst ? compared > 0 : compared < 0;
  }

  void Sink(int64_t i, int64_t size) const {
    while (true) {
      int64_t child = 2 * i + 1;
      if (child >= size) return;
      if (child + 1 < size && Before(slot(child), slot(child + 1))) ++child;
      if (!Before(slot(i), slot(child))) return;
      std::swap(slot(i), slot(child));
      i = child;
    }
  }

  TopKOrder order_;
  int64_t stride_;
  const T* x_;
  int64_t* slots_;
};

template <typename T>
void TopK(const TopKShape& shape, const void* x, void* values, int64_t* indices,
          const Parallel& parallel) {
  if (shape.k == 0) return;
  const int64_t grain = GrainOf(kGrainSlowElements, shape.length);
  parallel.For(shape.outer * shape.inner, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t outer = row / shape.inner;
      const int64_t inner = row % shape.inner;
      const T* from = static_cast<const T*>(x) + outer * shape.length * shape.inner + inner;
      const int64_t result = outer * shape.k * shape.inner + inner;
      int64_t* slots = indices + result;
      T* to = static_cast<T*>(values) + result;
      Slice<T>(shape, from, slots).Select(shape.length, shape.k);
      for (int64_t i = 0; i < shape.k; ++i) {
        to[i * shape.inner] = from[slots[i * shape.inner] * shape.inner];
      }
    }
  });
}

}  // namespace

TopKFunction FindTopK(DType dtype) {
  return ForNumber(dtype, []<typename T>(T) -> TopKFunction { return TopK<T>; });
}

}  // namespace tandem::kernels
