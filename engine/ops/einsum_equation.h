// Equations of Einsum: "bhid,bhjd->bhij". A label names an axis; an ellipsis stands for axes that
// broadcast. Axes of one label have one extent, or 1, which broadcasts.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/dim.h"
#include "engine/graph/patch.h"

namespace tandem::ops {

// A label is its letter; axes of an ellipsis are kEllipsis, kEllipsis + 1 ... from the right.
using Labels = std::vector<int>;
inline constexpr int kEllipsis = 256;

// The labels of every axis, ellipses spelled out.
struct Subscripts {
  std::vector<Labels> operands;
  Labels output;
};

class Equation {
 public:
  // InvalidArgument says what is wrong and where.
  static StatusOr<Equation> Parse(std::string_view text);

  size_t operands() const { return terms_.size(); }
  const std::string& text() const { return text_; }
  // For operands of these ranks; InvalidArgument when one does not fit its term.
  StatusOr<Subscripts> Resolve(std::span<const int> ranks) const;

 private:
  std::string text_;
  std::vector<std::string> terms_;  // an ellipsis is one '.'
  std::string output_;
};

// The extent of each label, in the order of `labels`; InvalidArgument when two axes of a label do
// not fit. Dims may be symbols or unknown.
StatusOr<graph::Dim> ExtentOf(int label, const Subscripts& subscripts,
                              std::span<const graph::DimVector* const> dims);

// Subscripts as an equation of letters alone; nothing when there are more labels than letters.
std::optional<std::string> Spell(const Subscripts& subscripts);

}  // namespace tandem::ops
