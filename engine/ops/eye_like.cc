// EyeLike (ai.onnx, opset 9): a matrix of the input's shape with ones on diagonal k and zeros
// elsewhere.
#include "engine/kernels/elementwise/cast.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class EyeLike final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    auto op = std::make_shared<EyeLike>();
    op->diagonal_ = reader.Int("k", 0);
    if (!reader.has("dtype")) return op;
    const int64_t dtype = reader.Int("dtype", 0);
    const bool known =
        dtype == static_cast<int32_t>(dtype) && IsKnownDType(static_cast<int32_t>(dtype));
    if (!known || kernels::FindCast(DType::kFloat, static_cast<DType>(dtype)) == nullptr) {
      reader.Fail(
          InvalidArgument("attribute 'dtype' is {} where a number type is expected", dtype));
      return op;
    }
    op->dtype_ = static_cast<DType>(dtype);
    return op;
  }

  Status Infer(InferContext& context) const override {
    const ValueFacts& x = context.input(0);
    const DType dtype = dtype_.value_or(x.dtype);
    if (kernels::FindCast(DType::kFloat, dtype) == nullptr) {
      return InvalidArgument("input 0 is of type {} where numbers are expected", DTypeName(dtype));
    }
    if (x.dims && x.rank() != 2) {
      return InvalidArgument("input 0 is {} where rank 2 is expected", ToString(x));
    }
    context.SetOutput(0, dtype, x.dims ? *x.dims : graph::DimVector(2));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const int64_t diagonal = diagonal_;
    ASSIGN_OR_RETURN(const Tensor one, Converted(Tensor::Scalar(1.0F).view(),
                                                 dtype_.value_or(context.input(0).dtype)));
    return MakeMoveStep(
        context, "move.eye",
        [diagonal, one](StepContext& run, std::span<const MutableTensorView> outputs) {
          const MutableTensorView& out = outputs[0];
          std::ranges::fill(out.mutable_bytes(), std::byte{0});
          const int64_t columns = out.shape()[1];
          const int64_t row = std::max<int64_t>(0, -std::max(diagonal, -out.shape()[0]));
          const int64_t column = std::max<int64_t>(0, std::min(diagonal, columns));
          const int64_t ones = std::min(out.shape()[0] - row, columns - column);
          CopyRegion({.axes = {{ones, 0, columns + 1}}, .out_offset = row * columns + column},
                     one.view(), out, run.parallel());
          return absl::OkStatus();
        });
  }

  Traits traits() const override { return {.reads_shapes_only = true, .layout = LayoutRule::kAny}; }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return CostOfMove(shapes, dtype);
  }

 private:
  int64_t diagonal_ = 0;
  std::optional<DType> dtype_;
};

}  // namespace

void RegisterEyeLike(OpRegistry& registry) {
  registry.Add({.op_type = "EyeLike",
                .versions = {9, 22},
                .parse = EyeLike::Parse,
                .doc = "Ones on a diagonal, in the shape of the input."});
}

}  // namespace tandem::ops
