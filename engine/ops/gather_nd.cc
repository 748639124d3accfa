// GatherND (ai.onnx, opset 11; batch_dims since 12): slices of data, each named by a tuple of
// indices along the first axes after the batch axes.
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/scatter.h"

namespace tandem::ops {
namespace {

class GatherND final : public Operator {
 public:
  explicit GatherND(int batch_axes) : batch_axes_(batch_axes) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    const int64_t batch_axes = reader.opset() >= 12 ? reader.Int("batch_dims", 0) : 0;
    constexpr int64_t kMost = 64;
    if (batch_axes < 0 || batch_axes > kMost) {
      reader.Fail(InvalidArgument("attribute 'batch_dims' is {} where 0 to {} are expected",
                                  batch_axes, kMost));
      return std::make_shared<const GatherND>(0);
    }
    return std::make_shared<const GatherND>(static_cast<int>(batch_axes));
  }

  Status Infer(InferContext& context) const override {
    const ValueFacts& data = context.input(0);
    const ValueFacts& indices = context.input(1);
    context.SetOutput(0, data.dtype, std::nullopt);
    if (indices.dtype != DType::kInt64) {
      return InvalidArgument("indices are {} where int64 is expected", DTypeName(indices.dtype));
    }
    if (indices.dims && indices.rank() <= batch_axes_) {
      return InvalidArgument("indices have shape {} where more than {} axes are expected",
                             graph::ToString(*indices.dims), batch_axes_);
    }
    if (data.dims && indices.dims) RETURN_IF_ERROR(CheckBatch(*data.dims, *indices.dims));
    if (!data.dims || !indices.dims || !indices.dims->back().is_number()) return absl::OkStatus();
    const int64_t length = indices.dims->back().number();
    if (length < 1 || length > data.rank() - batch_axes_) {
      return InvalidArgument("indices have {} in a tuple where 1 to {} are expected", length,
                             data.rank() - batch_axes_);
    }
    graph::DimVector dims(indices.dims->begin(), indices.dims->end() - 1);
    dims.insert(dims.end(), data.dims->begin() + batch_axes_ + length, data.dims->end());
    context.SetOutput(0, data.dtype, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const int batch_axes = batch_axes_;
    return MakeMoveStep(context, "move.gather_nd",
                        [batch_axes](StepContext& run, std::span<const MutableTensorView> outputs) {
                          return Run(run, batch_axes, outputs[0]);
                        });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return {.bytes = 2.0 * static_cast<double>(shapes.outputs[0].elements()) *
                     static_cast<double>(DTypeBytes(dtype, 1))};
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    const std::optional<int> data = query.axes[0];
    const std::optional<int> indices = query.axes[1];
    const int rank = query.inputs[1]->rank();
    if (rank < 0) return BatchAnswer::Decline("the rank of the indices is unknown");
    if (data && indices && *data == *indices && *data < batch_axes_) {
      return BatchAnswer::All(query, data);
    }
    if (data) return BatchAnswer::Decline("its indices name items of the batch, or may do so");
    if (*indices == rank - 1) return BatchAnswer::Decline("the batch lies along its tuples");
    if (*indices < batch_axes_) return BatchAnswer::Decline("data is shared by all items");
    return BatchAnswer::All(query, indices);
  }

 private:
  Status CheckBatch(const graph::DimVector& data, const graph::DimVector& indices) const {
    if (static_cast<int>(data.size()) <= batch_axes_) {
      return InvalidArgument("data has shape {} where more than {} axes are expected",
                             graph::ToString(data), batch_axes_);
    }
    for (int axis = 0; axis < batch_axes_; ++axis) {
      const auto k = static_cast<size_t>(axis);
      if (MayEqual(data[k], indices[k])) continue;
      return InvalidArgument("batch axis {} has extent {} in data and {} in the indices", axis,
                             ToString(data[k]), ToString(indices[k]));
    }
    return absl::OkStatus();
  }

  static Status Run(StepContext& run, int batch_axes, const MutableTensorView& out) {
    const TensorView& data = run.input(0);
    ASSIGN_OR_RETURN(const TuplePlaces places, ReadTuples(run.input(1), data.shape(), batch_axes));
    if (out.elements() == 0) return absl::OkStatus();
    const auto count = static_cast<int64_t>(places.offsets.size());
    const int64_t grain = GrainOf(kGrainElements, places.block);
    WithElement(data.dtype(), [&](auto element) {
      using T = decltype(element);
      const T* from = static_cast<const T*>(data.raw());
      T* to = static_cast<T*>(out.mutable_raw());
      run.parallel().For(count, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          std::copy_n(from + places.offsets[static_cast<size_t>(i)], places.block,
                      to + i * places.block);
        }
      });
    });
    return absl::OkStatus();
  }

  int batch_axes_;
};

}  // namespace

void RegisterGatherNd(OpRegistry& registry) {
  registry.Add({.op_type = "GatherND",
                .versions = {11, 12, 13},
                .min_inputs = 2,
                .max_inputs = 2,
                .parse = GatherND::Parse,
                .doc = "Picks slices by tuples of indices."});
}

}  // namespace tandem::ops
