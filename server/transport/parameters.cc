#include "server/transport/parameters.h"

#include <charconv>
#include <cstdint>
#include <string_view>

#include "server/models/quoted.h"
#include "server/transport/decode.h"
#include "server/transport/wire_types.h"

namespace tandem::server {
namespace {

using inference::InferParameter;

constexpr std::string_view kReservedPrefix = "triton_";

std::string_view KindOf(const InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case InferParameter::kBoolParam:
      return "a bool";
    case InferParameter::kInt64Param:
      return "an int64";
    case InferParameter::kStringParam:
      return "a string";
    case InferParameter::kDoubleParam:
      return "a double";
    case InferParameter::kUint64Param:
      return "a uint64";
    case InferParameter::PARAMETER_CHOICE_NOT_SET:
      break;
  }
  return "nothing";
}

StatusOr<int64_t> Decimal(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return InvalidArgument("{} came; a whole number from 0 to 2^63-1 was expected", Quoted(text));
  }
  return value;
}

// A whole number from 0 to int64's largest.
StatusOr<int64_t> WholeNumber(const InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case InferParameter::kInt64Param:
      if (parameter.int64_param() >= 0) return parameter.int64_param();
      return InvalidArgument("{} came; a whole number from 0 was expected",
                             parameter.int64_param());
    case InferParameter::kUint64Param:
      if (parameter.uint64_param() <= INT64_MAX) {
        return static_cast<int64_t>(parameter.uint64_param());
      }
      return InvalidArgument("{} came; at most 2^63-1 was expected", parameter.uint64_param());
    case InferParameter::kStringParam:
      return Decimal(parameter.string_param());
    default:
      return InvalidArgument("{} came; a whole number was expected", KindOf(parameter));
  }
}

// True for a number that is not 0, a string that is not empty, a flag that is set.
bool IsSet(const InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case InferParameter::kBoolParam:
      return parameter.bool_param();
    case InferParameter::kInt64Param:
      return parameter.int64_param() != 0;
    case InferParameter::kUint64Param:
      return parameter.uint64_param() != 0;
    case InferParameter::kStringParam:
      return !parameter.string_param().empty();
    default:
      return false;
  }
}

Status CheckCount(const WireParameters& parameters) {
  if (parameters.size() <= static_cast<size_t>(kMaxParameters)) return absl::OkStatus();
  return InvalidArgument("{} parameters came; at most {} are allowed", parameters.size(),
                         kMaxParameters);
}

Status CheckReserved(const std::string& name, const InferParameter& parameter) {
  if (name != "triton_enable_empty_final_response") {
    return InvalidArgument("unknown; names that begin with '{}' are reserved", kReservedPrefix);
  }
  if (parameter.parameter_choice_case() == InferParameter::kBoolParam) return absl::OkStatus();
  return InvalidArgument("{} came; a bool was expected", KindOf(parameter));
}

Status DecodeOne(const std::string& name, const InferParameter& parameter,
                 RequestParameters& decoded) {
  if (name == "timeout" || name == "priority") {
    ASSIGN_OR_RETURN(const int64_t number, WholeNumber(parameter));
    if (name == "timeout" && number != 0) decoded.timeout = std::chrono::microseconds(number);
  } else if (name == "sequence_id" || name == "sequence_start" || name == "sequence_end") {
    if (IsSet(parameter)) {
      return InvalidArgument("the model keeps no state between requests");
    }
  } else if (name.starts_with(kReservedPrefix)) {
    return CheckReserved(name, parameter);
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<RequestParameters> DecodeRequestParameters(const WireParameters& parameters) {
  RETURN_IF_ERROR(CheckCount(parameters));
  RequestParameters decoded;
  for (const auto& entry : parameters) {
    const Status status = DecodeOne(entry.first, entry.second, decoded);
    if (!status.ok()) return Annotate(status, fmt::format("parameter {}", Quoted(entry.first)));
  }
  return decoded;
}

Status CheckTensorParameters(const WireParameters& parameters) {
  RETURN_IF_ERROR(CheckCount(parameters));
  for (const auto& entry : parameters) {
    const std::string& name = entry.first;
    if (name.starts_with("shared_memory_")) {
      return Unimplemented("parameter {}: this server offers no shared memory", Quoted(name));
    }
    if (name == "classification" && IsSet(entry.second)) {
      return Unimplemented("parameter 'classification': this server does not classify");
    }
  }
  return absl::OkStatus();
}

}  // namespace tandem::server
