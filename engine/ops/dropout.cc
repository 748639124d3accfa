// Dropout (ai.onnx, opset 7; ratio and training_mode as inputs since 12) in inference: the output
// is the input and the mask is all ones.
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class Dropout final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    auto op = std::make_shared<Dropout>();
    const graph::Node& node = reader.node();
    op->has_mask_ = node.outputs.size() > 1 && node.outputs[1] != graph::kNoValue;
    op->mask_is_bool_ = reader.opset() >= 10;
    if (reader.opset() < 12) {
      reader.Float("ratio", 0.5f);
      if (reader.inputs() > 1) {
        reader.Fail(InvalidArgument("it has {} inputs where opset {} has 1", reader.inputs(),
                                    reader.opset()));
      }
    } else {
      reader.Ignore("seed");  // of the random choice that inference does not make
    }
    return op;
  }

  Status Infer(InferContext& context) const override {
    if (context.has_input(2)) {
      const ValueFacts& training = context.input(2);
      if (!training.value || training.dtype != DType::kBool || training.value->elements() != 1) {
        return Unimplemented("training_mode (input 2) is {} where a constant false is supported",
                             ToString(training));
      }
      if (*training.value->data<bool>()) {
        return Unimplemented("training_mode is true; only inference is supported");
      }
    }
    const ValueFacts& x = context.input(0);
    context.SetOutput(0, x.dtype, x.dims);
    if (x.content) context.SetContent(0, *x.content);
    context.SetOutput(1, mask_is_bool_ ? DType::kBool : x.dtype, x.dims);
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const DType dtype = context.output(1).dtype;
    if (dtype != DType::kBool && dtype != DType::kFloat && dtype != DType::kDouble) {
      return Unimplemented("a mask of {} where bool, float or double is supported",
                           DTypeName(dtype));
    }
    const Tensor one = dtype == DType::kBool    ? Tensor::Scalar<bool>(true)
                       : dtype == DType::kFloat ? Tensor::Scalar<float>(1)
                                                : Tensor::Scalar<double>(1);
    return MakeMoveStep(
        context, "move.dropout",
        [one](StepContext& run, std::span<const MutableTensorView> outputs) {
          const TensorView& x = run.input(0);
          if (outputs[0].dtype() != DType::kUndefined) {
            CopyRegion({.axes = {{x.elements(), 1, 1}}}, x, outputs[0], run.parallel());
          }
          Fill(one.view(), outputs[1], run.parallel());
          return absl::OkStatus();
        });
  }

  Traits traits() const override {
    if (has_mask_) return {};
    return {.elementwise = true, .view = true, .layout = LayoutRule::kFollow};
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return CostOfMove(shapes, dtype);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    return BatchAnswer::All(query, query.axes[0]);
  }

 private:
  bool has_mask_ = false;
  bool mask_is_bool_ = true;
};

}  // namespace

void RegisterDropout(OpRegistry& registry) {
  registry.Add({.op_type = "Dropout",
                .versions = {7, 10, 12, 13, 22},
                .max_inputs = 3,
                .max_outputs = 2,
                .parse = Dropout::Parse,
                .doc = "Returns its input and, where asked, a mask of ones; training is refused."});
}

}  // namespace tandem::ops
