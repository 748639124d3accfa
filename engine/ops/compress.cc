// Compress (ai.onnx, opset 9): the entries of an axis, or of the flattened input, for which the
// condition is true. A condition may be shorter than the axis: what is beyond it is left out.
#include <optional>
#include <vector>

#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class Compress final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    auto op = std::make_shared<Compress>();
    if (reader.has("axis")) op->axis_ = reader.Int("axis", 0);
    return op;
  }

  Status Infer(InferContext& context) const override {
    const ValueFacts& x = context.input(0);
    const ValueFacts& condition = context.input(1);
    if (condition.dtype != DType::kBool || (condition.dims && condition.rank() != 1)) {
      return InvalidArgument("input 1 (condition) is {} where a bool vector is expected",
                             ToString(condition));
    }
    if (!axis_) {
      context.SetOutput(0, x.dtype, UnknownDims(1));
      return absl::OkStatus();
    }
    std::optional<graph::DimVector> dims = x.dims;
    if (dims) {
      ASSIGN_OR_RETURN(const int axis, ResolveAxis(*axis_, x.rank(), "attribute 'axis'"));
      (*dims)[static_cast<size_t>(axis)] = graph::Dim();
    }
    context.SetOutput(0, x.dtype, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    RETURN_IF_ERROR(CheckMovable(context.input(0).dtype));
    const std::optional<int64_t> axis = axis_;
    return MakeDataStep("move.compress", [axis](StepContext& run) { return Run(run, axis); });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return CostOfMove(shapes, dtype);
  }

 private:
  static Status Run(StepContext& run, std::optional<int64_t> wanted) {
    ASSIGN_OR_RETURN(const AxisView along, AlongAxis(run.input(0), wanted));
    Shape shape = along.view.shape();
    ASSIGN_OR_RETURN(const std::vector<int64_t> kept, Kept(run.input(1), shape[along.axis]));
    shape[along.axis] = std::ssize(kept);
    ASSIGN_OR_RETURN(const MutableTensorView out, run.AllocateOutput(0, shape));
    CopyEntries(kept, along.axis, along.view, out);
    return absl::OkStatus();
  }

  static StatusOr<std::vector<int64_t>> Kept(const TensorView& condition, int64_t extent) {
    std::vector<int64_t> kept;
    const bool* flags = condition.data<bool>();
    for (int64_t i = 0; i < condition.elements(); ++i) {
      if (!flags[i]) continue;
      if (i >= extent) {
        return InvalidArgument("element {} of the condition is true where the axis has {} elements",
                               i, extent);
      }
      kept.push_back(i);
    }
    return kept;
  }

  std::optional<int64_t> axis_;
};

}  // namespace

void RegisterCompress(OpRegistry& registry) {
  registry.Add({.op_type = "Compress",
                .versions = {9, 11},
                .min_inputs = 2,
                .max_inputs = 2,
                .parse = Compress::Parse,
                .doc = "The entries of an axis for which a condition is true."});
}

}  // namespace tandem::ops
