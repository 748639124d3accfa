#include "engine/onnx/export.h"

#include <fmt/ranges.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <limits>
#include <set>

#include "engine/base/check.h"
#include "engine/graph/opset.h"
#include "engine/onnx/encode.h"
#include "engine/ops/registry.h"

namespace tandem::onnx_import {
namespace {

using graph::kNoNode;
using graph::kNoValue;
using graph::ValueId;

// Initializers that are no inputs exist from this IR version on.
constexpr int64_t kLeastIrVersion = 4;
// From here on the bounds of a Clip are inputs.
constexpr int kClipBoundsAreInputs = 11;
constexpr std::string_view kOwnDomain = "tandem";

using Opsets = std::map<std::string, int>;

// What all graphs of one model share.
struct ModelState {
  Opsets opsets;
  std::set<std::string> names;
  std::vector<std::string> errors;  // each with its node

  std::string UniqueName(const std::string& wanted) {
    std::string name = wanted;
    for (int i = 1; !names.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
    return name;
  }
};

// Notes the opset that a node needs; why it has no form in ONNX.
Status CheckForm(const graph::Node& node, Opsets& opsets) {
  if (node.domain == kOwnDomain) {
    return Unimplemented("operator {}.{} has no form in ONNX", node.domain, node.op_type);
  }
  const int imported = opsets.try_emplace(node.domain, node.opset).first->second;
  if (ops::MeansTheSame(node, imported)) return absl::OkStatus();
  return Unimplemented(
      "{} is meant as in opset {} and the model imports opset {}, where it is not the same",
      node.op_type, node.opset, imported);
}

// From here on the axes of a reduction are an input.
int AxesAreInput(std::string_view op) { return op == "ReduceSum" ? 13 : 18; }

// The same for fused operators, whose opset is the model's.
Status CheckStages(std::span<const graph::EpilogueStage> stages, int opset) {
  for (const graph::EpilogueStage& stage : stages) {
    const ops::OpEntry* entry = ops::Operators().Find("", stage.op);
    if (entry != nullptr && entry->versions.front() <= opset) continue;
    return Unimplemented("{}, which was fused into it, is not in opset {}, which the model imports",
                         stage.op, opset);
  }
  return absl::OkStatus();
}

class GraphEncoder {
 public:
  GraphEncoder(const graph::Graph& graph, ModelState& state, ::onnx::GraphProto& proto)
      : graph_(graph), state_(state), proto_(proto) {}

  // A model's graph: inputs and outputs keep their names.
  void EncodeMain() {
    for (const ValueId id : graph_.inputs()) Keep(id, graph_.value(id).name);
    for (const std::string& name : graph_.output_names()) state_.names.insert(name);
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      const ValueId id = graph_.outputs()[i];
      if (graph_.value(id).def != kNoNode) names_.try_emplace(id, graph_.output_names()[i]);
    }
    for (const ValueId id : graph_.inputs()) {
      if (graph_.value(id).constant == nullptr) EncodeValue(id, NameOf(id), *proto_.add_input());
    }
    EncodeNodes();
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      EncodeOutput(graph_.outputs()[i], graph_.output_names()[i]);
    }
  }

  // A body, whose last inputs are values around it, of these names.
  void EncodeBody(std::span<const std::string> captured) {
    const size_t formal = graph_.inputs().size() - captured.size();
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      const ValueId id = graph_.inputs()[i];
      if (i >= formal) {
        names_[id] = captured[i - formal];
      } else {
        EncodeValue(id, NameOf(id), *proto_.add_input());
      }
    }
    EncodeNodes();
    for (const ValueId id : graph_.outputs()) {
      const bool own = graph_.value(id).def != kNoNode && !outputs_.contains(id);
      EncodeOutput(id, own ? NameOf(id) : state_.UniqueName(graph_.value(id).name));
    }
  }

 private:
  void Keep(ValueId id, const std::string& name) {
    names_[id] = name;
    state_.names.insert(name);
  }

  // Constants become initializers when they are first read.
  std::string NameOf(ValueId id) {
    if (id == kNoValue) return "";
    const graph::Value& value = graph_.value(id);
    const auto known = names_.find(id);
    std::string name = known != names_.end() ? known->second : state_.UniqueName(value.name);
    names_[id] = name;
    if (value.constant != nullptr && initialized_.insert(id).second) {
      EncodeTensor(value.constant->tensor(), name, *proto_.add_initializer());
    }
    return name;
  }

