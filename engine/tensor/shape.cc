#include "engine/tensor/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tandem {

int64_t Shape::elements() const { return Product(0, rank()); }

int64_t Shape::Product(int begin, int end) const {
  int64_t product = 1;
  for (int axis = begin; axis < end; ++axis) product *= (*this)[axis];
  return product;
}

Dims Shape::Strides() const {
  Dims strides(dims_.size(), 1);
  for (int axis = rank() - 2; axis >= 0; --axis) {
    const auto i = static_cast<size_t>(axis);
    strides[i] = strides[i + 1] * dims_[i + 1];
  }
  return strides;
}

std::string ToString(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape.dims(), ","));
}

std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

std::optional<int64_t> CheckedElements(std::span<const int64_t> dims) {
  int64_t product = 1;
  bool zero = false;
  for (const int64_t extent : dims) {
    if (extent < 0) return std::nullopt;
    if (extent == 0) {
      zero = true;
      continue;
    }
    const std::optional<int64_t> next = CheckedMul(product, extent);
    if (!next) return std::nullopt;
    product = *next;
  }
  return zero ? 0 : product;
}

std::optional<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Dims dims(static_cast<size_t>(rank));
  for (int axis = 0; axis < rank; ++axis) {
    const int in_a = axis - (rank - a.rank());
    const int in_b = axis - (rank - b.rank());
    const int64_t extent_a = in_a < 0 ? 1 : a[in_a];
    const int64_t extent_b = in_b < 0 ? 1 : b[in_b];
    if (extent_a != extent_b && extent_a != 1 && extent_b != 1) return std::nullopt;
    dims[static_cast<size_t>(axis)] = extent_a == 1 ? extent_b : extent_a;
  }
  return Shape(std::move(dims));
}

}  // namespace tandem
