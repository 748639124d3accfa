// ConstantOfShape (ai.onnx, opset 9): a tensor of the shape given as input, every element the same.
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class ConstantOfShape final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    auto op = std::make_shared<ConstantOfShape>();
    const graph::ConstantRef value = reader.Constant("value");
    if (value == nullptr) return op;
    if (value->tensor().elements() != 1) {
      reader.Fail(InvalidArgument("attribute 'value' has shape {} where one element is expected",
                                  ToString(value->tensor().shape())));
      return op;
    }
    op->value_ = value->tensor();
    return op;
  }

  Status Infer(InferContext& context) const override {
    ASSIGN_OR_RETURN(const int rank, RankFromVector(context, 0, "the shape (input 0)"));
    const std::optional<graph::DimVector> dims = context.Content(0);
    if (!dims) {
      context.SetOutput(0, value_.dtype(),
                        rank < 0 ? std::nullopt : std::optional(UnknownDims(rank)));
      return absl::OkStatus();
    }
    for (const graph::Dim& dim : *dims) {
      if (dim.is_number() && dim.number() < 0) {
        return InvalidArgument("the shape (input 0) is {} where extents >= 0 are expected",
                               graph::ToString(*dims));
      }
    }
    context.SetOutput(0, value_.dtype(), *dims);
    const std::optional<Shape> shape = graph::ToShape(*dims);
    if (shape && shape->rank() <= 1 && shape->elements() <= kSmall &&
        value_.dtype() == DType::kInt64) {
      const graph::DimVector content(static_cast<size_t>(shape->elements()),
                                     graph::Dim(*value_.data<int64_t>()));
      SetIntegers(context, 0, content);
    }
    return absl::OkStatus();
  }

  std::optional<StridedTensor> ViewOf(std::span<const graph::ConstantRef>,
                                      const Shape& shape) const override {
    return StridedTensor::Of(value_.Reshaped({})).BroadcastTo(shape);
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    RETURN_IF_ERROR(CheckMovable(value_.dtype()));
    const Tensor value = value_;
    return MakeMoveStep(context, "move.fill",
                        [value](StepContext& run, std::span<const MutableTensorView> outputs) {
                          Fill(value.view(), outputs[0], run.parallel());
                          return absl::OkStatus();
                        });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return CostOfMove(shapes, dtype);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    if (query.axes[0]) return BatchAnswer::Decline("its shape carries the batch");
    return BatchOfRepeated(query);
  }

  bool ReadsShape(int port) const override { return port == 0; }

 private:
  static constexpr int64_t kSmall = 64;  // elements of a vector whose content may be an axis list

  Tensor value_ = Tensor::Of<float>({1}, {0});
};

}  // namespace

void RegisterConstantOfShape(OpRegistry& registry) {
  registry.Add({.op_type = "ConstantOfShape",
                .versions = {9, 20, 21},
                .parse = ConstantOfShape::Parse,
                .doc = "A tensor of a given shape, every element the same."});
}

}  // namespace tandem::ops
