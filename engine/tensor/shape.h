// Concrete shapes: the extents of a tensor that exists.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "absl/container/inlined_vector.h"

namespace tandem {

using Dims = absl::InlinedVector<int64_t, 6>;

// Extents >= 0, outermost first; rank 0 is a scalar. A value type.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::span<const int64_t> dims) : dims_(dims.begin(), dims.end()) {}
  explicit Shape(Dims dims) : dims_(std::move(dims)) {}

  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t& operator[](int axis) { return dims_[static_cast<size_t>(axis)]; }
  std::span<const int64_t> dims() const { return dims_; }
  void Append(int64_t extent) { dims_.push_back(extent); }

  // Product of the extents; they must have been checked (see CheckedElements) where they come from
  // outside.
  int64_t elements() const;

  // Product of the extents [begin, end).
  int64_t Product(int begin, int end) const;

  // Elements between neighbours along each axis of a row-major tensor.
  Dims Strides() const;

  friend bool operator==(const Shape&, const Shape&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const Shape& shape) {
    return H::combine(std::move(state), shape.dims_);
  }

 private:
  Dims dims_;
};

// "[1,3,224,224]"; "[]" for a scalar.
std::string ToString(const Shape& shape);

// Product of `dims`, or nothing when one is negative or the product passes int64.
std::optional<int64_t> CheckedElements(std::span<const int64_t> dims);

// Products and sums of sizes that come from outside; nothing on overflow.
std::optional<int64_t> CheckedMul(int64_t a, int64_t b);
std::optional<int64_t> CheckedAdd(int64_t a, int64_t b);

// The shape to which `a` and `b` broadcast (ONNX "multidirectional broadcasting"), or nothing.
std::optional<Shape> BroadcastShapes(const Shape& a, const Shape& b);

}  // namespace tandem
