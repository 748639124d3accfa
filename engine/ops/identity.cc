// Identity (ai.onnx, opset 1): the output is the input.
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class Identity final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader&) {
    return std::make_shared<const Identity>();
  }

  Status Infer(InferContext& context) const override {
    const ValueFacts& x = context.input(0);
    context.SetOutput(0, x.dtype, x.dims);
    if (x.content) context.SetContent(0, *x.content);
    return absl::OkStatus();
  }

  Traits traits() const override {
    return {.elementwise = true, .view = true, .layout = LayoutRule::kFollow};
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    return BatchAnswer::All(query, query.axes[0]);
  }
};

}  // namespace

void RegisterIdentity(OpRegistry& registry) {
  registry.Add({.op_type = "Identity",
                .versions = {1},
                .parse = Identity::Parse,
                .doc = "Returns its input."});
}

}  // namespace tandem::ops
