// GridSample (ai.onnx, opset 16 for images; any number of spatial axes since 20): samples of the
// input at the places that a grid names, interpolated.
#include "engine/kernels/grid_sample/grid_sample.h"

#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

using kernels::GridMode;
using kernels::GridPadding;

GridMode ReadMode(NodeReader& reader) {
  const bool newer = reader.opset() >= 20;  // the names of modes changed
  const std::string mode = reader.String("mode", newer ? "linear" : "bilinear");
  if (mode == "nearest") return GridMode::kNearest;
  if (mode == (newer ? "linear" : "bilinear")) return GridMode::kLinear;
  if (mode == (newer ? "cubic" : "bicubic")) return GridMode::kCubic;
  reader.Fail(InvalidArgument("attribute 'mode' is '{}' where nearest, {} is expected", mode,
                              newer ? "linear or cubic" : "bilinear or bicubic"));
  return GridMode::kLinear;
}

GridPadding ReadPadding(NodeReader& reader) {
  const std::string padding = reader.String("padding_mode", "zeros");
  if (padding == "zeros") return GridPadding::kZeros;
  if (padding == "border") return GridPadding::kBorder;
  if (padding == "reflection") return GridPadding::kReflection;
  reader.Fail(InvalidArgument(
      "attribute 'padding_mode' is '{}' where zeros, border or reflection is expected", padding));
  return GridPadding::kZeros;
}

class GridSample final : public Operator {
 public:
  explicit GridSample(kernels::GridSample sample) : sample_(std::move(sample)) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    kernels::GridSample sample;
    sample.mode = ReadMode(reader);
    sample.padding = ReadPadding(reader);
    if (reader.Flag("align_corners", false)) sample.ends = kernels::GridEnds::kCentres;
    return std::make_shared<const GridSample>(std::move(sample));
  }

  Status Infer(InferContext& context) const override {
    const auto number = [](DType dtype) { return IsFloating(dtype) || IsInteger(dtype); };
    RETURN_IF_ERROR(CheckDType(context, 0, number));
    RETURN_IF_ERROR(CheckDType(context, 1, IsFloating));
    const ValueFacts& x = context.input(0);
    const ValueFacts& grid = context.input(1);
    const bool images = context.node().opset < 20;
    if (x.dims && (images ? x.rank() != 4 : x.rank() < 3)) {
      return InvalidArgument("input 0 is {} where rank {} is expected", ToString(x),
                             images ? "4" : "3 or more");
    }
    if (!x.dims || !grid.dims) {
      const int rank = x.dims ? x.rank() : grid.rank();
      context.SetOutput(0, x.dtype, rank < 0 ? std::nullopt : std::optional(UnknownDims(rank)));
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(CheckGrid(x, grid));
    graph::DimVector dims(x.dims->begin(), x.dims->begin() + 2);
    dims.insert(dims.end(), grid.dims->begin() + 1, grid.dims->end() - 1);
    context.SetOutput(0, x.dtype, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const kernels::GridSample rule = sample_;
    return MakeMoveStep(
        context, "grid_sample reference",
        [rule](StepContext& run, std::span<const MutableTensorView> outputs) -> Status {
          const TensorView& x = run.input(0);
          const MutableTensorView& out = outputs[0];
          const Shape& shape = x.shape();
          if (out.elements() == 0) return absl::OkStatus();
          kernels::GridSample sample = rule;
          sample.items = shape[0];
          sample.channels = shape[1];
          sample.extents.assign(shape.dims().begin() + 2, shape.dims().end());
          sample.points = out.shape().Product(2, out.shape().rank());
          if (shape.elements() == 0) {
            return InvalidArgument("input 0 of shape {} has nothing to sample", ToString(shape));
          }
          const TensorView& grid = run.input(1);
          kernels::RunGridSample(sample,
                                 {x.dtype(), grid.dtype(), x.raw(), grid.raw(), out.mutable_raw()},
                                 run.parallel());
          return absl::OkStatus();
        });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    constexpr double kTaps[] = {1, 4, 16};
    Cost cost = CostOfMove(shapes, dtype);
    cost.multiply_adds = 8 * kTaps[static_cast<int>(sample_.mode)] *
                         static_cast<double>(shapes.outputs[0].elements());
    return cost;
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    if (query.axes[0] == 0 && query.axes[1] == 0) return BatchAnswer::All(query, 0);
    return BatchAnswer::Decline("the input and the grid do not both carry the batch on axis 0");
  }

 private:
  static Status CheckGrid(const ValueFacts& x, const ValueFacts& grid) {
    const int axes = x.rank() - 2;
    if (grid.rank() != x.rank() || !MayEqual(grid.dims->back(), int64_t{axes})) {
      return InvalidArgument(
          "input 1 (grid) is {} where rank {} and a last extent of {} are "
          "expected",
          ToString(grid), x.rank(), axes);
    }
    if (MayEqual(grid.dims->front(), x.dims->front())) return absl::OkStatus();
    return InvalidArgument("input 1 (grid) has {} items where {} are expected",
                           ToString(grid.dims->front()), ToString(x.dims->front()));
  }

  kernels::GridSample sample_;
};

}  // namespace

void RegisterGridSample(OpRegistry& registry) {
  registry.Add({.op_type = "GridSample",
                .versions = {16, 20, 22},
                .min_inputs = 2,
                .max_inputs = 2,
                .parse = GridSample::Parse,
                .doc = "Samples of the input at the places of a grid."});
}

}  // namespace tandem::ops
