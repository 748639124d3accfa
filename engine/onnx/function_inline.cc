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
      return InvalidArgument("function '{}' calls itself", function.label);
    }
  }
  if (scope.depth >= kMaxNesting) {
    return InvalidArgument("bodies and functions are nested more than {} deep", kMaxNesting);
  }
  if (proto.input_size() > callee.input_size() || proto.output_size() > callee.output_size()) {
    return InvalidArgument("it has {} inputs and {} outputs where function '{}' has {} and {}",
                           proto.input_size(), proto.output_size(), function.label,
                           callee.input_size(), callee.output_size());
  }
  return absl::OkStatus();
}

// All values of a call carry its name, so it is cut where it grows long.
std::string CallName(const ::onnx::NodeProto& proto, const Scope& scope) {
  constexpr size_t kMaxCallName = 200;
  std::string name = proto.name();
  if (name.empty() && proto.output_size() > 0) name = proto.output(0);
  if (name.empty()) name = proto.op_type();
  if (scope.call != nullptr) name = scope.call->name + "/" + name;
  return name.substr(0, kMaxCallName);
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
  const auto attributes = static_cast<int>(function.attributes.size());
  const int lists = function.proto->input_size() + function.proto->output_size() + attributes;
  RETURN_IF_ERROR(CountNode(inner, 1 + lists / 16));
  RETURN_IF_ERROR(BindAttributes(proto, scope, call));
  RETURN_IF_ERROR(BindPorts(proto, scope, inner));
  for (const ::onnx::NodeProto& node : function.proto->node()) {
    const Status status = AddNode(node, inner);
    if (!status.ok()) {
      return Annotate(status, fmt::format("function '{}': {}", function.label, Describe(node)));
    }
  }
  return CheckProduced(inner);
}

Status GraphImporter::BindAttributes(const ::onnx::NodeProto& proto, const Scope& scope,
                                     Call& call) {
  for (const ::onnx::AttributeProto& attribute : proto.attribute()) {
    if (!call.function->attributes.contains(attribute.name())) {
      return InvalidArgument("function '{}' has no attribute '{}'", call.function->label,
                             attribute.name());
    }
    const StatusOr<std::optional<Binding>> bound = Bind(attribute, scope);
    if (!bound.ok()) {
      return Annotate(bound.status(), fmt::format("attribute '{}'", attribute.name()));
    }
    if (*bound) call.attributes.emplace(attribute.name(), **bound);
  }
  for (const ::onnx::AttributeProto& attribute : call.function->defaults) {
    call.attributes.emplace(attribute.name(), Binding{&attribute, nullptr, &call});
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
                           inner.call->function->label);
  }
  return absl::OkStatus();
}

}  // namespace tandem::onnx_import
