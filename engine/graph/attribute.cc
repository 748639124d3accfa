#include "engine/graph/attribute.h"

#include <utility>

#include "engine/base/check.h"
#include "engine/graph/attribute_value.h"
#include "engine/graph/dump.h"

namespace tandem::graph {

template <class T>
const T* Attribute::get_if() const {
  return std::get_if<T>(&value_->of);
}

template <class T>
const T& Attribute::get() const {
  const T* value = get_if<T>();
  CHECK(value != nullptr, "attribute {} is of another type", ToString(*this));
  return *value;
}

#define TANDEM_ATTRIBUTE(...)                                                               \
  Attribute::Attribute(__VA_ARGS__ value)                                                   \
      : value_(std::make_shared<const AttributeValue>(AttributeValue{std::move(value)})) {} \
  template const __VA_ARGS__* Attribute::get_if() const;                                    \
  template const __VA_ARGS__& Attribute::get() const;

TANDEM_ATTRIBUTE(float)
TANDEM_ATTRIBUTE(int64_t)
TANDEM_ATTRIBUTE(std::string)
TANDEM_ATTRIBUTE(ConstantRef)
TANDEM_ATTRIBUTE(std::shared_ptr<const Graph>)
TANDEM_ATTRIBUTE(ValueType)
TANDEM_ATTRIBUTE(std::vector<float>)
TANDEM_ATTRIBUTE(std::vector<int64_t>)
TANDEM_ATTRIBUTE(std::vector<std::string>)
TANDEM_ATTRIBUTE(std::vector<ConstantRef>)
TANDEM_ATTRIBUTE(std::vector<std::shared_ptr<const Graph>>)
TANDEM_ATTRIBUTE(std::vector<ValueType>)

#undef TANDEM_ATTRIBUTE

}  // namespace tandem::graph
