// Gather (ai.onnx, opset 1; negative indices since 11): entries of one axis, picked by indices of
// any shape.
#include <cstring>

#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class Gather final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    auto op = std::make_shared<Gather>();
    op->axis_ = reader.Int("axis", 0);
    return op;
  }

  Status Infer(InferContext& context) const override {
    const ValueFacts& data = context.input(0);
    const ValueFacts& indices = context.input(1);
    if (indices.dtype != DType::kInt32 && indices.dtype != DType::kInt64) {
      return InvalidArgument("indices are {} where int32 or int64 is expected",
                             DTypeName(indices.dtype));
    }
    if (!data.dims) {
      context.SetOutput(0, data.dtype, std::nullopt);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const int axis, ResolveAxis(axis_, data.rank(), "attribute 'axis'"));
    if (!indices.dims) {
      context.SetOutput(0, data.dtype, std::nullopt);
      return absl::OkStatus();
    }
    graph::DimVector dims(data.dims->begin(), data.dims->begin() + axis);
    dims.insert(dims.end(), indices.dims->begin(), indices.dims->end());
    dims.insert(dims.end(), data.dims->begin() + axis + 1, data.dims->end());
    context.SetOutput(0, data.dtype, std::move(dims));
    return PassPicked(context, axis);
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const int64_t axis = axis_;
    return MakeMoveStep(context, "move.gather",
                        [axis](StepContext& run, std::span<const MutableTensorView> outputs) {
                          return Run(run, axis, outputs[0]);
                        });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return {.bytes = 2.0 * static_cast<double>(shapes.outputs[0].elements()) *
                     static_cast<double>(DTypeBytes(dtype, 1))};
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    const std::optional<int> data = query.axes[0];
    const std::optional<int> indices = query.axes[1];
    const int rank = query.inputs[0]->rank();
    const int picked = query.inputs[1]->rank();
    if (rank < 0 || picked < 0) return BatchAnswer::Decline("a rank is unknown");
    const auto axis = static_cast<int>(axis_ < 0 ? axis_ + rank : axis_);
    if (data && indices) return BatchAnswer::Decline("both data and indices carry the batch");
    if (indices) return BatchAnswer::All(query, axis + *indices);
    if (*data == axis) return BatchAnswer::Decline("it picks items of the batch");
    return BatchAnswer::All(query, *data < axis ? *data : *data - 1 + picked);
  }

 private:
  // Known integers picked by known indices: shape arithmetic.
  static Status PassPicked(InferContext& context, int axis) {
    const std::optional<std::vector<int64_t>> indices = context.Integers(1);
    if (!indices) return absl::OkStatus();
    const graph::Dim extent = (*context.input(0).dims)[static_cast<size_t>(axis)];
    const std::optional<graph::DimVector> content = context.Content(0);
    graph::DimVector picked;
    for (const int64_t raw : *indices) {
      if (!extent.is_number()) return absl::OkStatus();
      ASSIGN_OR_RETURN(const int64_t index, CheckIndex(raw, extent.number(), "an index"));
      if (content && context.input(0).rank() == 1) {
        picked.push_back((*content)[static_cast<size_t>(index)]);
      }
    }
    if (picked.size() == indices->size() && content) SetIntegers(context, 0, picked);
    return absl::OkStatus();
  }

  static Status Run(StepContext& run, int64_t wanted, const MutableTensorView& out) {
    const TensorView& data = run.input(0);
    const Shape& shape = data.shape();
    ASSIGN_OR_RETURN(const int axis, ResolveAxis(wanted, shape.rank(), "attribute 'axis'"));
    const int64_t extent = shape[axis];
    ASSIGN_OR_RETURN(const std::vector<int64_t> indices,
                     ReadIndices(run.input(1), extent, "the index"));
    if (out.elements() == 0) return absl::OkStatus();
    const int64_t block = shape.Product(axis + 1, shape.rank());
    const auto count = static_cast<int64_t>(indices.size());
    const int64_t grain = GrainOf(kGrainElements, block);
    WithElement(data.dtype(), [&](auto element) {
      using T = decltype(element);
      const T* from = static_cast<const T*>(data.raw());
      T* to = static_cast<T*>(out.mutable_raw());
      run.parallel().For(shape.Product(0, axis) * count, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t entry = i / count * extent + indices[static_cast<size_t>(i % count)];
          std::copy_n(from + entry * block, block, to + i * block);
        }
      });
    });
    return absl::OkStatus();
  }

  int64_t axis_ = 0;
};

}  // namespace

void RegisterGather(OpRegistry& registry) {
  registry.Add({.op_type = "Gather",
                .versions = {1, 11, 13},
                .min_inputs = 2,
                .max_inputs = 2,
                .parse = Gather::Parse,
                .doc = "Picks entries of one axis by index."});
}

}  // namespace tandem::ops
