#include "engine/ops/broadcast.h"

#include <algorithm>

namespace tandem::ops {
namespace {

bool IsOne(const graph::Dim& dim) { return dim.is_number() && dim.number() == 1; }

// What `a` and `b` broadcast to; nothing when they contradict each other.
std::optional<graph::Dim> BroadcastDim(const graph::Dim& a, const graph::Dim& b) {
  if (IsOne(a)) return b;
  if (IsOne(b) || a.SameAs(b)) return a;
  if (a.IsClipped(b)) return b;
  if (b.IsClipped(a)) return a;
  if (a.is_number() && b.is_number()) return std::nullopt;
  if (a.is_number()) return a;
  if (b.is_number()) return b;
  return graph::Dim();
}

// Where the axes of a shape lie in memory: the axis at each place, outermost first.
absl::InlinedVector<int, 6> AxesInMemory(int rank, Layout layout) {
  absl::InlinedVector<int, 6> axes;
  for (int axis = 0; axis < rank; ++axis) {
    if (layout == Layout::kChannelsLast && axis == 1) continue;
    axes.push_back(axis);
  }
  if (layout == Layout::kChannelsLast) axes.push_back(1);
  return axes;
}

}  // namespace

StatusOr<std::optional<graph::DimVector>> BroadcastDims(
    std::span<const graph::DimVector* const> operands) {
  size_t rank = 0;
  for (const graph::DimVector* operand : operands) {
    if (operand == nullptr) return std::nullopt;
    rank = std::max(rank, operand->size());
  }
  graph::DimVector result(rank, graph::Dim(1));
  for (const graph::DimVector* operand : operands) {
    const size_t missing = rank - operand->size();
    const graph::DimVector so_far = result;
    for (size_t axis = 0; axis < operand->size(); ++axis) {
      const std::optional<graph::Dim> dim = BroadcastDim(result[missing + axis], (*operand)[axis]);
      if (!dim) {
        return InvalidArgument("shapes {} and {} do not broadcast to each other",
                               graph::ToString(so_far), graph::ToString(*operand));
      }
      result[missing + axis] = *dim;
    }
  }
  return std::optional<graph::DimVector>(std::move(result));
}

StatusOr<std::optional<graph::DimVector>> BroadcastInputs(const InferContext& context) {
  std::vector<const graph::DimVector*> operands;
  for (int port = 0; port < context.inputs(); ++port) {
    if (context.has_input(port)) operands.push_back(context.dims(port));
  }
  return BroadcastDims(operands);
}

BatchAnswer BroadcastBatch(const BatchQuery& query) {
  size_t rank = 0;
  for (const ValueFacts* input : query.inputs) {
    if (input == nullptr) continue;
    if (!input->dims) return BatchAnswer::Decline("the rank of an operand is unknown");
    rank = std::max(rank, input->dims->size());
  }
  std::optional<size_t> batch;
  for (size_t port = 0; port < query.inputs.size(); ++port) {
    if (query.inputs[port] == nullptr || !query.axes[port]) continue;
    const size_t axis =
        static_cast<size_t>(*query.axes[port]) + rank - query.inputs[port]->dims->size();
    if (batch && *batch != axis) {
      return BatchAnswer::Decline(
          fmt::format("operands carry the batch on axes {} and {} of the result", *batch, axis));
    }
    batch = axis;
  }
  for (size_t port = 0; port < query.inputs.size() && batch; ++port) {
    if (query.inputs[port] == nullptr || query.axes[port]) continue;
    const graph::DimVector& dims = *query.inputs[port]->dims;
    const size_t missing = rank - dims.size();
    if (*batch < missing || IsOne(dims[*batch - missing])) continue;
    return BatchAnswer::Decline(
        fmt::format("operand {} is shared by all items but has extent {} on the batch axis", port,
                    graph::ToString(dims[*batch - missing])));
  }
  return BatchAnswer::All(query,
                          batch ? std::optional<int>(static_cast<int>(*batch)) : std::nullopt);
}

kernels::BroadcastOperand OperandOf(const TensorView& view, const MutableTensorView& output) {
  const int rank = output.shape().rank();
  const int missing = rank - view.shape().rank();
  Dims strides(static_cast<size_t>(rank), 0);
  int64_t stride = 1;
  const auto own = AxesInMemory(view.shape().rank(), view.layout());
  for (auto axis = own.rbegin(); axis != own.rend(); ++axis) {
    const int64_t extent = view.shape()[*axis];
    if (extent != 1) strides[static_cast<size_t>(*axis + missing)] = stride;
    stride *= extent;
  }
  const size_t bytes =
      view.dtype() == DType::kString ? sizeof(std::string) : DTypeBits(view.dtype()) / 8;
  kernels::BroadcastOperand operand{view.raw(), bytes, {}};
  for (const int axis : AxesInMemory(rank, output.layout())) {
    operand.strides.push_back(strides[static_cast<size_t>(axis)]);
  }
  return operand;
}

}  // namespace tandem::ops
