#include <fmt/ranges.h>

#include "engine/base/check.h"
#include "engine/ops/operator.h"
#include "engine/ops/registry.h"

namespace tandem::ops {

InferContext::InferContext(const graph::Node& node, std::vector<const ValueFacts*> inputs)
    : node_(node), inputs_(std::move(inputs)), results_(node.outputs.size()) {}

bool InferContext::has_input(int port) const {
  return port < inputs() && inputs_[static_cast<size_t>(port)] != nullptr;
}

bool InferContext::has_output(int port) const {
  return port < outputs() && node_.outputs[static_cast<size_t>(port)] != graph::kNoValue;
}

const ValueFacts& InferContext::input(int port) const {
  CHECK(has_input(port), "input {} of {} is omitted", port, node_.op_type);
  return *inputs_[static_cast<size_t>(port)];
}

const graph::DimVector* InferContext::dims(int port) const {
  if (!has_input(port) || !input(port).dims) return nullptr;
  return &*input(port).dims;
}

std::optional<std::vector<int64_t>> InferContext::Integers(int port) const {
  return has_input(port) ? IntegersOf(input(port)) : std::nullopt;
}

std::optional<graph::DimVector> InferContext::Content(int port) const {
  return has_input(port) ? input(port).content : std::nullopt;
}

void InferContext::SetOutput(int port, DType dtype, std::optional<graph::DimVector> dims) {
  if (!has_output(port)) return;
  ValueFacts& facts = results_[static_cast<size_t>(port)];
  facts.dtype = dtype;
  facts.dims = std::move(dims);
}

void InferContext::SetContent(int port, graph::DimVector content) {
  if (has_output(port)) results_[static_cast<size_t>(port)].content = std::move(content);
}

void InferContext::SetValue(int port, Tensor value) {
  if (has_output(port)) results_[static_cast<size_t>(port)] = FactsOf(value);
}

namespace {

// Joins what a file declares of an output with what inference found; declared extents stand in for
// unknown ones, a contradiction is an error.
Status Merge(const graph::Graph& graph, graph::NodeId id, graph::Value& value, ValueFacts& facts) {
  graph::ValueType& type = value.type;
  if (type.dtype != DType::kUndefined && type.dtype != facts.dtype) {
    return InvalidArgument("{}: output '{}' is declared as {} but is {}",
                           graph::Describe(graph, id), value.name, DTypeName(type.dtype),
                           DTypeName(facts.dtype));
  }
  type.dtype = facts.dtype;
  if (!facts.dims) {
    facts.dims = type.dims;
  } else if (type.dims && type.dims->size() == facts.dims->size()) {
    for (size_t axis = 0; axis < facts.dims->size(); ++axis) {
      graph::Dim& found = (*facts.dims)[axis];
      if (found.is_unknown()) found = (*type.dims)[axis];
    }
  }
  type.dims = facts.dims;
  return absl::OkStatus();
}

}  // namespace

Status InferAll(graph::Graph& graph) {
  std::vector<ValueFacts> facts(static_cast<size_t>(graph.value_limit()));
  for (graph::ValueId id = 0; id < graph.value_limit(); ++id) {
    facts[static_cast<size_t>(id)] = FactsOf(graph.value(id));
  }
  std::vector<std::string> errors;
  for (const graph::NodeId id : graph.order()) {
    const graph::Node& node = graph.node(id);
    std::vector<const ValueFacts*> inputs;
    for (const graph::ValueId input : node.inputs) {
      inputs.push_back(input == graph::kNoValue ? nullptr : &facts[static_cast<size_t>(input)]);
    }
    InferContext context(node, std::move(inputs));
    const Status inferred = OpOf(node).Infer(context);
    if (!inferred.ok()) {
      errors.push_back(fmt::format("{}: {}", graph::Describe(graph, id), Message(inferred)));
      continue;
    }
    for (size_t port = 0; port < node.outputs.size(); ++port) {
      const graph::ValueId output = node.outputs[port];
      if (output == graph::kNoValue) continue;
      ValueFacts& result = context.results()[port];
      const Status merged = Merge(graph, id, graph.mutable_value(output), result);
      if (!merged.ok()) errors.emplace_back(Message(merged));
      facts[static_cast<size_t>(output)] = std::move(result);
    }
  }
  if (!errors.empty()) return InvalidArgument("{}", fmt::join(errors, "; "));
  return absl::OkStatus();
}

}  // namespace tandem::ops
