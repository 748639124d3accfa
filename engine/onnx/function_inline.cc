#include <algorithm>

#include "engine/onnx/graph_import.h"
#include "engine/onnx/import.h"

namespace tandem::onnx_import {

using graph::kNoValue;
using graph::ValueId;

namespace {

Status CheckCall(const Function& function, const ::onnx::NodeProto& proto, const Scope& scope) {
  const ::onnx::FunctionProto& callee = *function.proto;
  for (const Call* call = scope.call; call != nullptr; call = call->caller) {
    if (call->function == &function) {
      return InvalidArgument("function '{}' calls itself", Describe(function));
    }
  }
  if (scope.depth >= kMaxNesting) {
    return InvalidArgument("bodies and functions are nested more than {} deep", kMaxNesting);
  }
  if (proto.input_size() > callee.input_size() || proto.output_size() > callee.output_size()) {
    return InvalidArgument("it has {} inputs and {} outputs where function '{}' has {} and {}",
                           proto.input_size(), proto.output_size(), Describe(function),
                           callee.input_size(), callee.output_size());
  }
  return absl::OkStatus();
}

std::string CallName(const ::onnx::NodeProto& proto, const Scope& scope) {
  std::string name = proto.name();
  if (name.empty() && proto.output_size() > 0) name = proto.output(0);
  if (name.empty()) name = proto.op_type();
  return scope.call != nullptr ? scope.call->name + "/" + name : name;
}

}  // namespace

Status GraphImporter::InlineCall(const Function& function, const ::onnx::NodeProto& proto,
                                 Scope& scope) {
  RETURN_IF_ERROR(CheckCall(function, proto, scope));
  Call call;
  call.function = &function;
  call.caller = scope.call;
  call.name = CallName(proto, scope);
  Scope inner;
  inner.frame = scope.frame;
  inner.call = &call;
  inner.depth = scope.depth + 1;
  RETURN_IF_ERROR(
      CountNode(inner, 1 + (function.proto->input_size() + function.proto->output_size() +
                            function.proto->attribute_size()) /
                               16));
  RETURN_IF_ERROR(BindAttributes(proto, scope, call));
  RETURN_IF_ERROR(BindPorts(proto, scope, inner));
  for (const ::onnx::NodeProto& node : function.proto->node()) {
    RETURN_IF_ERROR(Annotate(AddNode(node, inner),
                             fmt::format("function '{}': {}", Describe(function), Describe(node))));
  }
  return CheckProduced(inner);
}

Status GraphImporter::BindAttributes(const ::onnx::NodeProto& proto, const Scope& scope,
                                     Call& call) {
  for (const ::onnx::AttributeProto& attribute : proto.attribute()) {
    if (!call.function->HasAttribute(attribute.name())) {
      return InvalidArgument("function '{}' has no attribute '{}'", Describe(*call.function),
                             attribute.name());
    }
    Binding binding{&attribute, &scope};
    if (!attribute.ref_attr_name().empty()) {
      if (scope.call == nullptr) {
        return InvalidArgument(
            "attribute '{}' refers to attribute '{}' of a function, but lies in "
            "none",
            attribute.name(), attribute.ref_attr_name());
      }
      const auto bound = scope.call->attributes.find(attribute.ref_attr_name());
      if (bound == scope.call->attributes.end()) continue;
      binding = bound->second;
    }
    if (!call.attributes.emplace(attribute.name(), binding).second) {
      return InvalidArgument("attribute '{}' is given twice", attribute.name());
    }
  }
  for (const ::onnx::AttributeProto& attribute : call.function->defaults) {
    call.attributes.emplace(attribute.name(), Binding{&attribute, nullptr});
  }
  return absl::OkStatus();
}

Status GraphImporter::BindPorts(const ::onnx::NodeProto& proto, const Scope& scope, Scope& inner) {
  const ::onnx::FunctionProto& callee = *inner.call->function->proto;
  for (int i = 0; i < callee.input_size(); ++i) {
    ValueId id = kNoValue;
    if (i < proto.input_size() && !proto.input(i).empty()) {
      ASSIGN_OR_RETURN(id, Resolve(proto.input(i), scope));
    }
    inner.names.emplace(callee.input(i), id);
  }
  // Values of the caller that a node of the function will define.
  absl::flat_hash_map<std::string, ValueId> results;
  for (int i = 0; i < callee.output_size(); ++i) {
    if (i >= proto.output_size() || proto.output(i).empty()) continue;
    const ValueId result = scope.names.at(proto.output(i));
    const auto input = inner.names.find(callee.output(i));
    if (input == inner.names.end()) {
      results.emplace(callee.output(i), result);
      continue;
    }
    if (input->second == kNoValue) {
      return InvalidArgument("output '{}' of the function is an input that the call omits",
                             callee.output(i));
    }
    graph::Node identity;
    identity.op_type = "Identity";
    const Opsets& opsets = inner.call->function->opsets;
    const auto opset = opsets.find("");
    identity.opset = opset == opsets.end() ? 1 : opset->second;
    identity.origin = inner.call->name;
    identity.inputs = {input->second};
    identity.outputs = {result};
    inner.frame->graph.AddNode(std::move(identity));
  }
  for (const ::onnx::NodeProto& node : callee.node()) {
    for (const std::string& output : node.output()) {
      const auto result = results.find(output);
      if (output.empty()) continue;
      if (result == results.end()) {
        StatusOr<ValueId> id = Declare(output, {}, inner);
        if (!id.ok()) return id.status();
      } else if (!inner.names.emplace(output, result->second).second) {
        return InvalidArgument("'{}' is defined twice", output);
      }
    }
  }
  return absl::OkStatus();
}

Status GraphImporter::CheckProduced(const Scope& inner) {
  for (const std::string& output : inner.call->function->proto->output()) {
    if (inner.names.contains(output)) continue;
    return InvalidArgument("output '{}' of function '{}' is not produced by any node", output,
                           Describe(*inner.call->function));
  }
  return absl::OkStatus();
}

}  // namespace tandem::onnx_import
