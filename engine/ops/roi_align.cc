// RoiAlign (ai.onnx, opset 10; coordinate_transformation_mode since 16, where half_pixel became the
// default): regions of images pooled to one size.
#include "engine/kernels/roi_align/roi_align.h"

#include <cmath>

#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

enum Port { kX = 0, kRegions = 1, kItems = 2 };

class RoiAlign final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    auto op = std::make_shared<RoiAlign>();
    kernels::RoiAlign& align = op->align_;
    const std::string mode = reader.String("mode", "avg");
    if (mode == "max") {
      align.pooling = kernels::RoiPooling::kMax;
    } else if (mode != "avg") {
      reader.Fail(InvalidArgument("attribute 'mode' is '{}' where avg or max is expected", mode));
    }
    std::string origin = "output_half_pixel";
    if (reader.opset() >= 16)
      origin = reader.String("coordinate_transformation_mode", "half_pixel");
    if (origin == "output_half_pixel") {
      align.origin = kernels::RoiOrigin::kOutputHalfPixel;
    } else if (origin != "half_pixel") {
      reader.Fail(
          InvalidArgument("attribute 'coordinate_transformation_mode' is '{}' where "
                          "half_pixel or output_half_pixel is expected",
                          origin));
    }
    align.scale = reader.Float("spatial_scale", 1);
    align.out_height = reader.Int("output_height", 1);
    align.out_width = reader.Int("output_width", 1);
    align.sampling = reader.Int("sampling_ratio", 0);
    constexpr int64_t kMost = 1 << 15;
    if (std::min(align.out_height, align.out_width) < 1 ||
        std::max(align.out_height, align.out_width) > kMost) {
      reader.Fail(InvalidArgument(
          "attributes 'output_height' and 'output_width' are {} and {} where 1 to {} are expected",
          align.out_height, align.out_width, kMost));
    }
    if (align.sampling < 0 || align.sampling > kMost) {
      reader.Fail(InvalidArgument("attribute 'sampling_ratio' is {} where 0 to {} are expected",
                                  align.sampling, kMost));
    }
    return op;
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(CheckDType(context, kX, IsFloating));
    RETURN_IF_ERROR(CheckSameDType(context, kRegions, kX));
    RETURN_IF_ERROR(
        CheckDType(context, kItems, [](DType dtype) { return dtype == DType::kInt64; }));
    const ValueFacts& x = context.input(kX);
    const graph::DimVector* regions = context.dims(kRegions);
    const graph::DimVector* items = context.dims(kItems);
    if (x.dims && x.rank() != 4) {
      return InvalidArgument("input 0 is {} where rank 4 is expected", ToString(x));
    }
    if (regions != nullptr && (regions->size() != 2 || !MayEqual((*regions)[1], int64_t{4}))) {
      return InvalidArgument("input 1 (rois) has shape {} where [regions,4] is expected",
                             graph::ToString(*regions));
    }
    graph::Dim count = regions == nullptr ? graph::Dim() : (*regions)[0];
    if (items != nullptr && (items->size() != 1 || !MayEqual((*items)[0], count))) {
      return InvalidArgument("input 2 (batch_indices) has shape {} where [{}] is expected",
                             graph::ToString(*items), ToString(count));
    }
    if (count.is_unknown() && items != nullptr) count = (*items)[0];
    context.SetOutput(0, x.dtype,
                      graph::DimVector{count, x.dims ? (*x.dims)[1] : graph::Dim(),
                                       align_.out_height, align_.out_width});
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const kernels::RoiAlign rule = align_;
    return MakeMoveStep(
        context, "roi_align reference",
        [rule](StepContext& run, std::span<const MutableTensorView> outputs) -> Status {
          const TensorView& x = run.input(kX);
          ASSIGN_OR_RETURN(const std::vector<int64_t> items,
                           Items(run.input(kItems), x.shape()[0]));
          if (outputs[0].elements() == 0) return absl::OkStatus();
          kernels::RoiAlign align = rule;
          align.channels = x.shape()[1];
          align.height = x.shape()[2];
          align.width = x.shape()[3];
          align.regions = outputs[0].shape()[0];
          if (align.height * align.width == 0) {
            return InvalidArgument("input 0 of shape {} has nothing to pool", ToString(x.shape()));
          }
          kernels::RunRoiAlign(align,
                               {x.dtype(), x.raw(), run.input(kRegions).raw(), items.data(),
                                outputs[0].mutable_raw()},
                               run.parallel());
          return absl::OkStatus();
        });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    Cost cost = CostOfMove(shapes, dtype);
    const auto samples = static_cast<double>(std::max<int64_t>(2, align_.sampling));
    cost.multiply_adds = 8 * samples * samples * static_cast<double>(shapes.outputs[0].elements());
    return cost;
  }

 private:
  static StatusOr<std::vector<int64_t>> Items(const TensorView& view, int64_t count) {
    std::vector<int64_t> items = ReadIntegers(view);
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i] >= 0 && items[i] < count) continue;
      return InvalidArgument("element {} of batch_indices is {} where 0 to {} are expected", i,
                             items[i], count - 1);
    }
    return items;
  }

  kernels::RoiAlign align_;
};

}  // namespace

void RegisterRoiAlign(OpRegistry& registry) {
  registry.Add({.op_type = "RoiAlign",
                .versions = {10, 16, 22},
                .min_inputs = 3,
                .max_inputs = 3,
                .parse = RoiAlign::Parse,
                .doc = "Regions of images pooled to one size."});
}

}  // namespace tandem::ops
