// What is known of a value: at load with symbolic extents, per shape signature with concrete ones.
#pragma once

#include <optional>
#include <vector>

#include "engine/graph/dim.h"
#include "engine/graph/graph.h"
#include "engine/tensor/tensor.h"

namespace tandem::ops {

struct ValueFacts {
  DType dtype = DType::kUndefined;
  std::optional<graph::DimVector> dims;  // nothing: rank unknown
  // The whole content, of constants and of what follows from shapes alone. Valid tensors only.
  std::optional<Tensor> value;
  // The content of an integer scalar or vector, extents of inputs as symbols.
  std::optional<graph::DimVector> content;

  int rank() const { return dims ? static_cast<int>(dims->size()) : -1; }
  // The concrete shape, when every extent is a number.
  std::optional<Shape> shape() const { return dims ? graph::ToShape(*dims) : std::nullopt; }
};

// Facts of a constant: dtype, extents, value, and content where it is an integer scalar or vector.
ValueFacts FactsOf(const Tensor& tensor);
// Facts of a constant; of a view, whose content is not written out, without its value.
ValueFacts FactsOf(const graph::Constant& constant);
// Facts of a value of a graph: its declared or inferred type, or its constant.
ValueFacts FactsOf(const graph::Value& value);
// ValueFacts::content; that of a vector without elements is known whatever it follows from.
std::optional<graph::DimVector> ContentOf(const ValueFacts& facts);
// The elements of an int32 or int64 tensor of rank 0 or 1.
std::optional<std::vector<int64_t>> IntegersOf(const ValueFacts& facts);
// "float[N,3,224,224]", "int64[...]"
std::string ToString(const ValueFacts& facts);

}  // namespace tandem::ops
