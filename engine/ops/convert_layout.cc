// ConvertLayout (domain tandem): the same tensor in the other layout. Planted by the planner where
// a value is read in a layout it was not written in; never part of a file.
#include "engine/ops/native_copy.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class ConvertLayoutStep final : public Step {
 public:
  explicit ConvertLayoutStep(Layout to) : to_(to) {}

  std::string kernel() const override { return fmt::format("convert_layout.{}", LayoutName(to_)); }

  Status Run(StepContext& context) const override {
    ChangeLayout(context.input(0), to_, context.output(0).mutable_raw(), context.parallel());
    return absl::OkStatus();
  }

 private:
  Layout to_;
};

class ConvertLayout final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader&) {
    return std::make_shared<const ConvertLayout>();
  }

  Status Infer(InferContext& context) const override {
    context.SetOutput(0, context.input(0).dtype, context.input(0).dims);
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const DType dtype = context.input(0).dtype;
    if (DTypeBits(dtype) < 8) {
      return Unimplemented("a tensor of {} has no channels-last layout", DTypeName(dtype));
    }
    return std::make_unique<ConvertLayoutStep>(context.output_layout(0));
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return {.bytes = 2.0 * static_cast<double>(DTypeBytes(dtype, shapes.inputs[0].elements()))};
  }
};

}  // namespace

void RegisterConvertLayout(OpRegistry& registry) {
  registry.Add({.op_type = "ConvertLayout",
                .versions = {1},
                .parse = ConvertLayout::Parse,
                .doc = "Moves a tensor between the native and the channels-last layout.",
                .domain = "tandem"});
}

}  // namespace tandem::ops
