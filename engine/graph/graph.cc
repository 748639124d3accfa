#include "engine/graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <queue>

#include "engine/base/check.h"

namespace tandem::graph {
namespace {

constexpr int64_t kAtTheEnd = std::numeric_limits<int64_t>::max();

}  // namespace

std::string ToString(const ValueType& type) {
  switch (type.kind) {
    case ValueKind::kTensor:
    case ValueKind::kSparseTensor:
      return fmt::format("{}{}{}", type.kind == ValueKind::kSparseTensor ? "sparse " : "",
                         DTypeName(type.dtype), type.dims ? ToString(*type.dims) : "[...]");
    case ValueKind::kSequence:
      return fmt::format("sequence({})", type.element ? ToString(*type.element) : "?");
    case ValueKind::kOptional:
      return fmt::format("optional({})", type.element ? ToString(*type.element) : "?");
    case ValueKind::kMap:
      return fmt::format("map({},{})", DTypeName(type.key),
                         type.element ? ToString(*type.element) : DTypeName(type.dtype));
  }
  return "?";
}

bool Graph::has_node(NodeId id) const {
  return id >= 0 && id < node_limit() && nodes_[static_cast<size_t>(id)].has_value();
}

const Node& Graph::node(NodeId id) const {
  CHECK(has_node(id), "node {} does not exist", id);
  return *nodes_[static_cast<size_t>(id)];
}

Node& Graph::mutable_node(NodeId id) {
  CHECK(has_node(id), "node {} does not exist", id);
  return *nodes_[static_cast<size_t>(id)];
}

const Value& Graph::value(ValueId id) const {
  CHECK(id >= 0 && id < value_limit(), "value {} does not exist", id);
  return values_[static_cast<size_t>(id)];
}

Value& Graph::mutable_value(ValueId id) {
  CHECK(id >= 0 && id < value_limit(), "value {} does not exist", id);
  return values_[static_cast<size_t>(id)];
}

ConstantRef Graph::constant_input(const Node& node, int port) const {
  if (port < 0 || port >= static_cast<int>(node.inputs.size())) return nullptr;
  const ValueId id = node.inputs[static_cast<size_t>(port)];
  return id == kNoValue ? nullptr : value(id).constant;
}

ValueId Graph::FindValue(std::string_view name) const {
  const auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? kNoValue : found->second;
}

std::string Graph::UniqueName(std::string_view wanted) const {
  std::string name(wanted.empty() ? "value" : wanted);
  for (int suffix = value_limit(); by_name_.contains(name); ++suffix) {
    name = fmt::format("{}_{}", wanted, suffix);
  }
  return name;
}

ValueId Graph::AddValue(std::string_view name, ValueType type) {
  const ValueId id = value_limit();
  Value value;
  value.name = UniqueName(name);
  value.type = std::move(type);
  by_name_.emplace(value.name, id);
  values_.push_back(std::move(value));
  return id;
}

ValueId Graph::AddConstant(std::string_view name, ConstantRef constant) {
  ValueType type;
  type.dtype = constant->dtype();
  type.dims = ToDims(constant->shape());
  const ValueId id = AddValue(name, std::move(type));
  mutable_value(id).constant = std::move(constant);
  return id;
}

ValueId Graph::AddInput(std::string_view name, ValueType type) {
  const ValueId id = AddValue(name, std::move(type));
  MarkInput(id);
  return id;
}

void Graph::MarkInput(ValueId id) {
  CHECK(!value(id).is_input, "value '{}' is an input already", value(id).name);
  mutable_value(id).is_input = true;
  inputs_.push_back(id);
}

NodeId Graph::AddNode(Node node) {
  const NodeId id = node_limit();
  const std::vector<ValueId> inputs = node.inputs;
  for (size_t port = 0; port < node.outputs.size(); ++port) {
    if (node.outputs[port] == kNoValue) continue;
    Value& output = mutable_value(node.outputs[port]);
    CHECK(output.def == kNoNode && !output.is_input && output.constant == nullptr,
          "value '{}' is defined twice", output.name);
    output.def = id;
    output.def_port = static_cast<int>(port);
  }
  nodes_.emplace_back(std::move(node));
  input_slots_.emplace_back(inputs.size());
  places_.push_back(kAtTheEnd);
  order_.push_back(id);
  for (size_t port = 0; port < inputs.size(); ++port) {
    if (inputs[port] != kNoValue) AddUse(inputs[port], {id, static_cast<int>(port)});
  }
  return id;
}

NodeId Graph::AddNodeAt(Node node, NodeId place) {
  CHECK(place >= 0 && place < node_limit(), "node {} does not exist", place);
  const NodeId id = AddNode(std::move(node));
  places_[static_cast<size_t>(id)] = places_[static_cast<size_t>(place)];
  return id;
}

void Graph::AddOutput(std::string_view name, ValueId id) {
  outputs_.push_back(id);
  output_names_.emplace_back(name);
  output_slots_.push_back(0);
  AddUse(id, {kGraphOutput, static_cast<int>(outputs_.size()) - 1});
}

uint32_t& Graph::slot_of(Use use) {
  const auto port = static_cast<size_t>(use.port);
  return use.node == kGraphOutput ? output_slots_[port]
                                  : input_slots_[static_cast<size_t>(use.node)][port];
}

void Graph::AddUse(ValueId value, Use use) {
  Value& read = mutable_value(value);
  slot_of(use) = static_cast<uint32_t>(read.uses.size());
  read.uses.push_back(use);
  if (use.node == kGraphOutput) ++read.output_uses;
}

void Graph::DropUse(ValueId value, Use use) {
  Value& read = mutable_value(value);
  const uint32_t slot = slot_of(use);
  CHECK(slot < read.uses.size() && read.uses[slot] == use, "value '{}' has no such use", read.name);
  const Use last = read.uses.back();
  read.uses[slot] = last;
  slot_of(last) = slot;
  read.uses.pop_back();
  if (use.node == kGraphOutput) --read.output_uses;
}

void Graph::SetInput(NodeId node, int port, ValueId value) {
  ValueId& input = mutable_node(node).inputs[static_cast<size_t>(port)];
  if (input != kNoValue) DropUse(input, {node, port});
  input = value;
  if (value != kNoValue) AddUse(value, {node, port});
}

void Graph::AppendInput(NodeId node, ValueId value) {
  std::vector<ValueId>& inputs = mutable_node(node).inputs;
  inputs.push_back(value);
  input_slots_[static_cast<size_t>(node)].push_back(0);
  if (value != kNoValue) AddUse(value, {node, static_cast<int>(inputs.size()) - 1});
}

void Graph::ReplaceUses(ValueId from, ValueId to) {
  if (from == to) return;
  const std::vector<Use> uses = std::move(mutable_value(from).uses);
  mutable_value(from).uses.clear();
  mutable_value(from).output_uses = 0;
  for (const Use& use : uses) {
    if (use.node == kGraphOutput) {
      outputs_[static_cast<size_t>(use.port)] = to;
    } else {
      mutable_node(use.node).inputs[static_cast<size_t>(use.port)] = to;
    }
    AddUse(to, use);
  }
}

void Graph::Undefine(ValueId id) {
  Value& changed = mutable_value(id);
  if (changed.def == kNoNode) return;
  mutable_node(changed.def).outputs[static_cast<size_t>(changed.def_port)] = kNoValue;
  changed.def = kNoNode;
}

void Graph::SetConstant(ValueId id, ConstantRef constant) {
  Undefine(id);
  Value& changed = mutable_value(id);
  changed.type.kind = ValueKind::kTensor;
  changed.type.dtype = constant->dtype();
  changed.type.dims = ToDims(constant->shape());
  changed.constant = std::move(constant);
}

void Graph::RemoveInput(ValueId id) {
  Value& removed = mutable_value(id);
  CHECK(removed.is_input && (removed.uses.empty() || removed.constant != nullptr),
        "input '{}' is read", removed.name);
  removed.is_input = false;
  std::erase(inputs_, id);
}

size_t Graph::ReleaseIfUnread(ValueId id) {
  Value& unread = mutable_value(id);
  if (unread.constant == nullptr || unread.is_input || !unread.uses.empty()) return 0;
  const size_t bytes = unread.constant->held_bytes();
  unread.constant.reset();
  return bytes;
}

size_t Graph::ReleaseUnreadConstants() {
  size_t bytes = 0;
  for (ValueId id = 0; id < value_limit(); ++id) bytes += ReleaseIfUnread(id);
  return bytes;
}

void Graph::RemoveNode(NodeId id) {
  const Node& removed = node(id);
  for (size_t port = 0; port < removed.inputs.size(); ++port) {
    if (removed.inputs[port] != kNoValue) {
      DropUse(removed.inputs[port], {id, static_cast<int>(port)});
    }
  }
  for (const ValueId output : removed.outputs) {
    if (output == kNoValue) continue;
    CHECK(value(output).uses.empty(), "value '{}' of a removed node is read", value(output).name);
    mutable_value(output).def = kNoNode;
  }
  nodes_[static_cast<size_t>(id)].reset();
  order_has_gaps_ = true;
}

const std::vector<NodeId>& Graph::order() const {
  CHECK(!order_has_gaps_, "nodes were removed since the last Sort()");
  return order_;
}

int Graph::RemoveDeadNodes() {
  int removed = 0;
  for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
    if (!has_node(*id)) continue;
    const std::vector<ValueId>& outputs = node(*id).outputs;
    const bool read = std::ranges::any_of(
        outputs, [&](ValueId out) { return out != kNoValue && !value(out).uses.empty(); });
    if (read) continue;
    RemoveNode(*id);
    ++removed;
  }
  CloseGaps();
  return removed;
}

