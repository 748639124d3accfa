// Size (ai.onnx, opset 1): the number of elements of the input as an int64 scalar.
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class Size final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader&) {
    return std::make_shared<const Size>();
  }

  Status Infer(InferContext& context) const override {
    context.SetOutput(0, DType::kInt64, graph::DimVector{});
    if (const graph::DimVector* dims = context.dims(0)) {
      SetIntegers(context, 0, {Product(*dims, 0, static_cast<int>(dims->size()))});
    }
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext&) const override {
    return MakeDataStep("size", [](StepContext& run) {
      *run.output(0).mutable_data<int64_t>() = run.input(0).elements();
      return absl::OkStatus();
    });
  }

  Traits traits() const override { return {.reads_shapes_only = true, .layout = LayoutRule::kAny}; }

  BatchAnswer Batch(const BatchQuery& query) const override {
    return BatchAnswer::All(query, std::nullopt);
  }
};

}  // namespace

void RegisterSize(OpRegistry& registry) {
  registry.Add({.op_type = "Size",
                .versions = {1, 13, 19, 21, 23, 24},
                .parse = Size::Parse,
                .doc = "The number of elements of the input."});
}

}  // namespace tandem::ops
