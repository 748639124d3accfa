#include "engine/graph/dim.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/check.h"

namespace tandem::graph {

Dim Dim::Symbol(std::string_view name) {
  Dim dim;
  dim.symbol_ = name;
  dim.coefficient_ = 1;
  dim.known_ = true;
  return dim;
}

Dim Dim::Clipped(const Dim& dim) {
  CHECK(dim.is_symbol(), "extent {} is no symbol", ToString(dim));
  Dim clipped = dim;
  clipped.known_ = false;
  return clipped;
}

bool Dim::IsClipped(const Dim& dim) const {
  return !known_ && dim.is_symbol() && symbol_ == dim.symbol_ && coefficient_ == dim.coefficient_;
}

int64_t Dim::number() const {
  CHECK(is_number(), "extent {} is not a number", ToString(*this));
  return coefficient_;
}

bool Dim::SameAs(const Dim& other) const {
  return known_ && other.known_ && symbol_ == other.symbol_ && coefficient_ == other.coefficient_;
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_number() && a.coefficient_ == 0) return a;
  if (b.is_number() && b.coefficient_ == 0) return b;
  if (!a.known_ || !b.known_ || (a.is_symbol() && b.is_symbol())) return {};
  const std::optional<int64_t> product = CheckedMul(a.coefficient_, b.coefficient_);
  if (!product) return {};
  Dim result = a.is_symbol() ? a : b;
  result.coefficient_ = *product;
  return result;
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_number() && a.coefficient_ == 0) return b;
  if (b.is_number() && b.coefficient_ == 0) return a;
  if (!a.known_ || !b.known_ || a.symbol_ != b.symbol_) return {};
  const std::optional<int64_t> sum = CheckedAdd(a.coefficient_, b.coefficient_);
  if (!sum) return {};
  if (*sum == 0) return 0;
  Dim result = a;
  result.coefficient_ = *sum;
  return result;
}

Dim operator-(const Dim& a, const Dim& b) {
  Dim negative = b;
  negative.coefficient_ = -b.coefficient_;
  return a + negative;
}

Dim ExactDiv(const Dim& a, const Dim& b) {
  if (!a.known_ || !b.known_ || b.coefficient_ == 0) return {};
  if (a.is_number() && a.coefficient_ == 0) return a;
  if (b.is_symbol() && a.symbol_ != b.symbol_) return {};
  if (a.coefficient_ % b.coefficient_ != 0) return {};
  const int64_t quotient = a.coefficient_ / b.coefficient_;
  if (b.is_symbol()) return quotient;
  Dim result = a;
  result.coefficient_ = quotient;
  return result;
}

std::string ToString(const Dim& dim) {
  if (dim.is_unknown()) return "?";
  if (dim.is_number()) return fmt::format("{}", dim.coefficient());
  if (dim.coefficient() == 1) return dim.symbol();
  return fmt::format("{}*{}", dim.coefficient(), dim.symbol());
}

DimVector ToDims(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

std::optional<Shape> ToShape(const DimVector& dims) {
  Shape shape;
  for (const Dim& dim : dims) {
    if (!dim.is_number()) return std::nullopt;
    shape.Append(dim.number());
  }
  return shape;
}

Dim Product(const DimVector& dims, int begin, int end) {
  Dim product = 1;
  for (int axis = begin; axis < end; ++axis) product = product * dims[static_cast<size_t>(axis)];
  return product;
}

std::string ToString(const DimVector& dims) {
  std::string text = "[";
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (axis > 0) text += ",";
    text += ToString(dims[axis]);
  }
  return text + "]";
}

}  // namespace tandem::graph
