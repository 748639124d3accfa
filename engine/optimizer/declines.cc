#include "engine/optimizer/declines.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

namespace tandem::optimizer {

void Lineage::Record(const std::vector<graph::NodeId>& removed, graph::NodeId first,
                     graph::NodeId limit) {
  for (const graph::NodeId node : removed) {
    std::vector<graph::NodeId>& heirs = heirs_[node];
    for (graph::NodeId heir = first; heir < limit; ++heir) heirs.push_back(heir);
  }
}

std::set<graph::NodeId> Lineage::HeirsOf(graph::NodeId node) const {
  std::set<graph::NodeId> all = {node};
  std::vector<graph::NodeId> waiting = {node};
  while (!waiting.empty()) {
    const auto found = heirs_.find(waiting.back());
    waiting.pop_back();
    if (found == heirs_.end()) continue;
    for (const graph::NodeId heir : found->second) {
      if (all.insert(heir).second) waiting.push_back(heir);
    }
  }
  return all;
}

void PassDeclines::Update(std::vector<Refusal> fresh, const graph::Graph& graph,
                          const Lineage& lineage) {
  std::set<std::pair<graph::NodeId, std::string_view>> said;  // in which role, of which node
  for (const Refusal& refusal : fresh) said.emplace(refusal.anchor, refusal.decline.role);
  std::erase_if(refusals_, [&](const Refusal& old) {
    if (old.anchor == graph::kNoNode) return true;
    const std::set<graph::NodeId> heirs = lineage.HeirsOf(old.anchor);
    const auto taken = [this](graph::NodeId id) { return settled_.contains(id); };
    const auto lives = [&graph](graph::NodeId id) { return graph.has_node(id); };
    const auto repeats = [&](graph::NodeId id) { return said.contains({id, old.decline.role}); };
    return std::ranges::any_of(heirs, taken) || std::ranges::none_of(heirs, lives) ||
           std::ranges::any_of(heirs, repeats);
  });
  std::ranges::move(fresh, std::back_inserter(refusals_));
}

std::vector<Decline> PassDeclines::All() const {
  std::set<std::array<std::string_view, 5>> seen;
  std::vector<Decline> all;
  for (const Refusal& refusal : refusals_) {
    const Decline& decline = refusal.decline;
    const bool is_new =
        seen.insert({decline.pass, decline.node, decline.role, decline.rule, decline.numbers})
            .second;
    if (is_new) all.push_back(decline);
  }
  return all;
}

}  // namespace tandem::optimizer
