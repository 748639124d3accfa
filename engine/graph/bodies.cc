#include <fmt/format.h>

#include "engine/base/check.h"
#include "engine/graph/graph.h"

namespace tandem::graph {
namespace {

using GraphRef = std::shared_ptr<const Graph>;

}  // namespace

std::vector<Body> BodiesOf(const Node& node) {
  std::vector<Body> found;
  for (const auto& [name, value] : node.attributes) {
    if (const auto* body = value.get_if<GraphRef>()) found.push_back({name, *body});
    if (const auto* bodies = value.get_if<std::vector<GraphRef>>()) {
      for (const GraphRef& body : *bodies) {
        found.push_back({fmt::format("{}[{}]", name, &body - bodies->data()), body});
      }
    }
  }
  return found;
}

bool HasBody(const Node& node) { return !BodiesOf(node).empty(); }

void SetBodies(Node& node, const std::vector<std::shared_ptr<const Graph>>& graphs) {
  auto next = graphs.begin();
  const auto take = [&](size_t count) {
    const auto left = static_cast<size_t>(graphs.end() - next);
    CHECK(count <= left, "{} graphs are left for {} bodies", left, count);
    std::vector<GraphRef> taken(next, next + static_cast<ptrdiff_t>(count));
    next += static_cast<ptrdiff_t>(count);
    return taken;
  };
  for (auto& [name, value] : node.attributes) {
    if (value.holds<GraphRef>()) {
      value = take(1)[0];
    } else if (const auto* bodies = value.get_if<std::vector<GraphRef>>()) {
      value = take(bodies->size());
    }
  }
  CHECK(next == graphs.end(), "{} graphs are left over", graphs.end() - next);
}

}  // namespace tandem::graph
