// Where (ai.onnx, opset 9): elements of two tensors, chosen by a third; all three broadcast.
#include "engine/kernels/elementwise/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

using kernels::FindWhere;

// Follows a choice between shapes by a condition that is known.
void InferContent(InferContext& context) {
  const std::optional<Tensor>& condition = context.input(0).value;
  const auto a = context.Content(1);
  const auto b = context.Content(2);
  if (!condition || !a || !b || a->empty() || b->empty() || condition->elements() == 0) return;
  if (condition->shape().rank() > 1) return;
  const auto chosen = condition->span<bool>();
  const size_t size = std::max({a->size(), b->size(), chosen.size()});
  graph::DimVector content;
  for (size_t i = 0; i < size; ++i) {
    const graph::DimVector& source = chosen[chosen.size() == 1 ? 0 : i] ? *a : *b;
    content.push_back(source[source.size() == 1 ? 0 : i]);
  }
  context.SetContent(0, std::move(content));
}

class Where final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader&) {
    return std::make_shared<const Where>();
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(CheckDType(context, 0, [](DType dtype) { return dtype == DType::kBool; }));
    RETURN_IF_ERROR(
        CheckDType(context, 1, [](DType dtype) { return FindWhere(dtype) != nullptr; }));
    RETURN_IF_ERROR(CheckSameDType(context, 2, 1));
    ASSIGN_OR_RETURN(std::optional<graph::DimVector> dims, BroadcastInputs(context));
    context.SetOutput(0, context.input(1).dtype, std::move(dims));
    InferContent(context);
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    return MakeElementwiseStep(context, {FindWhere(context.input(1).dtype), {}});
  }

  Traits traits() const override { return {.elementwise = true, .layout = LayoutRule::kFollow}; }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return ElementwiseCost(shapes, dtype, 1);
  }

  BatchAnswer Batch(const BatchQuery& query) const override { return BroadcastBatch(query); }
};

}  // namespace

void RegisterWhere(OpRegistry& registry) {
  registry.Add({.op_type = "Where",
                .versions = {9, 16},
                .min_inputs = 3,
                .max_inputs = 3,
                .parse = Where::Parse,
                .doc = "Elements of X where the condition holds, else of Y."});
}

}  // namespace tandem::ops
