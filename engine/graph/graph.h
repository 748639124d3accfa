// The graph: values with a definition and uses, nodes that read and define values. What ONNX's
// GraphProto says, without protobuf. A graph output is a use like any other, so "who still needs
// this value" has one answer.
//
// A Graph is changed through Patch (patch.h) or, while it is being built, through its Add
// functions. Not thread-safe while it changes; const use is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/attribute.h"
#include "engine/graph/constant.h"
#include "engine/graph/dim.h"
#include "engine/tensor/dtype.h"

namespace tandem::graph {

// Values and nodes are named by index. Indices are never reused, so an index of a removed node or
// value stays invalid for ever.
using ValueId = int32_t;
using NodeId = int32_t;
inline constexpr ValueId kNoValue = -1;  // an omitted optional input or output
inline constexpr NodeId kNoNode = -1;
inline constexpr NodeId kGraphOutput = -2;  // the "reader" of a graph output

// What ONNX's TypeProto says of a value.
enum class ValueKind : uint8_t { kTensor, kSparseTensor, kSequence, kOptional, kMap };

struct ValueType {
  ValueKind kind = ValueKind::kTensor;
  DType dtype = DType::kUndefined;           // of the elements; of a map's values
  std::optional<DimVector> dims;             // nothing: rank unknown
  DType key = DType::kUndefined;             // of a map
  std::shared_ptr<const ValueType> element;  // of a sequence or optional
};
std::string ToString(const ValueType& type);  // "float[N,3,224,224]", "sequence(int64[?])"

// A place that reads a value: input `port` of `node`, or graph output `port` when node is
// kGraphOutput.
struct Use {
  NodeId node = kNoNode;
  int port = 0;
  friend bool operator==(const Use&, const Use&) = default;
};

struct Value {
  std::string name;      // unique in its graph, never empty
  ValueType type;        // as declared or inferred
  NodeId def = kNoNode;  // the node that defines it; kNoNode for inputs and constants
  int def_port = 0;
  bool is_input = false;  // a graph input (an overridable constant is one, too)
  ConstantRef constant;   // an initializer or a folded value
  std::vector<Use> uses;  // in no particular order
  int output_uses = 0;    // uses that are graph outputs
};

class Graph;

// The parsed form of a node, attached by the layer that knows operators (ops/operator.h).
class NodeOp {
 public:
  virtual ~NodeOp() = default;
};

// One step that a kernel applies to its result before storing it, or to what it reads.
struct EpilogueStage {
  std::string op;         // ONNX operator type: "Add", "Relu", "Clip" ...
  Attributes attributes;  // of that operator; bounds of a Clip are always attributes min and max
  int operand = -1;       // index into the node's inputs of the second operand, or -1
  bool operand_is_first = false;           // op(operand, x) rather than op(x, operand)
  std::shared_ptr<const NodeOp> resolved;  // the operator of the node that the stage was
};

struct Node {
  std::string name;    // may be empty, need not be unique
  std::string domain;  // "" is ai.onnx
  std::string op_type;
  int opset = 0;  // version of `domain` that the model imports
  Attributes attributes;
  // kNoValue where omitted. The last `captures` of them are not in the file: they are the values of
  // this graph that the bodies among the attributes read, for each body in the order of attribute
  // names (and of a list's elements) as many as its Graph::captures counts.
  std::vector<ValueId> inputs;
  int captures = 0;
  std::vector<ValueId> outputs;         // kNoValue where omitted
  std::vector<EpilogueStage> prologue;  // on input 0 as it is read, in order of application
  std::vector<EpilogueStage> epilogue;  // on output 0, in order of application
  std::shared_ptr<const NodeOp> op;     // set when the operator has been resolved
  std::string origin;                   // the names of the nodes this one was made of, for people
};

// A graph among the attributes of a node.
struct Body {
  std::string attribute;  // with its place in a list: "branches[2]"
  std::shared_ptr<const Graph> graph;
};
// The bodies of a node in the order in which its captures lie.
std::vector<Body> BodiesOf(const Node& node);
bool HasBody(const Node& node);
// Puts other graphs in the place of the bodies, in that order; inputs and captures stay.
void SetBodies(Node& node, const std::vector<std::shared_ptr<const Graph>>& graphs);

class Graph {
 public:
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  // How many of the last inputs() are not formal inputs of this body but values of the graph around
  // it, handed over by the node that has the body (Node::captures). 0 for the graph of a model.
  int captures() const { return captures_; }
  void set_captures(int captures) { captures_ = captures; }

