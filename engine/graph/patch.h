// A Patch describes a change of a graph without making it: passes are pure functions that return
// one, and the optimizer's driver commits it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/graph/graph.h"

namespace tandem::graph {

// New values and nodes are numbered in the order they are added to the patch; `PatchValue` stands
// for either an existing value or one of the patch.
class Patch {
 public:
  explicit Patch(const Graph& graph) : next_value_(graph.value_limit()) {}

  // A value to be: its id after Commit is the returned id.
  ValueId NewValue(std::string_view name, ValueType type);
  ValueId NewConstant(std::string_view name, ConstantRef constant);
  // A node to be; reads existing and new values. It defines new values, or existing ones: these
  // lose their former definition, whose node the patch usually removes. Nodes are added in dataflow
  // order.
  void AddNode(Node node);
  // Readers of `from` (graph outputs included) will read `to`.
  void ReplaceUses(ValueId from, ValueId to);
  // The value will be the constant and lose its definition.
  void SetConstant(ValueId id, ConstantRef constant);
  // The node goes; its outputs must be unread after everything else. Readers go first.
  void RemoveNode(NodeId id);

  // Applies everything to `graph`, which must be the graph the patch was made for, unchanged since.
  // The caller sorts the graph before it reads its order again; new nodes then stand where the
  // first of the removed nodes stood, as far as dataflow leaves it free.
  void Commit(Graph& graph) const;

  // A value that would still be read after Commit, by a node or as a graph output, although the
  // node that defines it goes; nothing where there is none.
  std::optional<ValueId> FindLostRead(const Graph& graph) const;

  bool empty() const;
  const std::vector<Node>& nodes() const { return nodes_; }  // those to be
  const std::vector<NodeId>& removed() const { return removed_; }

 private:
  struct NewValueRow {
    std::string name;
    ValueType type;
    ConstantRef constant;
  };
  bool Defines(ValueId id) const;
  bool Reads(ValueId id) const;

  ValueId next_value_;
  std::vector<NewValueRow> values_;
  std::vector<Node> nodes_;
  std::vector<std::pair<ValueId, ValueId>> replacements_;
  std::vector<std::pair<ValueId, ConstantRef>> constants_;
  std::vector<NodeId> removed_;
};

}  // namespace tandem::graph
