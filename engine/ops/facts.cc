#include "engine/ops/facts.h"

#include <fmt/format.h>

namespace tandem::ops {
namespace {

constexpr int64_t kMaxContent = 1024;  // elements of an integer vector whose content is followed

std::optional<graph::DimVector> ContentOf(const TensorView& view) {
  if (view.shape().rank() > 1 || view.elements() > kMaxContent) return std::nullopt;
  graph::DimVector content;
  if (view.dtype() == DType::kInt64) {
    for (const int64_t element : view.span<int64_t>()) content.emplace_back(element);
  } else if (view.dtype() == DType::kInt32) {
    for (const int32_t element : view.span<int32_t>()) content.emplace_back(element);
  } else {
    return std::nullopt;
  }
  return content;
}

}  // namespace

ValueFacts FactsOf(const Tensor& tensor) {
  ValueFacts facts;
  facts.dtype = tensor.dtype();
  facts.dims = graph::ToDims(tensor.shape());
  facts.value = tensor;
  facts.content = ContentOf(tensor.view());
  return facts;
}

ValueFacts FactsOf(const graph::Constant& constant) {
  if (!constant.is_view()) return FactsOf(constant.held());
  ValueFacts facts;
  facts.dtype = constant.dtype();
  facts.dims = graph::ToDims(constant.shape());
  return facts;
}

ValueFacts FactsOf(const graph::Value& value) {
  if (value.constant != nullptr) return FactsOf(*value.constant);
  ValueFacts facts;
  facts.dtype = value.type.dtype;
  facts.dims = value.type.dims;
  return facts;
}

std::optional<graph::DimVector> ContentOf(const ValueFacts& facts) {
  const std::optional<Shape> shape = facts.shape();
  const bool empty = shape && shape->rank() == 1 && shape->elements() == 0;
  return empty ? graph::DimVector() : facts.content;
}

std::optional<std::vector<int64_t>> IntegersOf(const ValueFacts& facts) {
  const std::optional<graph::DimVector> content = ContentOf(facts);
  if (!content) {
    if (!facts.value || facts.value->shape().rank() > 1) return std::nullopt;
    if (facts.value->dtype() != DType::kInt64) return std::nullopt;
    const auto span = facts.value->span<int64_t>();
    return std::vector<int64_t>(span.begin(), span.end());
  }
  std::vector<int64_t> integers;
  for (const graph::Dim& element : *content) {
    if (!element.is_number()) return std::nullopt;
    integers.push_back(element.number());
  }
  return integers;
}

std::string ToString(const ValueFacts& facts) {
  return fmt::format("{}{}", DTypeName(facts.dtype),
                     facts.dims ? graph::ToString(*facts.dims) : "[...]");
}

}  // namespace tandem::ops