  // Live nodes, in an order in which every value is defined before it is read, provided that Sort()
  // was called since the last change; CHECKs that none was removed since.
  const std::vector<NodeId>& order() const;
  // One past the largest node or value index ever given.
  NodeId node_limit() const { return static_cast<NodeId>(nodes_.size()); }
  ValueId value_limit() const { return static_cast<ValueId>(values_.size()); }
  bool has_node(NodeId id) const;
  const Node& node(NodeId id) const;
  Node& mutable_node(NodeId id);  // not for inputs and outputs; those change through SetInput
  const Value& value(ValueId id) const;
  Value& mutable_value(ValueId id);  // not for def and uses
  // The constant behind input `port` of a node, or null (absent, or not constant).
  ConstantRef constant_input(const Node& node, int port) const;
  // The value named `name`, or kNoValue.
  ValueId FindValue(std::string_view name) const;

  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }
  // The names that outputs are answered under; an output keeps its name when a pass replaces the
  // value behind it.
  const std::vector<std::string>& output_names() const { return output_names_; }
  bool is_output(ValueId id) const { return value(id).output_uses > 0; }
  // Number of node inputs that read `id`; graph outputs do not count.
  int node_uses(ValueId id) const {
    return static_cast<int>(value(id).uses.size()) - value(id).output_uses;
  }

  // Building. A name that is taken is made unique with a suffix for AddValue; callers that must
  // keep a name (the importer) check FindValue first.
  ValueId AddValue(std::string_view name, ValueType type);
  ValueId AddConstant(std::string_view name, ConstantRef constant);
  ValueId AddInput(std::string_view name, ValueType type);
  void MarkInput(ValueId id);
  NodeId AddNode(Node node);  // its outputs must be values without a definition
  // As AddNode; where the order is free, Sort() puts the node where `place` stands (which may be
  // removed afterwards).
  NodeId AddNodeAt(Node node, NodeId place);
  void AddOutput(std::string_view name, ValueId id);

  // Changing; each keeps defs and uses right.
  void SetInput(NodeId node, int port, ValueId value);
  void AppendInput(NodeId node, ValueId value);
  // Graph outputs included.
  void ReplaceUses(ValueId from, ValueId to);
  // The node that defines the value, if any, omits that output from now on.
  void Undefine(ValueId id);
  // The value loses its definition and is the constant.
  void SetConstant(ValueId id, ConstantRef constant);
  // An input that nobody reads, or that is a constant by now, is no input any more.
  void RemoveInput(ValueId id);
  // Its outputs must have no uses.
  void RemoveNode(NodeId id);

  // Drops nodes whose outputs nobody reads, over and over; returns how many went.
  int RemoveDeadNodes();
  // Lets go of the constants that nobody reads, defaults of inputs excepted; returns their bytes.
  size_t ReleaseUnreadConstants();
  // Lets go of the constant of one value if nobody reads it; returns its bytes.
  size_t ReleaseIfUnread(ValueId id);
  // Orders the nodes topologically, keeping their order where it is free; InvalidArgument names the
  // nodes of a cycle.
  Status Sort();

 private:
  void CloseGaps();
  std::string UniqueName(std::string_view wanted) const;
  // Uses are added and dropped in constant time: `slot_of` finds a use in the list of its value.
  void AddUse(ValueId value, Use use);
  void DropUse(ValueId value, Use use);
  uint32_t& slot_of(Use use);

  std::string name_;
  int captures_ = 0;
  std::vector<std::optional<Node>> nodes_;
  std::vector<Value> values_;
  std::vector<std::vector<uint32_t>> input_slots_;  // by node and input port
  std::vector<uint32_t> output_slots_;              // by graph output
  std::vector<int64_t> places_;                     // by node: where it stands in the order
  std::vector<NodeId> order_;
  bool order_has_gaps_ = false;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  std::vector<std::string> output_names_;
  absl::flat_hash_map<std::string, ValueId> by_name_;
};

// How a person finds a node: "node 'Conv_17' (Conv)", or by its first output when it has no name:
// "node #12 -> 'relu_3' (Relu)".
std::string Describe(const Graph& graph, NodeId id);

}  // namespace tandem::graph
