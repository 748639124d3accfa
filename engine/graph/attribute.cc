#include "engine/graph/graph.h"

namespace tandem::graph {

Attribute::Attribute() = default;
Attribute::Attribute(const Attribute& other) = default;
Attribute::Attribute(Attribute&& other) noexcept = default;
Attribute& Attribute::operator=(const Attribute& other) = default;
Attribute& Attribute::operator=(Attribute&& other) noexcept = default;
Attribute::~Attribute() = default;

}  // namespace tandem::graph