  void EncodeValue(ValueId id, const std::string& name, ::onnx::ValueInfoProto& info) {
    info.set_name(name);
    const graph::ValueType& type = graph_.value(id).type;
    if (type.kind != graph::ValueKind::kTensor) {
      state_.errors.push_back(
          fmt::format("value '{}' is of type {}, which is not written", name, ToString(type)));
    } else if (type.dtype != DType::kUndefined) {
      EncodeTensorType(type.dtype, type.dims, *info.mutable_type());
    }
  }

  // Outputs are defined by a node of this graph, each once: others through an Identity.
  void EncodeOutput(ValueId id, const std::string& name) {
    if (NameOf(id) != name) {
      ::onnx::NodeProto& identity = *proto_.add_node();
      identity.set_op_type("Identity");
      identity.add_input(NameOf(id));
      identity.add_output(name);
      AiOnnxOpset();
    }
    outputs_.insert(id);
    EncodeValue(id, name, *proto_.add_output());
  }

  void EncodeNodes() {
    for (const graph::NodeId id : graph_.order()) {
      Status form = CheckForm(graph_.node(id), state_.opsets);
      for (const auto* stages : {&graph_.node(id).prologue, &graph_.node(id).epilogue}) {
        if (!stages->empty()) form.Update(CheckStages(*stages, AiOnnxOpset()));
      }
      if (form.ok()) {
        EncodeNode(graph_.node(id));
      } else {
        state_.errors.push_back(fmt::format("{}: {}", graph::Describe(graph_, id), Message(form)));
      }
    }
  }

  void EncodeNode(const graph::Node& node) {
    ::onnx::NodeProto proto;
    proto.set_op_type(node.op_type);
    proto.set_domain(node.domain);
    proto.set_name(node.name);
    size_t inputs = node.inputs.size() - static_cast<size_t>(node.captures);
    for (const auto* stages : {&node.prologue, &node.epilogue}) {
      for (const graph::EpilogueStage& stage : *stages) {
        if (stage.operand >= 0) inputs = std::min(inputs, static_cast<size_t>(stage.operand));
      }
    }
    while (inputs > 0 && node.inputs[inputs - 1] == kNoValue) --inputs;
    for (size_t port = 0; port < inputs; ++port) proto.add_input(NameOf(node.inputs[port]));
    for (const ValueId output : node.outputs) proto.add_output(NameOf(output));
    EncodeAttributes(node, proto);
    for (const graph::EpilogueStage& stage : node.prologue) {
      const std::string output = state_.UniqueName(proto.output(0) + "/" + stage.op);
      EncodeStage(node, stage, proto.input(0), output);
      proto.set_input(0, output);
    }
    if (node.epilogue.empty()) {
      *proto_.add_node() = std::move(proto);
      return;
    }
    const std::string result = proto.output(0);
    proto.set_output(0, state_.UniqueName(result + "/" + node.op_type));
    std::string previous = proto.output(0);
    *proto_.add_node() = std::move(proto);
    for (size_t i = 0; i < node.epilogue.size(); ++i) {
      const bool last = i + 1 == node.epilogue.size();
      const std::string& op = node.epilogue[i].op;
      const std::string output =
          last ? result : state_.UniqueName(fmt::format("{}/{}", result, op));
      EncodeStage(node, node.epilogue[i], previous, output);
      previous = output;
    }
  }

  void EncodeStage(const graph::Node& node, const graph::EpilogueStage& stage,
                   const std::string& input, const std::string& output) {
    ::onnx::NodeProto& proto = *proto_.add_node();
    proto.set_op_type(stage.op);
    proto.add_input(input);
    if (stage.operand >= 0) {
      proto.add_input(NameOf(node.inputs[static_cast<size_t>(stage.operand)]));
      if (stage.operand_is_first) proto.mutable_input()->SwapElements(0, 1);
    }
    proto.add_output(output);
    const bool bounds_are_inputs = stage.op == "Clip" && AiOnnxOpset() >= kClipBoundsAreInputs;
    for (const auto& [name, attribute] : stage.attributes) {
      if (bounds_are_inputs) continue;
      if (name == "axes" && AiOnnxOpset() >= AxesAreInput(stage.op)) {
        proto.add_input(Axes(output + "/axes", attribute.get<std::vector<int64_t>>()));
      } else {
        EncodeAttribute(name, attribute, *proto.add_attribute());
      }
    }
    if (!bounds_are_inputs) return;
    const DType dtype = graph_.value(node.outputs[0]).type.dtype;
    for (const char* bound : {"min", "max"}) {
      const auto found = stage.attributes.find(bound);
      proto.add_input(
          found == stage.attributes.end()
              ? ""
              : Initializer(output + "/" + bound, BoundOf(dtype, found->second.get<float>())));
    }
  }

