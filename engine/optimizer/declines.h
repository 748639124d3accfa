// Why a pass left nodes alone, over all of its sweeps. What a pass says in its last sweep is not
// all: by then other passes may have taken a node that it would not take, or one on the way to it.
#pragma once

#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/graph/graph.h"
#include "engine/report.h"

namespace tandem::optimizer {

// A decline with the node that the pass was asked about; kNoNode where it was found elsewhere.
struct Refusal {
  graph::NodeId anchor = graph::kNoNode;
  Decline decline;
};

// Which nodes stand in the place of those that patches removed.
class Lineage {
 public:
  // A patch put the nodes from `first` up to `limit` in the place of `removed`.
  void Record(const std::vector<graph::NodeId>& removed, graph::NodeId first, graph::NodeId limit);
  // The node and all that came in its place, and in the place of that.
  std::set<graph::NodeId> HeirsOf(graph::NodeId node) const;

 private:
  absl::flat_hash_map<graph::NodeId, std::vector<graph::NodeId>> heirs_;
};

// The declines of one pass.
class PassDeclines {
 public:
  // The pass took the node after all.
  void Settle(graph::NodeId node) { settled_.insert(node); }
  // A sweep over `graph` has ended. Of earlier declines go those of nodes that were taken after
  // all, of which nothing is left, or of which the sweep says something in the same role.
  void Update(std::vector<Refusal> fresh, const graph::Graph& graph, const Lineage& lineage);
  // Each once.
  std::vector<Decline> All() const;

 private:
  std::set<graph::NodeId> settled_;
  std::vector<Refusal> refusals_;
};

}  // namespace tandem::optimizer
