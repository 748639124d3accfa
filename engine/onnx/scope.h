// Names while a model is imported: which value a name means at a place, across bodies and calls of
// functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/onnx/functions.h"

namespace tandem::onnx_import {

// A graph that is being built: the model's, or a body inside the graph of `parent`.
struct Frame {
  explicit Frame(Frame* around) : parent(around) {}

  Frame* parent;
  graph::Graph graph;
  // Values of the parent's graph and what they are called here; those that became inputs in order.
  std::map<graph::ValueId, graph::ValueId> reached;
  std::vector<graph::ValueId> captured;
};

struct Scope;

struct Call;

// An attribute of a node or call, with the place it was written at.
struct Binding {
  const ::onnx::AttributeProto* attribute = nullptr;
  const Scope* scope = nullptr;  // where its bodies read names; null: they see none around them
  const Call* call = nullptr;    // the call that references and versions in its bodies belong to
};

// One call of a function while it is inlined.
struct Call {
  const Function* function = nullptr;
  const Call* caller = nullptr;  // null for a call from the model's graph
  std::string name;              // of the calling node; values of the call are named "name/value"
  std::map<std::string, Binding, std::less<>> attributes;
};

// The names of one graph or of one call, which adds its nodes to the graph of its caller.
struct Scope {
  Frame* frame = nullptr;
  const Scope* parent = nullptr;  // where names are looked up that are not defined here
  const Call* call = nullptr;     // the function whose nodes these are
  int depth = 0;                  // bodies and calls around
  // kNoValue: an input of a function that the call omits.
  absl::flat_hash_map<std::string, graph::ValueId> names;
};

// The value in the graph of scope.frame that `name` means: a value of the scope, or one of a graph
// around it, which is captured. InvalidArgument when nothing defines the name, or when a body reads
// it before defining it though a graph around defines it, too.
StatusOr<graph::ValueId> Resolve(const std::string& name, const Scope& scope);

}  // namespace tandem::onnx_import
