// Expand (ai.onnx, opset 8): broadcasts the input together with a shape.
#include <algorithm>

#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class Expand final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader&) {
    return std::make_shared<const Expand>();
  }

  Status Infer(InferContext& context) const override {
    const ValueFacts& x = context.input(0);
    ASSIGN_OR_RETURN(const int count, RankFromVector(context, 1, "the shape (input 1)"));
    const std::optional<graph::DimVector> wanted = context.Content(1);
    if (!x.dims || !wanted) {
      const bool known = x.dims && count >= 0;
      context.SetOutput(
          0, x.dtype, known ? std::optional(UnknownDims(std::max(x.rank(), count))) : std::nullopt);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(graph::DimVector dims, Broadcast(*x.dims, *wanted));
    context.SetOutput(0, x.dtype, std::move(dims));
    return absl::OkStatus();
  }

  std::optional<StridedTensor> ViewOf(std::span<const graph::ConstantRef> inputs,
                                      const Shape& shape) const override {
    return inputs[0]->strided().BroadcastTo(shape);
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    return MakeMoveStep(
        context, "move.expand", [](StepContext& run, std::span<const MutableTensorView> outputs) {
          const TensorView& x = run.input(0);
          const Shape& shape = outputs[0].shape();
          const Dims strides = x.shape().Strides();
          Dims in_strides(static_cast<size_t>(shape.rank()), 0);
          const int shift = shape.rank() - x.shape().rank();
          for (int axis = 0; axis < x.shape().rank(); ++axis) {
            if (x.shape()[axis] == 1) continue;
            in_strides[static_cast<size_t>(axis + shift)] = strides[static_cast<size_t>(axis)];
          }
          CopyRegion({.axes = MakeAxes(shape.dims(), in_strides, shape.Strides())}, x, outputs[0],
                     run.parallel());
          return absl::OkStatus();
        });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return CostOfMove(shapes, dtype);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    if (query.axes[1]) return BatchAnswer::Decline("its shape carries the batch");
    if (!query.axes[0]) return BatchOfRepeated(query);
    const ValueFacts& in = *query.inputs[0];
    const ValueFacts& out = *query.outputs[0];
    if (!in.dims || !out.dims) return BatchAnswer::Decline("a rank is unknown");
    const int axis = *query.axes[0] + out.rank() - in.rank();
    const graph::Dim& extent = (*in.dims)[static_cast<size_t>(*query.axes[0])];
    if (extent.is_symbol() && (*out.dims)[static_cast<size_t>(axis)].SameAs(extent)) {
      return BatchAnswer::All(query, axis);
    }
    return BatchAnswer::Decline("the batch may be repeated");
  }

  bool ReadsShape(int port) const override { return port == 1; }

 private:
  static StatusOr<graph::DimVector> Broadcast(const graph::DimVector& x,
                                              const graph::DimVector& wanted) {
    const size_t rank = std::max(x.size(), wanted.size());
    graph::DimVector dims(rank);
    for (size_t axis = 0; axis < rank; ++axis) {
      const size_t from_end = rank - axis;
      const graph::Dim a = from_end > x.size() ? graph::Dim(1) : x[x.size() - from_end];
      const graph::Dim b =
          from_end > wanted.size() ? graph::Dim(1) : wanted[wanted.size() - from_end];
      if (b.is_number() && b.number() < 0) {
        return InvalidArgument("the shape (input 1) is {} where extents >= 0 are expected",
                               graph::ToString(wanted));
      }
      if (a.SameAs(1) || a.SameAs(b)) {
        dims[axis] = b;
      } else if (b.SameAs(1)) {
        dims[axis] = a;
      } else if (!MayEqual(a, b)) {
        return InvalidArgument("an input of shape {} does not broadcast to shape {}",
                               graph::ToString(x), graph::ToString(wanted));
      } else {
        // One of them is open and may be 1; a number beyond 1 decides.
        dims[axis] = a.is_number() ? a : (b.is_number() ? b : graph::Dim());
      }
    }
    return dims;
  }
};

}  // namespace

void RegisterExpand(OpRegistry& registry) {
  registry.Add({.op_type = "Expand",
                .versions = {8, 13},
                .min_inputs = 2,
                .max_inputs = 2,
                .parse = Expand::Parse,
                .doc = "Broadcasts the input together with a shape."});
}

}  // namespace tandem::ops
