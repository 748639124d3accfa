#include "server/transport/decode.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "server/models/quoted.h"
#include "server/transport/decode_tensor.h"
#include "server/transport/parameters.h"
#include "server/transport/wire_types.h"

namespace tandem::server {
namespace {

using inference::ModelInferRequest;
using InputTensor = ModelInferRequest::InferInputTensor;

std::string PortNames(const std::vector<Port>& ports) {
  constexpr size_t kShown = 8;
  std::string names;
  for (size_t i = 0; i < std::min(ports.size(), kShown); ++i) {
    names += (i == 0 ? "" : ", ") + Quoted(ports[i].name);
  }
  if (ports.size() > kShown) names += fmt::format(" and {} more", ports.size() - kShown);
  return names.empty() ? "none" : names;
}

Status CheckCaps(const ModelInferRequest& request) {
  if (request.id().size() > kMaxIdBytes) {
    return InvalidArgument("the request id has {} bytes; at most {} are allowed",
                           request.id().size(), kMaxIdBytes);
  }
  if (request.inputs_size() > kMaxTensors) {
    return InvalidArgument("{} inputs came; at most {} are allowed", request.inputs_size(),
                           kMaxTensors);
  }
  if (request.outputs_size() > kMaxTensors) {
    return InvalidArgument("{} outputs are requested; at most {} are allowed",
                           request.outputs_size(), kMaxTensors);
  }
  return absl::OkStatus();
}

// Raw contents are one entry per input, and then no input has typed contents.
Status CheckRawRule(const ModelInferRequest& request) {
  const int raw = request.raw_input_contents_size();
  if (raw == 0) return absl::OkStatus();
  if (raw != request.inputs_size()) {
    return InvalidArgument(
        "raw_input_contents has {} entries, but the request has {} inputs; one entry per input, in "
        "their order, was expected",
        raw, request.inputs_size());
  }
  for (const InputTensor& input : request.inputs()) {
    if (input.has_contents() && HasElements(input.contents())) {
      return InvalidArgument(
          "input {}: typed contents came beside raw_input_contents; one of them was expected",
          Quoted(input.name()));
    }
  }
  return absl::OkStatus();
}

std::string ExpectedText(const Port& port, const ServedModel& model) {
  if (!port.rank_known) return fmt::format("{} of any shape", WireName(port.dtype));
  graph::DimVector dims = port.dims;
  if (model.max_batch_size > 0 && !dims.empty()) dims[0] = graph::Dim();
  return fmt::format("{} {}", WireName(port.dtype), ShapeText(dims));
}

std::span<const int64_t> DimsOf(const InputTensor& input) {
  return {input.shape().data(), static_cast<size_t>(input.shape_size())};
}

// Rank and extents against the port's. The batch axis is left to the batcher, which counts items.
StatusOr<Shape> CheckShape(const InputTensor& input, const Port& port, const ServedModel& model) {
  const std::span<const int64_t> dims = DimsOf(input);
  const std::string expected = ExpectedText(port, model);
  if (port.rank_known && dims.size() != port.dims.size()) {
    return InvalidArgument("shape {} of rank {} came; {} of rank {} was expected", ShapeText(dims),
                           dims.size(), expected, port.dims.size());
  }
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] < 0) {
      return InvalidArgument("shape {} came, with extent {} on axis {}; {} was expected",
                             ShapeText(dims), dims[axis], axis, expected);
    }
    if (!port.rank_known || (axis == 0 && model.max_batch_size > 0)) continue;
    if (port.dims[axis].is_number() && port.dims[axis].number() != dims[axis]) {
      return InvalidArgument("shape {} came; {} was expected", ShapeText(dims), expected);
    }
  }
  if (!CheckedElements(dims)) {
    return InvalidArgument("shape {} came, with more elements than 2^63; {} was expected",
                           ShapeText(dims), expected);
  }
  return Shape(dims);
}

