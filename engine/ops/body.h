// Bodies of control flow: what If, Loop and Scan share while they infer and while they run.
//
// The inputs of a body are its formal inputs, then the values it captures. An operator deals with
// the formal ones; captures are those of the node (graph::Node::captures) and are added here.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/ops/operator.h"

namespace tandem::ops {

// Formal inputs of a body.
int FormalInputs(const graph::Graph& body);

// Inputs of the node that are not captures.
int OwnInputs(const graph::Node& node);

// The formal facts with those of what body `index` of the node captures.
std::vector<ValueFacts> WithCaptures(const InferContext& context, int index,
                                     std::vector<ValueFacts> formal);

// Facts of the outputs of `body`, for facts of all its inputs. Its nodes must be resolved. What the
// file declares of values inside is not looked at: it may hold for other inputs only. The error
// names the node.
StatusOr<std::vector<ValueFacts>> InferBody(const graph::Graph& body,
                                            std::vector<ValueFacts> inputs);

// Declares the inputs of `body` as what the facts say.
void SetInputTypes(graph::Graph& body, const std::vector<ValueFacts>& inputs);

// dtype and extents alone.
ValueFacts TypeFacts(const ValueFacts& facts);

// Extents that hold for both: an axis where they differ is unknown, and so is a rank.
std::optional<graph::DimVector> CommonDims(const std::optional<graph::DimVector>& a,
                                           const std::optional<graph::DimVector>& b);
// Known to the same degree, and the same where they are known.
bool SameDims(const std::optional<graph::DimVector>& a, const std::optional<graph::DimVector>& b);

// InvalidArgument when `body` declares its formal input with another dtype.
Status CheckFormal(const graph::Graph& body, int input, DType dtype);

// InvalidArgument when the tensor has not exactly one element of `dtype`; `what` names it.
Status CheckScalar(const InferContext& context, int port, DType dtype, std::string_view what);

// The only element; InvalidArgument when there is not exactly one.
template <typename T>
StatusOr<T> OneElement(const TensorView& view, std::string_view what) {
  if (view.elements() == 1) return *view.data<T>();
  return InvalidArgument("{} has shape {} where one element is expected", what,
                         ToString(view.shape()));
}

// Memory for the results of a body that become outputs [first, first + count) of the step, as far
// as these have their place already.
std::vector<Tensor> OutputMemory(const StepContext& context, int first, int count);

// Makes `result` output `port`: nothing to do where it was written into OutputMemory.
Status Emit(StepContext& context, int port, const Tensor& result);

}  // namespace tandem::ops
