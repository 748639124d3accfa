#include <google/protobuf/unknown_field_set.h>

#include "absl/container/flat_hash_set.h"
#include "engine/onnx/attributes.h"
#include "engine/onnx/graph_import.h"
#include "engine/onnx/import.h"
#include "engine/onnx/unknown_fields.h"

namespace tandem::onnx_import {

using graph::kNoValue;
using graph::ValueId;
using ::onnx::AttributeProto;

namespace {

// Bytes of an attribute; bodies are counted when they are imported.
size_t BytesOfValue(const AttributeProto& proto) {
  return proto.has_g() || proto.graphs_size() > 0 ? 0 : proto.ByteSizeLong();
}

// Bytes of what a node holds beside its bodies.
size_t OwnBytes(const ::onnx::NodeProto& proto) {
  size_t bytes = proto.name().size() + proto.op_type().size();
  for (const std::string& input : proto.input()) bytes += input.size() + 2;
  for (const std::string& output : proto.output()) bytes += output.size() + 2;
  for (const AttributeProto& attribute : proto.attribute()) {
    bytes += attribute.name().size() + BytesOfValue(attribute);
  }
  return bytes + 2 * static_cast<size_t>(proto.unknown_fields().field_count());
}

Status CheckAttributeNames(const ::onnx::NodeProto& proto) {
  absl::flat_hash_set<std::string_view> names;
  for (const AttributeProto& attribute : proto.attribute()) {
    if (attribute.name().empty()) return InvalidArgument("attribute '': it has no name");
    if (!names.insert(attribute.name()).second) {
      return InvalidArgument("attribute '{}': it is given twice", attribute.name());
    }
  }
  return absl::OkStatus();
}

// The value that `bound` gives an attribute that refers to it.
Status CheckReference(const AttributeProto& proto, const AttributeProto& bound) {
  ASSIGN_OR_RETURN(const AttributeProto::AttributeType kind, AttributeKind(bound));
  if (proto.type() == AttributeProto::UNDEFINED || proto.type() == kind) return absl::OkStatus();
  return InvalidArgument("it refers to an attribute of type {} as {}",
                         AttributeProto::AttributeType_Name(kind),
                         AttributeProto::AttributeType_Name(proto.type()));
}

}  // namespace

std::string Describe(const ::onnx::NodeProto& proto) {
  const std::string op =
      proto.domain().empty() ? proto.op_type() : proto.domain() + "." + proto.op_type();
  if (!proto.name().empty()) return fmt::format("node '{}' ({})", proto.name(), op);
  if (proto.output_size() > 0) return fmt::format("node -> '{}' ({})", proto.output(0), op);
  return fmt::format("node ({})", op);
}

Status GraphImporter::CountNode(const Scope& scope, int work) {
  int64_t& count = scope.call != nullptr ? inlined_ : nodes_;
  const int limit = scope.call != nullptr ? kMaxInlinedNodes : kMaxNodes;
  count += work;
  if (count <= limit) return absl::OkStatus();
  return InvalidArgument("the model has more than {} nodes{}", limit,
                         scope.call != nullptr ? " in the functions it calls" : "");
}

Status GraphImporter::CountBytes(size_t bytes) {
  if (bytes > bytes_left_) {
    return InvalidArgument("functions multiply the model by more than {} bytes", kMaxInlinedBytes);
  }
  bytes_left_ -= bytes;
  return absl::OkStatus();
}

Status GraphImporter::DeclareOutputs(const ::onnx::NodeProto& proto, Scope& scope) {
  for (const std::string& output : proto.output()) {
    if (output.empty()) continue;
    StatusOr<ValueId> id = Declare(output, {}, scope);
    if (!id.ok()) return id.status();
  }
  return absl::OkStatus();
}

Status GraphImporter::AddNode(const ::onnx::NodeProto& proto, Scope& scope) {
  // Long lists of ports count, too: a call costs as much as its function has of them.
  RETURN_IF_ERROR(CountNode(scope, 1 + (proto.input_size() + proto.output_size()) / 16));
  RETURN_IF_ERROR(CountBytes(OwnBytes(proto)));
  if (proto.op_type().empty()) return InvalidArgument("it has no operator type");
  RETURN_IF_ERROR(CheckAttributeNames(proto));
  if (const Function* function = functions_.Find(proto)) {
    return InlineCall(*function, proto, scope);
  }
  if (const std::string overload = OverloadOf(proto); !overload.empty()) {
    return InvalidArgument("the model has no function '{}' with overload '{}'", proto.op_type(),
                           overload);
  }
  return AddOperator(proto, scope);
}

Status GraphImporter::AddOperator(const ::onnx::NodeProto& proto, Scope& scope) {
  graph::Node node;
  node.op_type = proto.op_type();
  node.domain = NormalDomain(proto.domain());
  node.name = proto.name();
  if (scope.call != nullptr) {
    if (!node.name.empty()) node.name = scope.call->name + "/" + node.name;
    node.origin = scope.call->name;
  }
  const Opsets& opsets = scope.call != nullptr ? scope.call->function->opsets : opsets_;
  const auto opset = opsets.find(node.domain);
  if (opset == opsets.end()) {
    misses_opset_ = true;
  } else {
    node.opset = opset->second;
  }
  for (const std::string& input : proto.input()) {
    ValueId id = kNoValue;
    if (!input.empty()) {
      ASSIGN_OR_RETURN(id, Resolve(input, scope));
    }
    node.inputs.push_back(id);
  }
  for (const std::string& output : proto.output()) {
    node.outputs.push_back(output.empty() ? kNoValue : scope.names.at(output));
  }
  Captures captures;
  for (const AttributeProto& attribute : proto.attribute()) {
    const Status status = AddAttribute(attribute, scope, node, captures);
    if (!status.ok()) return Annotate(status, fmt::format("attribute '{}'", attribute.name()));
  }
  for (const auto& [name, values] : captures) {
    node.inputs.insert(node.inputs.end(), values.begin(), values.end());
    node.captures += static_cast<int>(values.size());
  }
  scope.frame->graph.AddNode(std::move(node));
  return absl::OkStatus();
}

StatusOr<std::optional<Binding>> GraphImporter::Bind(const AttributeProto& proto,
                                                     const Scope& scope) {
  const std::string& name = proto.ref_attr_name();
  if (name.empty()) return Binding{&proto, &scope, scope.call};
  if (scope.call == nullptr) {
    return InvalidArgument("it refers to attribute '{}' of a function, but lies in none", name);
  }
  if (!scope.call->function->attributes.contains(name)) {
    return InvalidArgument("it refers to '{}', which is no attribute of its function", name);
  }
  if (HoldsValue(proto)) {
    return InvalidArgument("it refers to '{}' and holds a value of its own", name);
  }
  const auto bound = scope.call->attributes.find(name);
  if (bound == scope.call->attributes.end()) return std::optional<Binding>();
  RETURN_IF_ERROR(CheckReference(proto, *bound->second.attribute));
  return bound->second;
}

Status GraphImporter::AddAttribute(const AttributeProto& proto, const Scope& scope,
                                   graph::Node& node, Captures& captures) {
  ASSIGN_OR_RETURN(const std::optional<Binding> bound, Bind(proto, scope));
  if (!bound) return absl::OkStatus();
  const Binding& binding = *bound;
  if (binding.attribute != &proto) {
    RETURN_IF_ERROR(CountBytes(BytesOfValue(*binding.attribute)));
  }
  ASSIGN_OR_RETURN(const AttributeProto::AttributeType kind, AttributeKind(*binding.attribute));
  if (kind == AttributeProto::GRAPH || kind == AttributeProto::GRAPHS) {
    return AddBodies(proto.name(), binding, scope, node, captures[proto.name()]);
  }
  ASSIGN_OR_RETURN(graph::Attribute value,
                   DecodeAttribute(*binding.attribute, external_, constants_));
  node.attributes.emplace(proto.name(), std::move(value));
  return absl::OkStatus();
}

Status GraphImporter::AddBodies(const std::string& name, const Binding& binding, const Scope& scope,
                                graph::Node& node, std::vector<ValueId>& captured) {
  if (binding.attribute->has_g()) {
    ASSIGN_OR_RETURN(std::shared_ptr<const graph::Graph> body,
                     ImportBody(binding.attribute->g(), binding, scope, captured));
    node.attributes.emplace(name, std::move(body));
    return absl::OkStatus();
  }
  std::vector<std::shared_ptr<const graph::Graph>> bodies;
  for (const ::onnx::GraphProto& proto : binding.attribute->graphs()) {
    ASSIGN_OR_RETURN(std::shared_ptr<const graph::Graph> body,
                     ImportBody(proto, binding, scope, captured));
    bodies.push_back(std::move(body));
  }
  node.attributes.emplace(name, std::move(bodies));
  return absl::OkStatus();
}

StatusOr<std::shared_ptr<const graph::Graph>> GraphImporter::ImportBody(
    const ::onnx::GraphProto& proto, const Binding& binding, const Scope& scope,
    std::vector<ValueId>& captured) {
  if (scope.depth >= kMaxNesting) {
    return InvalidArgument("bodies and functions are nested more than {} deep", kMaxNesting);
  }
  // The body lies in the graph of this node, but its names are those of the place it was written
  // at.
  Frame frame(scope.frame);
  Scope inner;
  inner.frame = &frame;
  inner.parent = binding.scope;
  inner.call = binding.call;
  inner.depth = scope.depth + 1;
  RETURN_IF_ERROR(Annotate(ImportGraph(proto, inner), fmt::format("body '{}'", proto.name())));
  captured.insert(captured.end(), frame.captured.begin(), frame.captured.end());
  return std::make_shared<const graph::Graph>(std::move(frame.graph));
}

}  // namespace tandem::onnx_import