StatusOr<Tensor> DecodeInput(const std::shared_ptr<const ModelInferRequest>& request, int index,
                             const Port& port, const ServedModel& model) {
  const InputTensor& input = request->inputs(index);
  RETURN_IF_ERROR(CheckTensorParameters(input.parameters()));
  DeclaredTensor declared;
  declared.dtype = DTypeOfWireName(input.datatype());
  if (declared.dtype != port.dtype) {
    return InvalidArgument("datatype {} came; {} was expected", Quoted(input.datatype()),
                           WireName(port.dtype));
  }
  ASSIGN_OR_RETURN(declared.shape, CheckShape(input, port, model));
  if (request->raw_input_contents_size() > 0) {
    return DecodeRaw(declared, request->raw_input_contents(index), request);
  }
  if (declared.shape.elements() == 0 && !HasElements(input.contents())) {
    return Tensor::Allocate(declared.dtype, declared.shape);
  }
  return DecodeTyped(declared, input.contents());
}

StatusOr<std::vector<NamedTensor>> DecodeInputs(
    const std::shared_ptr<const ModelInferRequest>& request, const ServedModel& model) {
  const std::vector<Port>& ports = model.model->info().inputs;
  std::vector<bool> given(ports.size(), false);
  std::vector<NamedTensor> inputs;
  inputs.reserve(static_cast<size_t>(request->inputs_size()));
  for (int i = 0; i < request->inputs_size(); ++i) {
    const InputTensor& input = request->inputs(i);
    const std::string& name = input.name();
    const auto port = std::ranges::find(ports, name, &Port::name);
    if (port == ports.end()) {
      return InvalidArgument("input {} is unknown: {} of shape {} came; the model's inputs are {}",
                             Quoted(name), Quoted(input.datatype()), ShapeText(DimsOf(input)),
                             PortNames(ports));
    }
    const auto index = static_cast<size_t>(port - ports.begin());
    if (given[index])
      return InvalidArgument("input {} came twice; each input was expected once", Quoted(name));
    given[index] = true;
    StatusOr<Tensor> tensor = DecodeInput(request, i, *port, model);
    if (!tensor.ok()) {
      return Annotate(tensor.status(), fmt::format("input {}", Quoted(name)));
    }
    inputs.push_back({name, *std::move(tensor)});
  }
  for (size_t i = 0; i < ports.size(); ++i) {
    if (!given[i] && !ports[i].optional) {
      return InvalidArgument("input {} is missing; {} was expected", Quoted(ports[i].name),
                             ExpectedText(ports[i], model));
    }
  }
  return inputs;
}

StatusOr<std::vector<std::string>> DecodeOutputs(const ModelInferRequest& request,
                                                 const ModelInfo& info) {
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(request.outputs_size()));
  absl::flat_hash_set<std::string> seen;
  for (const auto& output : request.outputs()) {
    const std::string& name = output.name();
    if (std::ranges::find(info.outputs, name, &Port::name) == info.outputs.end()) {
      return InvalidArgument("output {} is unknown; the model's outputs are {}", Quoted(name),
                             PortNames(info.outputs));
    }
    if (!seen.insert(name).second) {
      return InvalidArgument("output {} is requested twice; each output was expected once",
                             Quoted(name));
    }
    const Status status = CheckTensorParameters(output.parameters());
    if (!status.ok()) return Annotate(status, fmt::format("output {}", Quoted(name)));
    names.push_back(name);
  }
  return names;
}

StatusOr<InferRequest> Decode(const std::shared_ptr<const ModelInferRequest>& request,
                              ServedModelRef model) {
  RETURN_IF_ERROR(CheckCaps(*request));
  ASSIGN_OR_RETURN(const RequestParameters parameters,
                   DecodeRequestParameters(request->parameters()));
  RETURN_IF_ERROR(CheckRawRule(*request));
  InferRequest decoded;
  ASSIGN_OR_RETURN(decoded.inputs, DecodeInputs(request, *model));
  ASSIGN_OR_RETURN(decoded.outputs, DecodeOutputs(*request, model->model->info()));
  decoded.queue_timeout = parameters.timeout;
  decoded.model = std::move(model);
  return decoded;
}

}  // namespace

StatusOr<InferRequest> DecodeInferRequest(std::shared_ptr<const ModelInferRequest> request,
                                          ServedModelRef model) {
  const std::string where = Where(*model);
  StatusOr<InferRequest> decoded = Decode(request, std::move(model));
  if (!decoded.ok()) return Annotate(decoded.status(), where);
  return decoded;
}

}  // namespace tandem::server