  // Imported from now on.
  int AiOnnxOpset() { return state_.opsets.try_emplace("", graph::kNewestOpset).first->second; }

  // In the type of what it bounds.
  static Tensor BoundOf(DType dtype, float bound) {
    switch (dtype) {
      case DType::kInt8:
        return Tensor::Scalar(static_cast<int8_t>(bound));
      case DType::kUint8:
        return Tensor::Scalar(static_cast<uint8_t>(bound));
      default:
        return Tensor::Scalar(bound);
    }
  }
  std::string Axes(const std::string& wanted, const std::vector<int64_t>& axes) {
    return Initializer(wanted, Tensor::Of<int64_t>({static_cast<int64_t>(axes.size())}, axes));
  }
  std::string Initializer(const std::string& wanted, const Tensor& tensor) {
    std::string name = state_.UniqueName(wanted);
    EncodeTensor(tensor, name, *proto_.add_initializer());
    return name;
  }

  void EncodeAttributes(const graph::Node& node, ::onnx::NodeProto& proto) {
    // Captured values stand in the order of the attributes that hold the bodies.
    auto captured = node.inputs.end() - node.captures;
    const auto encode_body = [&](const graph::Graph& body, ::onnx::GraphProto& encoded) {
      std::vector<std::string> names;
      for (int i = 0; i < body.captures(); ++i) names.push_back(NameOf(*captured++));
      encoded.set_name(body.name());
      GraphEncoder(body, state_, encoded).EncodeBody(names);
    };
    using Body = std::shared_ptr<const graph::Graph>;
    for (const auto& [name, attribute] : node.attributes) {
      ::onnx::AttributeProto& encoded = *proto.add_attribute();
      encoded.set_name(name);
      if (const auto* body = attribute.get_if<Body>()) {
        encoded.set_type(::onnx::AttributeProto::GRAPH);
        encode_body(**body, *encoded.mutable_g());
      } else if (const auto* bodies = attribute.get_if<std::vector<Body>>()) {
        encoded.set_type(::onnx::AttributeProto::GRAPHS);
        for (const Body& each : *bodies) encode_body(*each, *encoded.add_graphs());
      } else if (HoldsTypes(attribute)) {
        state_.errors.push_back(fmt::format(
            "attribute '{}' of {} holds a type, which is not written", name, node.op_type));
      } else {
        EncodeAttribute(name, attribute, encoded);
      }
    }
  }

  static bool HoldsTypes(const graph::Attribute& attribute) {
    return attribute.holds<graph::ValueType>() || attribute.holds<std::vector<graph::ValueType>>();
  }

  const graph::Graph& graph_;
  ModelState& state_;
  ::onnx::GraphProto& proto_;
  std::map<ValueId, std::string> names_;
  std::set<ValueId> initialized_;
  std::set<ValueId> outputs_;
};

}  // namespace

StatusOr<std::string> SerializeModel(const ImportedModel& model) {
  ModelState state;
  state.opsets = model.opsets;
  ::onnx::ModelProto proto;
  proto.set_ir_version(std::max(model.ir_version, kLeastIrVersion));
  proto.set_producer_name("tandem");
  proto.mutable_graph()->set_name(model.graph.name());
  GraphEncoder(model.graph, state, *proto.mutable_graph()).EncodeMain();
  if (!state.errors.empty()) return Unimplemented("{}", fmt::join(state.errors, "; "));
  for (const auto& [domain, version] : state.opsets) {
    ::onnx::OperatorSetIdProto& opset = *proto.add_opset_import();
    opset.set_domain(domain);
    opset.set_version(version);
  }
  for (const auto& [key, value] : model.metadata) {
    ::onnx::StringStringEntryProto& entry = *proto.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  const size_t bytes = proto.ByteSizeLong();
  if (bytes > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return Unimplemented("the model has {} bytes, and an ONNX file holds less than 2 GiB", bytes);
  }
  return proto.SerializeAsString();
}

}  // namespace tandem::onnx_import
