// Crop (ai.onnx, opset 1, experimental, gone in opset 10): cuts borders (left,
// top, right, bottom) off an image, or with `scale` a part of that height and
// width that starts at left and top.
#include <algorithm>

#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

constexpr int kHeight = 2;
constexpr int kWidth = 3;
constexpr int kRank = 4;

class Crop final : public Operator {
 public:
  Crop(std::vector<int64_t> border, std::vector<int64_t> scale)
      : border_(std::move(border)), scale_(std::move(scale)) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    if (reader.opset() >= 10) {
      reader.Fail(
          Unimplemented("opset {} has no Crop, which is gone since opset 10", reader.opset()));
    }
    std::vector<int64_t> border = reader.Ints("border");
    std::vector<int64_t> scale = reader.Ints("scale");
    const auto negative = [](int64_t value) { return value < 0; };
    if (border.size() != 4 || std::ranges::any_of(border, negative)) {
      reader.Fail(InvalidArgument("attribute 'border' is {} where 4 values >= 0 are expected",
                                  ToString(Shape(border))));
      border = {0, 0, 0, 0};
    }
    if ((!scale.empty() && scale.size() != 2) || std::ranges::any_of(scale, negative)) {
      reader.Fail(InvalidArgument("attribute 'scale' is {} where 2 values >= 0 are expected",
                                  ToString(Shape(scale))));
      scale = {};
    }
    return std::make_shared<const Crop>(std::move(border), std::move(scale));
  }

  Status Infer(InferContext& context) const override {
    const ValueFacts& x = context.input(0);
    RETURN_IF_ERROR(CheckMovable(x.dtype));
    context.SetOutput(0, x.dtype, std::nullopt);
    if (!x.dims) return absl::OkStatus();
    if (x.rank() != kRank) {
      return InvalidArgument("the input is {} where axes N, C, H and W are expected", ToString(x));
    }
    graph::DimVector dims = *x.dims;
    for (const int axis : {kHeight, kWidth}) {
      graph::Dim& extent = dims[static_cast<size_t>(axis)];
      const int64_t out = extent.is_number() ? Extent(axis, extent.number()) : 0;
      if (out < 0 || (extent.is_number() && Begin(axis) + out > extent.number())) {
        return InvalidArgument("borders {} leave nothing of axis {} of {}",
                               ToString(Shape(border_)), axis, ToString(x));
      }
      if (!scale_.empty()) {
        extent = scale_[static_cast<size_t>(axis - kHeight)];
      } else {
        extent = extent.is_number() ? graph::Dim(out) : graph::Dim();
      }
    }
    context.SetOutput(0, x.dtype, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    return MakeMoveStep(context, "move.crop",
                        [op = *this](StepContext& run, std::span<const MutableTensorView> outputs) {
                          const TensorView& x = run.input(0);
                          const Shape& shape = outputs[0].shape();
                          const Dims strides = x.shape().Strides();
                          Region region{MakeAxes(shape.dims(), strides, shape.Strides())};
                          region.in_offset = op.Begin(kHeight) * strides[kHeight] +
                                             op.Begin(kWidth) * strides[kWidth];
                          CopyRegion(region, x, outputs[0], run.parallel());
                          return absl::OkStatus();
                        });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return CostOfMove(shapes, dtype);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    if (*query.axes[0] < kHeight) return BatchAnswer::All(query, query.axes[0]);
    return BatchAnswer::Decline("the batch lies on an axis that is cropped");
  }

 private:
  // `border` lists the width's sides before the height's.
  int64_t Begin(int axis) const { return border_[axis == kHeight ? 1 : 0]; }
  int64_t Extent(int axis, int64_t in) const {
    if (!scale_.empty()) return scale_[static_cast<size_t>(axis - kHeight)];
    return in - Begin(axis) - border_[axis == kHeight ? 3 : 2];
  }

  std::vector<int64_t> border_;
  std::vector<int64_t> scale_;
};

}  // namespace

void RegisterCrop(OpRegistry& registry) {
  registry.Add({.op_type = "Crop",
                .versions = {1},
                .parse = Crop::Parse,
                .doc = "A part of every image (before opset 10)."});
}

}  // namespace tandem::ops
