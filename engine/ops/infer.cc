#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "engine/base/check.h"
#include "engine/ops/body.h"
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
  return has_input(port) ? ContentOf(input(port)) : std::nullopt;
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

void InferContext::SetValue(int port, const Tensor& value) {
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

namespace {

// What the nodes of a graph read, as far as it is known; facts by value.
InferContext ContextOf(const graph::Node& node, const std::vector<ValueFacts>& facts) {
  std::vector<const ValueFacts*> inputs;
  for (const graph::ValueId input : node.inputs) {
    inputs.push_back(input == graph::kNoValue ? nullptr : &facts[static_cast<size_t>(input)]);
  }
  return {node, std::move(inputs)};
}

// True when every node has its operator, those in bodies included.
bool IsResolved(const graph::Node& node) {
  if (node.op == nullptr) return false;
  return std::ranges::all_of(graph::BodiesOf(node), [](const graph::Body& body) {
    return std::ranges::all_of(body.graph->order(),
                               [&](graph::NodeId id) { return IsResolved(body.graph->node(id)); });
  });
}

// Infers a graph and all bodies in it, and lists what is wrong with the path of nodes to it.
class Inference {
 public:
  void Infer(graph::Graph& graph, const std::string& path) {
    std::vector<ValueFacts> facts(static_cast<size_t>(graph.value_limit()));
    for (graph::ValueId id = 0; id < graph.value_limit(); ++id) {
      facts[static_cast<size_t>(id)] = FactsOf(graph.value(id));
    }
    // Results of nodes that are wrong: their readers need not be.
    std::vector<bool> unknown(facts.size(), false);
    for (const graph::NodeId id : graph.order()) {
      const bool known = IsResolved(graph.node(id)) && !ReadsAny(graph.node(id), unknown);
      const std::string own = path + graph::Describe(graph, id) + ": ";
      std::optional<InferContext> inferred =
          known ? InferNode(graph, id, facts, own) : std::nullopt;
      if (!inferred) {
        Mark(graph.node(id).outputs, unknown);
        continue;
      }
      InferContext& context = *inferred;
      for (size_t port = 0; port < graph.node(id).outputs.size(); ++port) {
        const graph::ValueId output = graph.node(id).outputs[port];
        if (output == graph::kNoValue) continue;
        ValueFacts& result = context.results()[port];
        const Status merged = Merge(graph, id, graph.mutable_value(output), result);
        if (!merged.ok()) errors_.push_back(path + std::string(Message(merged)));
        facts[static_cast<size_t>(output)] = std::move(result);
      }
    }
  }

  Status Finish() const {
    if (errors_.empty()) return absl::OkStatus();
    return InvalidArgument("{}", fmt::join(errors_, "; "));
  }

 private:
  static bool ReadsAny(const graph::Node& node, const std::vector<bool>& values) {
    return std::ranges::any_of(node.inputs, [&](graph::ValueId input) {
      return input != graph::kNoValue && values[static_cast<size_t>(input)];
    });
  }

  template <typename Ids>
  static void Mark(const Ids& ids, std::vector<bool>& values) {
    for (const graph::ValueId id : ids) {
      if (id != graph::kNoValue) values[static_cast<size_t>(id)] = true;
    }
  }

  // The node and its bodies; nothing when one is wrong.
  std::optional<InferContext> InferNode(graph::Graph& graph, graph::NodeId id,
                                        const std::vector<ValueFacts>& facts,
                                        const std::string& path) {
    InferContext context = ContextOf(graph.node(id), facts);
    if (!InferBodies(graph.mutable_node(id), context, path)) return std::nullopt;
    const Status inferred = OpOf(graph.node(id)).Infer(context);
    if (inferred.ok()) return context;
    errors_.push_back(path + std::string(Message(inferred)));
    return std::nullopt;
  }

  // False when a body is wrong.
  bool InferBodies(graph::Node& node, const InferContext& context, const std::string& path) {
    const std::vector<graph::Body> bodies = graph::BodiesOf(node);
    if (bodies.empty()) return true;
    const size_t before = errors_.size();
    std::vector<std::shared_ptr<const graph::Graph>> inferred;
    for (size_t i = 0; i < bodies.size(); ++i) {
      const auto inputs = OpOf(node).BodyInputs(context, static_cast<int>(i));
      if (!inputs.ok()) {
        errors_.push_back(path + std::string(Message(inputs.status())));
        continue;
      }
      auto copy = std::make_shared<graph::Graph>(*bodies[i].graph);
      SetInputTypes(*copy, *inputs);
      Infer(*copy, path + bodies[i].attribute + ": ");
      inferred.push_back(std::move(copy));
    }
    if (errors_.size() > before) return false;
    graph::SetBodies(node, inferred);
    return true;
  }

  std::vector<std::string> errors_;
};

}  // namespace

void SetInputTypes(graph::Graph& body, const std::vector<ValueFacts>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    graph::ValueType& type = body.mutable_value(body.inputs()[i]).type;
    type.dtype = inputs[i].dtype;
    type.dims = inputs[i].dims;
  }
}

StatusOr<std::vector<ValueFacts>> InferBody(const graph::Graph& body,
                                            std::vector<ValueFacts> inputs) {
  std::vector<ValueFacts> facts(static_cast<size_t>(body.value_limit()));
  for (graph::ValueId id = 0; id < body.value_limit(); ++id) {
    facts[static_cast<size_t>(id)] = FactsOf(body.value(id));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    facts[static_cast<size_t>(body.inputs()[i])] = std::move(inputs[i]);
  }
  for (const graph::NodeId id : body.order()) {
    const graph::Node& node = body.node(id);
    InferContext context = ContextOf(node, facts);
    const Status inferred = OpOf(node).Infer(context);
    if (!inferred.ok()) return Annotate(inferred, graph::Describe(body, id));
    for (size_t port = 0; port < node.outputs.size(); ++port) {
      if (node.outputs[port] == graph::kNoValue) continue;
      facts[static_cast<size_t>(node.outputs[port])] = std::move(context.results()[port]);
    }
  }
  std::vector<ValueFacts> outputs;
  for (const graph::ValueId id : body.outputs()) outputs.push_back(facts[static_cast<size_t>(id)]);
  return outputs;
}

Status InferAll(graph::Graph& graph) {
  Inference inference;
  inference.Infer(graph, "");
  return inference.Finish();
}

}  // namespace tandem::ops
