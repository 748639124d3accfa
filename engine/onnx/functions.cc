#include "engine/onnx/functions.h"

#include <algorithm>
#include <limits>

#include "engine/base/reasons.h"
#include "engine/graph/opset.h"
#include "engine/onnx/import.h"
#include "engine/onnx/unknown_fields.h"

namespace tandem::onnx_import {
namespace {

Status CheckDistinct(const google::protobuf::RepeatedPtrField<std::string>& names,
                     std::string_view what) {
  absl::flat_hash_set<std::string_view> seen;
  for (const std::string& name : names) {
    if (name.empty()) return InvalidArgument("an {} has no name", what);
    if (!seen.insert(name).second) return InvalidArgument("{} '{}' is listed twice", what, name);
  }
  return absl::OkStatus();
}

std::string LabelOf(const ::onnx::FunctionProto& proto) {
  const std::string text = proto.domain() + (proto.domain().empty() ? "" : ".") + proto.name();
  const std::string overload = OverloadOf(proto);
  return overload.empty() ? text : text + ":" + overload;
}

StatusOr<Function> MakeFunction(const ::onnx::FunctionProto& proto, Opsets opsets,
                                const Opsets& model_opsets) {
  Function function;
  function.proto = &proto;
  function.label = LabelOf(proto);
  function.opsets = std::move(opsets);
  function.opsets.insert(model_opsets.begin(), model_opsets.end());
  RETURN_IF_ERROR(CheckDistinct(proto.input(), "input"));
  RETURN_IF_ERROR(CheckDistinct(proto.output(), "output"));
  RETURN_IF_ERROR(CheckDistinct(proto.attribute(), "attribute"));
  ASSIGN_OR_RETURN(function.defaults, DefaultAttributes(proto));
  function.attributes.insert(proto.attribute().begin(), proto.attribute().end());
  for (const ::onnx::AttributeProto& attribute : function.defaults) {
    if (attribute.name().empty()) return InvalidArgument("an attribute has no name");
    if (!function.attributes.insert(attribute.name()).second) {
      return InvalidArgument("attribute '{}' is listed twice", attribute.name());
    }
    if (!attribute.ref_attr_name().empty()) {
      return InvalidArgument("the default of attribute '{}' refers to an attribute",
                             attribute.name());
    }
  }
  return function;
}

}  // namespace

std::string NormalDomain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string() : std::string(domain);
}

DecodedOpsets DecodeOpsets(
    const google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto>& imports) {
  DecodedOpsets decoded;
  for (const ::onnx::OperatorSetIdProto& import : imports) {
    const std::string domain = NormalDomain(import.domain());
    const int64_t newest = domain.empty() ? graph::kNewestOpset : std::numeric_limits<int>::max();
    const auto version = static_cast<int>(std::clamp<int64_t>(import.version(), 1, newest));
    if (version != import.version()) {
      const Status unknown =
          InvalidArgument("opset {} of domain '{}' is imported; versions 1 to {} are known",
                          import.version(), import.domain(), newest);
      decoded.status = AllReasons({decoded.status, unknown});
    }
    const auto [known, added] = decoded.opsets.emplace(domain, version);
    if (!added && known->second != version) {
      const Status twice = InvalidArgument("domain '{}' is imported in versions {} and {}",
                                           import.domain(), known->second, version);
      decoded.status = AllReasons({decoded.status, twice});
    }
  }
  return decoded;
}

StatusOr<FunctionTable> FunctionTable::Make(const ::onnx::ModelProto& model, const Opsets& opsets) {
  FunctionTable table;
  for (const ::onnx::FunctionProto& proto : model.functions()) {
    if (proto.name().empty()) return InvalidArgument("a function has no name");
    const std::string where = fmt::format("function '{}'", proto.name());
    DecodedOpsets own = DecodeOpsets(proto.opset_import());
    table.opsets_status_ = AllReasons({table.opsets_status_, Annotate(own.status, where)});
    StatusOr<Function> function = MakeFunction(proto, std::move(own.opsets), opsets);
    if (!function.ok()) return Annotate(function.status(), where);
    auto key = std::make_tuple(NormalDomain(proto.domain()), proto.name(), OverloadOf(proto));
    if (!table.functions_.emplace(std::move(key), *std::move(function)).second) {
      return InvalidArgument("function '{}' is defined twice", proto.name());
    }
  }
  return table;
}

const Function* FunctionTable::Find(const ::onnx::NodeProto& node) const {
  if (functions_.empty()) return nullptr;
  const auto found =
      functions_.find({NormalDomain(node.domain()), node.op_type(), OverloadOf(node)});
  return found == functions_.end() ? nullptr : &found->second;
}

}  // namespace tandem::onnx_import
