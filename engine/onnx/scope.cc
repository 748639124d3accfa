#include "engine/onnx/scope.h"

namespace tandem::onnx_import {
namespace {

using graph::kNoNode;
using graph::kNoValue;
using graph::ValueId;

// The value of `target`'s graph that stands for value `id` of the graph of `origin`, which lies
// around it. Recursion is bounded by kMaxNesting.
ValueId Reach(Frame& target, const Frame& origin, ValueId id) {
  if (&target == &origin) return id;
  const ValueId outer = Reach(*target.parent, origin, id);
  if (const auto known = target.reached.find(outer); known != target.reached.end()) {
    return known->second;
  }
  const graph::Value& value = target.parent->graph.value(outer);
  ValueId inner;
  if (value.constant != nullptr && !value.is_input) {
    inner = target.graph.AddConstant(value.name, value.constant);
  } else {
    inner = target.graph.AddInput(value.name, value.type);
    target.captured.push_back(outer);
  }
  target.reached.emplace(outer, inner);
  return inner;
}

const Scope* FindDefining(const std::string& name, const Scope* scope) {
  while (scope != nullptr && !scope->names.contains(name)) scope = scope->parent;
  return scope;
}

bool IsDefinedYet(const graph::Value& value) {
  return value.is_input || value.constant != nullptr || value.def != kNoNode;
}

}  // namespace

StatusOr<ValueId> Resolve(const std::string& name, const Scope& scope) {
  const Scope* defining = FindDefining(name, &scope);
  if (defining == nullptr) {
    return InvalidArgument("'{}' is read, but no input, initializer or node defines it", name);
  }
  const ValueId id = defining->names.at(name);
  if (id == kNoValue) return kNoValue;
  if (!IsDefinedYet(defining->frame->graph.value(id)) &&
      FindDefining(name, defining->parent) != nullptr) {
    return InvalidArgument(
        "'{}' is read before {} defines it, and a graph around it defines it, too", name,
        defining == &scope ? "this body" : "a body around this one");
  }
  return Reach(*scope.frame, *defining->frame, id);
}

}  // namespace tandem::onnx_import
