// ScatterElements (ai.onnx, opset 11; reductions add and mul since 16, max and min since 18) and
// Scatter (opset 9, its former name): a copy of data in which the element at the place of each
// index, with the index in place of the coordinate along the axis, is updated. Updates are applied
// in their order: without a reduction the last one stays.
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/scatter.h"

namespace tandem::ops {
namespace {

class ScatterElements final : public Operator {
 public:
  ScatterElements(int64_t axis, Reduction reduction) : axis_(axis), reduction_(reduction) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    const int64_t axis = reader.Int("axis", 0);
    return std::make_shared<const ScatterElements>(axis, ReadReduction(reader));
  }

  static std::shared_ptr<const Operator> ParseScatter(NodeReader& reader) {
    if (reader.opset() >= 11) {
      reader.Fail(
          Unimplemented("opset {} has ScatterElements in place of Scatter", reader.opset()));
    }
    return std::make_shared<const ScatterElements>(reader.Int("axis", 0), Reduction::kNone);
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(CheckElementIndices(context, axis_));
    const ValueFacts& data = context.input(0);
    const ValueFacts& indices = context.input(1);
    const ValueFacts& updates = context.input(2);
    if (updates.dtype != data.dtype) {
      return InvalidArgument("updates are {} where data is {}", DTypeName(updates.dtype),
                             DTypeName(data.dtype));
    }
    if (updates.dims && indices.dims &&
        !std::ranges::equal(*updates.dims, *indices.dims, MayEqual)) {
      return InvalidArgument("updates have shape {} where {}, that of the indices, is expected",
                             graph::ToString(*updates.dims), graph::ToString(*indices.dims));
    }
    context.SetOutput(0, data.dtype, data.dims);
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    ASSIGN_OR_RETURN(const kernels::RowFunction reduce,
                     FindReduction(reduction_, context.input(0).dtype, context.isa()));
    const int64_t axis = axis_;
    return MakeMoveStep(
        context, "move.scatter_elements",
        [axis, reduce](StepContext& run, std::span<const MutableTensorView> outputs) {
          return Run(run, axis, reduce, outputs[0]);
        });
  }

  Traits traits() const override { return {.in_place = true}; }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return CostOfMove(shapes, dtype);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    return BatchOfElementIndices(query, axis_);
  }

 private:
  static Status Run(StepContext& run, int64_t wanted, kernels::RowFunction reduce,
                    const MutableTensorView& out) {
    const Shape& shape = out.shape();
    ASSIGN_OR_RETURN(const int axis, ResolveAxis(wanted, shape.rank(), "attribute 'axis'"));
    ASSIGN_OR_RETURN(const std::vector<int64_t> indices,
                     ReadIndices(run.input(1), shape[axis], "the index"));
    CopyData(run, out);
    if (indices.empty()) return absl::OkStatus();
    const ElementPlaces places(shape, run.input(1).shape(), axis);
    const TensorView& updates = run.input(2);
    for (int64_t row = 0; row < places.rows(); ++row) {
      places.ForEach(row, indices, [&](int64_t place, int64_t i) {
        Update(reduce, out, {updates, i, place, 1});
      });
    }
    return absl::OkStatus();
  }

  int64_t axis_;
  Reduction reduction_;
};

}  // namespace

void RegisterScatterElements(OpRegistry& registry) {
  registry.Add({.op_type = "ScatterElements",
                .versions = {11, 13, 16, 18},
                .min_inputs = 3,
                .max_inputs = 3,
                .parse = ScatterElements::Parse,
                .doc = "Updates one element per index along an axis."});
  registry.Add({.op_type = "Scatter",
                .versions = {9},
                .min_inputs = 3,
                .max_inputs = 3,
                .parse = ScatterElements::ParseScatter,
                .doc = "ScatterElements of opsets 9 and 10."});
}

}  // namespace tandem::ops
