// Tile (ai.onnx, opset 6): repeats the input along its axes.
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class Tile final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader&) {
    return std::make_shared<const Tile>();
  }

  Status Infer(InferContext& context) const override {
    const ValueFacts& x = context.input(0);
    ASSIGN_OR_RETURN(const int count, RankFromVector(context, 1, "repeats (input 1)"));
    const std::optional<graph::DimVector> repeats = context.Content(1);
    if (x.dims && count >= 0 && count != x.rank()) {
      return InvalidArgument("repeats has {} elements where input 0 is {}", count, ToString(x));
    }
    if (!x.dims || !repeats) {
      const int rank = x.dims ? x.rank() : count;
      context.SetOutput(0, x.dtype, rank < 0 ? std::nullopt : std::optional(UnknownDims(rank)));
      return absl::OkStatus();
    }
    graph::DimVector dims = *x.dims;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const graph::Dim& repeat = (*repeats)[axis];
      if (repeat.is_number() && repeat.number() < 0) {
        return InvalidArgument("repeats is {} where values >= 0 are expected",
                               graph::ToString(*repeats));
      }
      const graph::Dim extent = dims[axis] * repeat;
      if (extent.is_unknown() && dims[axis].is_number() && repeat.is_number()) {
        return ResourceExhausted("extent {} repeated {} times passes the size that can be counted",
                                 graph::ToString(dims[axis]), graph::ToString(repeat));
      }
      dims[axis] = extent;
    }
    context.SetOutput(0, x.dtype, std::move(dims));
    return absl::OkStatus();
  }

  // A broadcast, where only axes of one element are repeated.
  std::optional<StridedTensor> ViewOf(std::span<const graph::ConstantRef> inputs,
                                      const Shape& shape) const override {
    const Shape& own = inputs[0]->shape();
    for (int axis = 0; axis < own.rank(); ++axis) {
      if (own[axis] != 1 && own[axis] != shape[axis]) return std::nullopt;
    }
    return inputs[0]->strided().BroadcastTo(shape);
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    return MakeMoveStep(
        context, "move.tile", [](StepContext& run, std::span<const MutableTensorView> outputs) {
          const TensorView& x = run.input(0);
          const Dims in_strides = x.shape().Strides();
          const Dims out_strides = outputs[0].shape().Strides();
          Region region;
          for (int axis = 0; axis < x.shape().rank(); ++axis) {
            const auto k = static_cast<size_t>(axis);
            const int64_t extent = x.shape()[axis];
            if (extent == 0) return absl::OkStatus();
            region.axes.push_back({outputs[0].shape()[axis] / extent, 0, extent * out_strides[k]});
            region.axes.push_back({extent, in_strides[k], out_strides[k]});
          }
          CopyRegion(region, x, outputs[0], run.parallel());
          return absl::OkStatus();
        });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return CostOfMove(shapes, dtype);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    if (!query.axes[0]) return BatchAnswer::Decline("its repeats carry the batch");
    const std::optional<graph::DimVector>& repeats = query.inputs[1]->content;
    const auto batch = static_cast<size_t>(*query.axes[0]);
    if (repeats && batch < repeats->size() && (*repeats)[batch].SameAs(1)) {
      return BatchAnswer::All(query, query.axes[0]);
    }
    return BatchAnswer::Decline("it repeats the batch");
  }
};

}  // namespace

void RegisterTile(OpRegistry& registry) {
  registry.Add({.op_type = "Tile",
                .versions = {6, 13},
                .min_inputs = 2,
                .max_inputs = 2,
                .parse = Tile::Parse,
                .doc = "Repeats the input along its axes."});
}

}  // namespace tandem::ops
