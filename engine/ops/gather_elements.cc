// GatherElements (ai.onnx, opset 11): the element of data at the place of each index, with the
// index in place of the coordinate along the axis.
#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"
#include "engine/ops/scatter.h"

namespace tandem::ops {
namespace {

class GatherElements final : public Operator {
 public:
  explicit GatherElements(int64_t axis) : axis_(axis) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    return std::make_shared<const GatherElements>(reader.Int("axis", 0));
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(CheckElementIndices(context, axis_));
    const ValueFacts& indices = context.input(1);
    std::optional<graph::DimVector> dims = indices.dims;
    if (!dims && context.input(0).dims) dims = UnknownDims(context.input(0).rank());
    context.SetOutput(0, context.input(0).dtype, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const int64_t axis = axis_;
    return MakeMoveStep(context, "move.gather_elements",
                        [axis](StepContext& run, std::span<const MutableTensorView> outputs) {
                          return Run(run, axis, outputs[0]);
                        });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return CostOfMove(shapes, dtype);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    return BatchOfElementIndices(query, axis_);
  }

 private:
  static Status Run(StepContext& run, int64_t wanted, const MutableTensorView& out) {
    const TensorView& data = run.input(0);
    ASSIGN_OR_RETURN(const int axis, ResolveAxis(wanted, data.shape().rank(), "attribute 'axis'"));
    ASSIGN_OR_RETURN(const std::vector<int64_t> indices,
                     ReadIndices(run.input(1), data.shape()[axis], "the index"));
    if (indices.empty()) return absl::OkStatus();
    const ElementPlaces places(data.shape(), run.input(1).shape(), axis);
    const int64_t grain = GrainOf(kGrainSlowElements, places.length());
    WithElement(data.dtype(), [&](auto element) {
      using T = decltype(element);
      const T* from = static_cast<const T*>(data.raw());
      T* to = static_cast<T*>(out.mutable_raw());
      run.parallel().For(places.rows(), grain, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          places.ForEach(row, indices, [&](int64_t place, int64_t i) { to[i] = from[place]; });
        }
      });
    });
    return absl::OkStatus();
  }

  int64_t axis_;
};

}  // namespace

void RegisterGatherElements(OpRegistry& registry) {
  registry.Add({.op_type = "GatherElements",
                .versions = {11, 13},
                .min_inputs = 2,
                .max_inputs = 2,
                .parse = GatherElements::Parse,
                .doc = "Picks one element per index along an axis."});
}

}  // namespace tandem::ops
