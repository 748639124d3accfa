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
  switch (dtype) {
    case DType::kFloat:
      return Entries<float>;
    case DType::kDouble:
      return Entries<double>;
    case DType::kFloat16:
      return Entries<Float16>;
    case DType::kBfloat16:
      return Entries<Bfloat16>;
    case DType::kInt8:
      return Entries<int8_t>;
    case DType::kInt16:
      return Entries<int16_t>;
    case DType::kInt32:
      return Entries<int32_t>;
    case DType::kInt64:
      return Entries<int64_t>;
    case DType::kUint8:
      return Entries<uint8_t>;
    case DType::kUint16:
      return Entries<uint16_t>;
    case DType::kUint32:
      return Entries<uint32_t>;
    case DType::kUint64:
      return Entries<uint64_t>;
    case DType::kBool:
      return Entries<bool>;
    case DType::kString:
      return Entries<std::string>;
    default:
      return nullptr;
  }
}

}  // namespace tandem::kernels
