// What an Attribute holds, for std::visit.
#pragma once

#include <variant>

#include "engine/graph/graph.h"

namespace tandem::graph {

struct AttributeValue {
  std::variant<float, int64_t, std::string, ConstantRef, std::shared_ptr<const Graph>, ValueType,
               std::vector<float>, std::vector<int64_t>, std::vector<std::string>,
               std::vector<ConstantRef>, std::vector<std::shared_ptr<const Graph>>,
               std::vector<ValueType>>
      of;
};

}  // namespace tandem::graph
