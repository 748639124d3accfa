// The value of an attribute (ONNX's AttributeProto). Tensors are constants; graphs are bodies of
// control flow. Immutable: copies share it. What kinds there are is seen in attribute_value.h
// alone, so that files which only know nodes do not compile a variant of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/graph/constant.h"

namespace tandem::graph {

class Graph;
struct AttributeValue;
struct ValueType;

class Attribute {
 public:
  Attribute() : Attribute(0.0F) {}  // for Attributes::operator[]
  // NOLINTBEGIN(google-explicit-constructor): an attribute is its value
  Attribute(float value);
  Attribute(int64_t value);
  Attribute(std::string value);
  Attribute(const char* value) : Attribute(std::string(value)) {}
  Attribute(ConstantRef value);
  Attribute(std::shared_ptr<const Graph> value);
  Attribute(ValueType value);
  Attribute(std::vector<float> value);
  Attribute(std::vector<int64_t> value);
  Attribute(std::vector<std::string> value);
  Attribute(std::vector<ConstantRef> value);
  Attribute(std::vector<std::shared_ptr<const Graph>> value);
  Attribute(std::vector<ValueType> value);
  // NOLINTEND(google-explicit-constructor)

  // Null where it is of another type than T, one of those above.
  template <class T>
  const T* get_if() const;
  template <class T>
  bool holds() const {
    return get_if<T>() != nullptr;
  }
  // CHECKs that it is a T.
  template <class T>
  const T& get() const;
  const AttributeValue& value() const { return *value_; }

 private:
  std::shared_ptr<const AttributeValue> value_;
};

using Attributes = std::map<std::string, Attribute, std::less<>>;

}  // namespace tandem::graph
