// Pow (ai.onnx, opset 7): a to the power b, of the type of a; from opset 12 on b may have another
// type.
#include "engine/kernels/elementwise/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

using kernels::FindPow;

class Pow final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader&) {
    return std::make_shared<const Pow>();
  }

  Status Infer(InferContext& context) const override {
    const DType base = context.input(0).dtype;
    RETURN_IF_ERROR(CheckDType(context, 0, [](DType dtype) {
      return FindPow(dtype, DType::kFloat, Isa::kReference) != nullptr;
    }));
    if (context.node().opset < 12) RETURN_IF_ERROR(CheckSameDType(context, 1, 0));
    RETURN_IF_ERROR(CheckDType(context, 1, [base](DType dtype) {
      return FindPow(base, dtype, Isa::kReference) != nullptr;
    }));
    ASSIGN_OR_RETURN(std::optional<graph::DimVector> dims, BroadcastInputs(context));
    context.SetOutput(0, base, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const kernels::RowFunction row =
        FindPow(context.input(0).dtype, context.input(1).dtype, context.isa());
    return MakeElementwiseStep(context, {row, {}});
  }

  Traits traits() const override {
    return {.elementwise = true, .in_place = true, .layout = LayoutRule::kFollow};
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return ElementwiseCost(shapes, dtype, 32);
  }

  BatchAnswer Batch(const BatchQuery& query) const override { return BroadcastBatch(query); }
};

}  // namespace

void RegisterPow(OpRegistry& registry) {
  registry.Add({.op_type = "Pow",
                .versions = {7, 12, 13, 15},
                .min_inputs = 2,
                .max_inputs = 2,
                .parse = Pow::Parse,
                .doc = "a to the power b."});
}

}  // namespace tandem::ops
