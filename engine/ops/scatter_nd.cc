// ScatterND (ai.onnx, opset 11; reductions add and mul since 16, max and min since 18): a copy of
// data in which the slices that tuples of indices name are updated, in the order of the tuples:
// without a reduction the last one stays.
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/scatter.h"

namespace tandem::ops {
namespace {

class ScatterND final : public Operator {
 public:
  explicit ScatterND(Reduction reduction) : reduction_(reduction) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    return std::make_shared<const ScatterND>(ReadReduction(reader));
  }

  Status Infer(InferContext& context) const override {
    const ValueFacts& data = context.input(0);
    const ValueFacts& indices = context.input(1);
    const ValueFacts& updates = context.input(2);
    context.SetOutput(0, data.dtype, data.dims);
    if (indices.dtype != DType::kInt64) {
      return InvalidArgument("indices are {} where int64 is expected", DTypeName(indices.dtype));
    }
    if (updates.dtype != data.dtype) {
      return InvalidArgument("updates are {} where data is {}", DTypeName(updates.dtype),
                             DTypeName(data.dtype));
    }
    if (indices.dims && indices.dims->empty()) {
      return InvalidArgument("indices are a scalar where rank 1 or more is expected");
    }
    if (!data.dims || !indices.dims || !indices.dims->back().is_number()) return absl::OkStatus();
    const int64_t length = indices.dims->back().number();
    if (length < 1 || length > data.rank()) {
      return InvalidArgument("indices have {} in a tuple where 1 to {} are expected", length,
                             data.rank());
    }
    graph::DimVector expected(indices.dims->begin(), indices.dims->end() - 1);
    expected.insert(expected.end(), data.dims->begin() + length, data.dims->end());
    if (updates.dims && !std::ranges::equal(*updates.dims, expected, MayEqual)) {
      return InvalidArgument("updates have shape {} where {} is expected",
                             graph::ToString(*updates.dims), graph::ToString(expected));
    }
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    ASSIGN_OR_RETURN(const kernels::RowFunction reduce,
                     FindReduction(reduction_, context.input(0).dtype, context.isa()));
    return MakeMoveStep(context, "move.scatter_nd",
                        [reduce](StepContext& run, std::span<const MutableTensorView> outputs) {
                          return Run(run, reduce, outputs[0]);
                        });
  }

  Traits traits() const override { return {.in_place = true}; }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return CostOfMove(shapes, dtype);
  }

  BatchAnswer Batch(const BatchQuery&) const override {
    return BatchAnswer::Decline("its indices name items of the batch, or may do so");
  }

 private:
  static Status Run(StepContext& run, kernels::RowFunction reduce, const MutableTensorView& out) {
    ASSIGN_OR_RETURN(const TuplePlaces places, ReadTuples(run.input(1), out.shape(), 0));
    CopyData(run, out);
    const TensorView& updates = run.input(2);
    int64_t first = 0;
    for (const int64_t place : places.offsets) {
      Update(reduce, out, {updates, first, place, places.block});
      first += places.block;
    }
    return absl::OkStatus();
  }

  Reduction reduction_;
};

}  // namespace

void RegisterScatterNd(OpRegistry& registry) {
  registry.Add({.op_type = "ScatterND",
                .versions = {11, 13, 16, 18},
                .min_inputs = 3,
                .max_inputs = 3,
                .parse = ScatterND::Parse,
                .doc = "Updates slices by tuples of indices."});
}

}  // namespace tandem::ops
