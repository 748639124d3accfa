// GraphProto and NodeProto become graph::Graph: declares every name, then adds the nodes, importing
// bodies and inlining functions on the way.
#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/onnx/external_data.h"
#include "engine/onnx/functions.h"
#include "engine/onnx/scope.h"
#include "engine/onnx/split_model.h"

namespace tandem::onnx_import {

// The raw_data that a parsed model lacks (split_model.h).
struct WeightSource {
  std::span<const std::optional<ByteRange>> ranges;  // by initializer of the main graph
  // Fills memory with the bytes of the serialized model from `offset` on.
  std::function<Status(int64_t offset, std::span<std::byte> into)> read;
};

class GraphImporter {
 public:
  // Everything is borrowed. The elements of the main graph's initializers leave `model` as soon as
  // they are decoded, so that a model is not held twice.
  GraphImporter(::onnx::ModelProto& model, const WeightSource& weights, const Opsets& opsets,
                const FunctionTable& functions, ExternalData& external,
                graph::ConstantStore& constants)
      : model_(model),
        weights_(weights),
        opsets_(opsets),
        functions_(functions),
        external_(external),
        constants_(constants) {}

  // The model's graph, sorted and verified.
  StatusOr<graph::Graph> Run();

  // True when a node is of a domain of which no opset is imported; its opset is 0.
  bool misses_opset() const { return misses_opset_; }

 private:
  // Values that the bodies of one node capture, by attribute.
  using Captures = std::map<std::string, std::vector<graph::ValueId>>;

  // graph_import.cc
  Status ImportGraph(const ::onnx::GraphProto& proto, Scope& scope);
  Status AddInputs(const ::onnx::GraphProto& proto, Scope& scope);
  Status AddInitializers(const ::onnx::GraphProto& proto, Scope& scope);
  StatusOr<Tensor> TakeInitializer(int index);
  Status AddInitializer(const std::string& name, Tensor tensor, Scope& scope);
  Status SetTypes(const ::onnx::GraphProto& proto, Scope& scope);
  Status AddOutputs(const ::onnx::GraphProto& proto, Scope& scope);
  StatusOr<graph::ValueId> Declare(const std::string& name, graph::ValueType type, Scope& scope);
  bool IsMain(const Scope& scope) const { return scope.frame->parent == nullptr && !scope.call; }

  // node_import.cc
  Status DeclareOutputs(const ::onnx::NodeProto& proto, Scope& scope);
  Status AddNode(const ::onnx::NodeProto& proto, Scope& scope);
  Status AddOperator(const ::onnx::NodeProto& proto, Scope& scope);
  // What an attribute of a node in `scope` stands for: itself, or what it refers to; nothing when
  // the call leaves out the attribute that it refers to.
  StatusOr<std::optional<Binding>> Bind(const ::onnx::AttributeProto& proto, const Scope& scope);
  Status AddAttribute(const ::onnx::AttributeProto& proto, const Scope& scope, graph::Node& node,
                      Captures& captures);
  Status AddBodies(const std::string& name, const Binding& binding, const Scope& scope,
                   graph::Node& node, std::vector<graph::ValueId>& captured);
  StatusOr<std::shared_ptr<const graph::Graph>> ImportBody(const ::onnx::GraphProto& proto,
                                                           const Binding& binding,
                                                           const Scope& scope,
                                                           std::vector<graph::ValueId>& captured);
  Status CountNode(const Scope& scope, int work);
  Status CountBytes(size_t bytes);

  // function_inline.cc
  Status InlineCall(const Function& function, const ::onnx::NodeProto& proto, Scope& scope);
  Status BindAttributes(const ::onnx::NodeProto& proto, const Scope& scope, Call& call);
  Status BindPorts(const ::onnx::NodeProto& proto, const Scope& scope, Scope& inner);
  Status CheckProduced(const Scope& inner);

  ::onnx::ModelProto& model_;
  const WeightSource& weights_;
  const Opsets& opsets_;
  const FunctionTable& functions_;
  ExternalData& external_;
  graph::ConstantStore& constants_;
  bool misses_opset_ = false;
  size_t densified_bytes_ = 0;
  int64_t nodes_ = 0;
  int64_t inlined_ = 0;
  size_t bytes_left_ = 0;
};

// "node 'conv1' (Conv)", or by its first output.
std::string Describe(const ::onnx::NodeProto& proto);

}  // namespace tandem::onnx_import
