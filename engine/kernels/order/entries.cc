#include "engine/kernels/elementwise/number.h"
#include "engine/kernels/order/order.h"

namespace tandem::kernels {
namespace {

template <typename T>
int Entries(const EntryShape& shape, const void* x, int64_t a, int64_t b) {
  const T* elements = static_cast<const T*>(x);
  for (int64_t o = 0; o < shape.outer; ++o) {
    const T* left = elements + (o * shape.length + a) * shape.inner;
    const T* right = elements + (o * shape.length + b) * shape.inner;
    for (int64_t i = 0; i < shape.inner; ++i) {
      if (const int compared = Compare(left[i], right[i]); compared != 0) return compared;
    }
  }
  return 0;
}

}  // namespace

CompareEntries FindCompareEntries(DType dtype) {
  if (dtype == DType::kBool) return Entries<bool>;
  if (dtype == DType::kString) return Entries<std::string>;
  return ForNumber(dtype, []<typename T>(T) -> CompareEntries { return Entries<T>; });
}

}  // namespace tandem::kernels
