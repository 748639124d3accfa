#include <fmt/format.h>

#include "engine/base/check.h"
#include "engine/graph/graph.h"

namespace tandem::graph {
namespace {

using GraphRef = std::shared_ptr<const Graph>;

// Calls visit(attribute, graph) for every body in order; `Attributes` may be const.
template <class Attributes, class Visit>
void ForBodies(Attributes& attributes, const Visit& visit) {
  for (auto& [name, value] : attributes) {
    if (auto* body = std::get_if<GraphRef>(&value)) visit(name, *body);
    if (auto* bodies = std::get_if<std::vector<GraphRef>>(&value)) {
      for (size_t i = 0; i < bodies->size(); ++i)
        visit(fmt::format("{}[{}]", name, i), (*bodies)[i]);
    }
  }
}

}  // namespace

std::vector<Body> BodiesOf(const Node& node) {
  std::vector<Body> bodies;
  ForBodies(node.attributes, [&](const std::string& attribute, const GraphRef& graph) {
    bodies.push_back({attribute, graph});
  });
  return bodies;
}

bool HasBody(const Node& node) { return !BodiesOf(node).empty(); }

void SetBodies(Node& node, const std::vector<std::shared_ptr<const Graph>>& graphs) {
  size_t next = 0;
  ForBodies(node.attributes,
            [&](const std::string&, GraphRef& graph) { graph = graphs.at(next++); });
  CHECK(next == graphs.size(), "{} graphs for {} bodies", graphs.size(), next);
}

}  // namespace tandem::graph
