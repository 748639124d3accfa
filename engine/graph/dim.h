// Symbolic extents: what is known of a shape before the first request has been seen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "engine/tensor/shape.h"

namespace tandem::graph {

// An extent: a number, a positive multiple of a named symbol ("N", "4*seq"), or unknown. Two
// unknown extents are never equal. A value type. Of an unknown extent it may be known that it is
// the smaller of a symbol and a positive number: a table of 512 positions cut to the length of a
// text.
class Dim {
 public:
  Dim() = default;                                             // unknown
  Dim(int64_t extent) : coefficient_(extent), known_(true) {}  // NOLINT: a number is an extent
  static Dim Symbol(std::string_view name);
  // The smaller of the symbolic `dim` and a positive number.
  static Dim Clipped(const Dim& dim);

  bool is_number() const { return known_ && symbol_.empty(); }
  bool is_symbol() const { return known_ && !symbol_.empty(); }
  bool is_unknown() const { return !known_; }
  // The number; CHECKs is_number().
  int64_t number() const;
  const std::string& symbol() const { return symbol_; }
  int64_t coefficient() const { return coefficient_; }

  // True for Clipped(dim): it equals `dim`, or does not broadcast with it, or is 1.
  bool IsClipped(const Dim& dim) const;

  // True when both are known and are the same for every request.
  bool SameAs(const Dim& other) const;

  friend Dim operator*(const Dim& a, const Dim& b);
  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  // a / b where the division is known to leave no remainder, else unknown.
  friend Dim ExactDiv(const Dim& a, const Dim& b);

 private:
  std::string symbol_;
  int64_t coefficient_ = 0;
  bool known_ = false;
};

std::string ToString(const Dim& dim);  // "3", "N", "4*N", "?"

using DimVector = absl::InlinedVector<Dim, 4>;

DimVector ToDims(const Shape& shape);
// The concrete shape when every extent is a number, else nothing.
std::optional<Shape> ToShape(const DimVector& dims);
Dim Product(const DimVector& dims, int begin, int end);
std::string ToString(const DimVector& dims);  // "[N,3,224,224]"

}  // namespace tandem::graph