void Graph::CloseGaps() {
  std::erase_if(order_, [this](NodeId id) { return !has_node(id); });
  order_has_gaps_ = false;
}

Status Graph::Sort() {
  CloseGaps();
  std::ranges::stable_sort(order_, {},
                           [this](NodeId id) { return places_[static_cast<size_t>(id)]; });
  const auto limit = static_cast<size_t>(node_limit());
  std::vector<int> missing(limit, 0);
  std::vector<size_t> position(limit, 0);
  for (size_t i = 0; i < order_.size(); ++i) position[static_cast<size_t>(order_[i])] = i;
  // Ready nodes leave in the order in which they stood.
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (const NodeId id : order_) {
    int& count = missing[static_cast<size_t>(id)];
    for (const ValueId input : node(id).inputs) {
      if (input != kNoValue && value(input).def != kNoNode) ++count;
    }
    if (count == 0) ready.push(position[static_cast<size_t>(id)]);
  }
  std::vector<NodeId> sorted;
  sorted.reserve(order_.size());
  while (!ready.empty()) {
    const NodeId id = order_[ready.top()];
    ready.pop();
    sorted.push_back(id);
    for (const ValueId output : node(id).outputs) {
      if (output == kNoValue) continue;
      for (const Use& use : value(output).uses) {
        if (use.node == kGraphOutput) continue;
        const auto reader = static_cast<size_t>(use.node);
        if (--missing[reader] == 0) ready.push(position[reader]);
      }
    }
  }
  if (sorted.size() != order_.size()) {
    std::string stuck;
    for (const NodeId id : order_) {
      if (missing[static_cast<size_t>(id)] == 0) continue;
      if (stuck.size() > 200) {
        stuck += ", ...";
        break;
      }
      stuck += (stuck.empty() ? "" : ", ") + Describe(*this, id);
    }
    return InvalidArgument("the graph has a cycle; these nodes wait for each other: {}", stuck);
  }
  order_ = std::move(sorted);
  for (size_t i = 0; i < order_.size(); ++i) {
    places_[static_cast<size_t>(order_[i])] = static_cast<int64_t>(i);
  }
  return absl::OkStatus();
}

std::string Describe(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const std::string op = node.domain.empty() ? node.op_type : node.domain + "." + node.op_type;
  if (!node.name.empty()) return fmt::format("node '{}' ({})", node.name, op);
  for (const ValueId output : node.outputs) {
    if (output != kNoValue) {
      return fmt::format("node #{} -> '{}' ({})", id, graph.value(output).name, op);
    }
  }
  return fmt::format("node #{} ({})", id, op);
}

}  // namespace tandem::graph
