#include "engine/ops/registry.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "engine/base/check.h"

namespace tandem::ops {
namespace {

// "1 input", "2 to 5 inputs", "at least 1 input"
std::string Range(int min, int max, std::string_view what) {
  if (max == kAnyNumber) return fmt::format("at least {} {}s", min, what);
  if (min == max) return fmt::format("{} {}s", min, what);
  return fmt::format("{} to {} {}s", min, max, what);
}

Status CheckArity(const graph::Node& node, const OpEntry& entry) {
  int inputs = static_cast<int>(node.inputs.size()) - node.captures;
  for (const auto* stages : {&node.prologue, &node.epilogue}) {
    for (const graph::EpilogueStage& stage : *stages) {
      if (stage.operand >= 0) inputs = std::min(inputs, stage.operand);
    }
  }
  const auto outputs = static_cast<int>(node.outputs.size());
  if (inputs < entry.min_inputs || inputs > entry.max_inputs) {
    return InvalidArgument("it has {} inputs where {} are expected", inputs,
                           Range(entry.min_inputs, entry.max_inputs, "input"));
  }
  for (int port = 0; port < entry.min_inputs; ++port) {
    if (node.inputs[static_cast<size_t>(port)] == graph::kNoValue) {
      return InvalidArgument("input {} is omitted but required", port);
    }
  }
  if (outputs < entry.min_outputs || outputs > entry.max_outputs) {
    return InvalidArgument("it has {} outputs where {} are expected", outputs,
                           Range(entry.min_outputs, entry.max_outputs, "output"));
  }
  return absl::OkStatus();
}

// Resolves a graph and all bodies in it, and lists what is wrong with the path of nodes to it.
class Resolver {
 public:
  void Resolve(graph::Graph& graph, const std::string& path) {
    CheckPorts(graph, path);
    for (const graph::NodeId id : graph.order()) {
      graph::Node& node = graph.mutable_node(id);
      if (node.op != nullptr) continue;
      const std::string own = path + graph::Describe(graph, id) + ": ";
      ResolveBodies(node, own);
      StatusOr<std::shared_ptr<const Operator>> op = ParseNode(node);
      if (op.ok()) {
        node.op = *std::move(op);
      } else {
        Add(op.status().code(), own + std::string(Message(op.status())));
      }
    }
  }

  Status Finish() const {
    if (errors_.empty()) return absl::OkStatus();
    return MakeStatus(code_, fmt::format("{}", fmt::join(errors_, "; ")));
  }

 private:
  void Add(absl::StatusCode code, std::string error) {
    if (errors_.empty()) code_ = code;
    errors_.push_back(std::move(error));
  }

  // Inputs and outputs of the graph that are no tensors.
  void CheckPorts(const graph::Graph& graph, const std::string& path) {
    const auto check = [&](std::string_view kind, const std::string& name, graph::ValueId id) {
      const graph::ValueType& type = graph.value(id).type;
      if (type.kind == graph::ValueKind::kTensor) return;
      Add(absl::StatusCode::kUnimplemented,
          fmt::format("{}graph {} '{}' is of type {}; only tensors are supported", path, kind, name,
                      graph::ToString(type)));
    };
    for (const graph::ValueId id : graph.inputs()) check("input", graph.value(id).name, id);
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      check("output", graph.output_names()[i], graph.outputs()[i]);
    }
  }

  // Bodies are shared by whoever copied the node; a resolved copy takes their place.
  void ResolveBodies(graph::Node& node, const std::string& path) {
    const std::vector<graph::Body> bodies = graph::BodiesOf(node);
    if (bodies.empty()) return;
    std::vector<std::shared_ptr<const graph::Graph>> resolved;
    for (const graph::Body& body : bodies) {
      auto copy = std::make_shared<graph::Graph>(*body.graph);
      Resolve(*copy, path + body.attribute + ": ");
      resolved.push_back(std::move(copy));
    }
    graph::SetBodies(node, resolved);
  }

  std::vector<std::string> errors_;
  absl::StatusCode code_ = absl::StatusCode::kOk;
};

}  // namespace

void OpRegistry::Add(OpEntry entry) {
  CHECK(!entry.versions.empty() && entry.parse != nullptr, "entry of {} is not complete",
        entry.op_type);
  const auto key = std::make_pair(entry.domain, entry.op_type);
  const bool added = entries_.emplace(key, std::move(entry)).second;
  CHECK(added, "operator {} is registered twice", key.second);
}

const OpEntry* OpRegistry::Find(std::string_view domain, std::string_view op_type) const {
  const auto found = entries_.find(std::make_pair(std::string(domain), std::string(op_type)));
  return found == entries_.end() ? nullptr : &found->second;
}

std::vector<const OpEntry*> OpRegistry::entries() const {
  std::vector<const OpEntry*> list;
  for (const auto& [key, entry] : entries_) list.push_back(&entry);
  return list;
}

bool MeansTheSame(const graph::Node& node, int opset) {
  if (node.opset == opset) return true;
  const OpEntry* entry = Operators().Find(node.domain, node.op_type);
  return entry != nullptr && std::ranges::upper_bound(entry->versions, opset) ==
                                 std::ranges::upper_bound(entry->versions, node.opset);
}

StatusOr<std::shared_ptr<const Operator>> ParseNode(const graph::Node& node) {
  if (node.opset == 0) {
    return InvalidArgument("no opset of its domain '{}' is imported", node.domain);
  }
  const OpEntry* entry = Operators().Find(node.domain, node.op_type);
  if (entry == nullptr) {
    return Unimplemented("operator {}{}{} of opset {} is not supported", node.domain,
                         node.domain.empty() ? "" : ".", node.op_type, node.opset);
  }
  if (node.opset < entry->versions.front()) {
    return Unimplemented("opset {} is not supported; {} is known from opset {} on", node.opset,
                         node.op_type, entry->versions.front());
  }
  RETURN_IF_ERROR(CheckArity(node, *entry));
  NodeReader reader(node);
  std::shared_ptr<const Operator> op = entry->parse(reader);
  RETURN_IF_ERROR(reader.Finish());
  return op;
}

Status ResolveAll(graph::Graph& graph) {
  Resolver resolver;
  resolver.Resolve(graph, "");
  return resolver.Finish();
}

}  // namespace tandem::ops
