#include "engine/ops/body.h"

#include "engine/ops/movement.h"

namespace tandem::ops {

Status StepContext::HandOver(int port, const Tensor& tensor) {
  ASSIGN_OR_RETURN(const MutableTensorView output, AllocateOutput(port, tensor.shape()));
  CopyRegion({.axes = {{tensor.elements(), 1, 1}}}, tensor.view(), output, parallel());
  return absl::OkStatus();
}

StatusOr<std::vector<Tensor>> StepContext::RunBody(int index, std::span<const TensorView>,
                                                   std::vector<Tensor>) {
  return Internal("there is no body {} to run", index);
}

int FormalInputs(const graph::Graph& body) {
  return static_cast<int>(body.inputs().size()) - body.captures();
}

int OwnInputs(const graph::Node& node) {
  return static_cast<int>(node.inputs.size()) - node.captures;
}

std::vector<ValueFacts> WithCaptures(const InferContext& context, int index,
                                     std::vector<ValueFacts> formal) {
  const std::vector<graph::Body> bodies = graph::BodiesOf(context.node());
  int port = OwnInputs(context.node());
  for (int i = 0; i < index; ++i) port += bodies[static_cast<size_t>(i)].graph->captures();
  const int end = port + bodies[static_cast<size_t>(index)].graph->captures();
  for (; port < end; ++port) {
    formal.push_back(context.has_input(port) ? context.input(port) : ValueFacts());
  }
  return formal;
}

ValueFacts TypeFacts(const ValueFacts& facts) {
  ValueFacts type;
  type.dtype = facts.dtype;
  type.dims = facts.dims;
  return type;
}

std::optional<graph::DimVector> CommonDims(const std::optional<graph::DimVector>& a,
                                           const std::optional<graph::DimVector>& b) {
  if (!a || !b || a->size() != b->size()) return std::nullopt;
  graph::DimVector common = *a;
  for (size_t axis = 0; axis < common.size(); ++axis) {
    if (!common[axis].SameAs((*b)[axis])) common[axis] = graph::Dim();
  }
  return common;
}

bool SameDims(const std::optional<graph::DimVector>& a, const std::optional<graph::DimVector>& b) {
  if (!a || !b) return !a && !b;
  if (a->size() != b->size()) return false;
  for (size_t axis = 0; axis < a->size(); ++axis) {
    const bool both_open = (*a)[axis].is_unknown() && (*b)[axis].is_unknown();
    if (!both_open && !(*a)[axis].SameAs((*b)[axis])) return false;
  }
  return true;
}

Status CheckFormal(const graph::Graph& body, int input, DType dtype) {
  const graph::Value& value = body.value(body.inputs()[static_cast<size_t>(input)]);
  if (value.type.dtype == DType::kUndefined || value.type.dtype == dtype) return absl::OkStatus();
  return InvalidArgument("body: input '{}' is declared as {} but is {}", value.name,
                         DTypeName(value.type.dtype), DTypeName(dtype));
}

Status CheckScalar(const InferContext& context, int port, DType dtype, std::string_view what) {
  const ValueFacts& facts = context.input(port);
  if (facts.dtype != dtype) {
    return InvalidArgument("{} is of type {} where {} is expected", what, DTypeName(facts.dtype),
                           DTypeName(dtype));
  }
  const graph::Dim elements =
      facts.dims ? graph::Product(*facts.dims, 0, facts.rank()) : graph::Dim();
  if (!elements.is_number() || elements.number() == 1) return absl::OkStatus();
  return InvalidArgument("{} has shape {} where one element is expected", what,
                         graph::ToString(*facts.dims));
}

std::vector<Tensor> OutputMemory(const StepContext& context, int first, int count) {
  std::vector<Tensor> memory;
  for (int port = first; port < first + count; ++port) {
    const MutableTensorView& output = context.output(port);
    memory.push_back(output.dtype() == DType::kUndefined
                         ? Tensor()
                         : Tensor::Share(nullptr, output.dtype(), output.shape(), output.raw()));
  }
  return memory;
}

Status Emit(StepContext& context, int port, const Tensor& result) {
  const MutableTensorView& output = context.output(port);
  if (output.dtype() == DType::kUndefined) return context.HandOver(port, result);
  if (output.raw() == result.view().raw()) return absl::OkStatus();
  if (output.shape() != result.shape()) {
    return InvalidArgument("output {} has shape {} where {} was inferred", port,
                           ToString(result.shape()), ToString(output.shape()));
  }
  CopyRegion({.axes = {{output.elements(), 1, 1}}}, result.view(), output, context.parallel());
  return absl::OkStatus();
}

}  // namespace tandem::ops
