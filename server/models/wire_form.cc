#include "server/models/wire_form.h"

#include <string_view>
#include <vector>

namespace tandem::server {
namespace {

bool HasWireForm(DType dtype) {
  return IsFloating(dtype) || IsInteger(dtype) || dtype == DType::kBool || dtype == DType::kString;
}

Status CheckPorts(const std::vector<Port>& ports, std::string_view kind) {
  for (const Port& port : ports) {
    if (!HasWireForm(port.dtype)) {
      return Unimplemented("{} '{}' is of type {}, which has no form on the wire", kind, port.name,
                           DTypeName(port.dtype));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Status CheckWireForm(const ModelInfo& info) {
  RETURN_IF_ERROR(CheckPorts(info.inputs, "input"));
  return CheckPorts(info.outputs, "output");
}

}  // namespace tandem::server
