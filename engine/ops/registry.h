// The operator registry: which operators exist, from which opset version on, and how a node becomes
// an Operator. Generated from the files of this folder: `softmax.cc` defines RegisterSoftmax.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/ops/operator.h"

namespace tandem::ops {

// Reads the attributes of a node and remembers which were read. A wrong attribute type or value is
// recorded; parsing goes on with the default and Finish() reports it. Finish() also reports every
// attribute that nobody read, so that none is ever ignored by accident.
class NodeReader {
 public:
  explicit NodeReader(const graph::Node& node) : node_(node) {}

  const graph::Node& node() const { return node_; }
  int opset() const { return node_.opset; }
  bool has(std::string_view name) const;
  // Without the values that bodies capture.
  int inputs() const { return static_cast<int>(node_.inputs.size()) - node_.captures; }
  bool has_input(int port) const;

  int64_t Int(std::string_view name, int64_t fallback);
  int64_t RequiredInt(std::string_view name);
  bool Flag(std::string_view name, bool fallback);  // an int that must be 0 or 1
  float Float(std::string_view name, float fallback);
  std::string String(std::string_view name, std::string_view fallback);
  std::vector<int64_t> Ints(std::string_view name, std::vector<int64_t> fallback = {});
  std::vector<float> Floats(std::string_view name, std::vector<float> fallback = {});
  std::vector<std::string> Strings(std::string_view name, std::vector<std::string> fallback = {});
  graph::ConstantRef Constant(std::string_view name);
  std::shared_ptr<const graph::Graph> Body(std::string_view name);
  // An attribute that has no meaning for inference or that this version accepts and never reads.
  void Ignore(std::string_view name);

  // Records that the node is wrong; Finish() returns the first such error.
  void Fail(Status error);
  // OK, the first recorded error, or the attributes that nobody read.
  Status Finish() const;

 private:
  const graph::Attribute* Read(std::string_view name);
  template <typename T>
  T Get(std::string_view name, T fallback, std::string_view type);

  const graph::Node& node_;
  std::vector<std::string> read_;
  Status error_;
};

using ParseFunction = std::shared_ptr<const Operator> (*)(NodeReader& reader);

// Reports an input or output count as unbounded.
inline constexpr int kAnyNumber = 1 << 20;

struct OpEntry {
  std::string op_type;
  std::vector<int> versions;  // opset versions at which the meaning changed, rising; the first is
                              // the oldest that is supported
  int min_inputs = 1;
  int max_inputs = 1;
  int min_outputs = 1;
  int max_outputs = 1;
  ParseFunction parse = nullptr;
  std::string doc;     // one sentence, for docs/operators.md
  std::string domain;  // "" is ai.onnx
};

class OpRegistry {
 public:
  void Add(OpEntry entry);
  // The entry for `op_type`, or null.
  const OpEntry* Find(std::string_view domain, std::string_view op_type) const;
  // By domain and operator type, sorted.
  std::vector<const OpEntry*> entries() const;

 private:
  std::map<std::pair<std::string, std::string>, OpEntry, std::less<>> entries_;
};

// All operators of this folder. Immutable after its construction.
const OpRegistry& Operators();

// True when `node` means what it would mean in another `opset` of its domain.
bool MeansTheSame(const graph::Node& node, int opset);

// The Operator of `node`. Unimplemented: unknown operator or opset; InvalidArgument: arity,
// attributes.
StatusOr<std::shared_ptr<const Operator>> ParseNode(const graph::Node& node);

// Parses every node that has no operator yet, those in bodies included. All errors are listed in
// one status, each with the path of nodes to it, joined by "; ".
Status ResolveAll(graph::Graph& graph);

// Runs shape inference over the whole graph and its bodies, in its order, and stores types in their
// values. All errors are listed, with the path of nodes to them. Nodes without an operator are
// passed over: their outputs are as declared.
Status InferAll(graph::Graph& graph);

}  // namespace tandem::ops
