// Max, Min, Sum, Mean (ai.onnx): any number of inputs, which broadcast.
#include "engine/kernels/elementwise/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

using kernels::FindVariadic;
using kernels::VariadicOp;

class Variadic final : public Operator {
 public:
  Variadic(VariadicOp op, int inputs) : op_(op), inputs_(inputs) {}

  template <VariadicOp kOp>
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    for (int port = 0; port < reader.inputs(); ++port) {
      if (!reader.has_input(port)) reader.Fail(InvalidArgument("input {} is omitted", port));
    }
    return std::make_shared<const Variadic>(kOp, reader.inputs());
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(CheckDType(context, 0, [this](DType dtype) {
      return FindVariadic(op_, dtype, Isa::kReference) != nullptr;
    }));
    for (int port = 1; port < context.inputs(); ++port) {
      RETURN_IF_ERROR(CheckSameDType(context, port, 0));
    }
    ASSIGN_OR_RETURN(std::optional<graph::DimVector> dims, BroadcastInputs(context));
    context.SetOutput(0, context.input(0).dtype, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    return MakeElementwiseStep(context,
                               {FindVariadic(op_, context.input(0).dtype, context.isa()), {}});
  }

  Traits traits() const override {
    // More operands than the kernel can buffer must lie in memory alike.
    const bool follows = inputs_ <= kernels::kMaxRowOperands;
    return {.elementwise = true,
            .in_place = true,
            .layout = follows ? LayoutRule::kFollow : LayoutRule::kNative};
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return ElementwiseCost(shapes, dtype, inputs_);
  }

  BatchAnswer Batch(const BatchQuery& query) const override { return BroadcastBatch(query); }

 private:
  VariadicOp op_;
  int inputs_;
};

void Add(OpRegistry& registry, OpEntry entry) {
  entry.max_inputs = kAnyNumber;
  registry.Add(std::move(entry));
}

}  // namespace

void RegisterVariadic(OpRegistry& registry) {
  Add(registry, {.op_type = "Max",
                 .versions = {6, 8, 12, 13},
                 .parse = Variadic::Parse<VariadicOp::kMax>,
                 .doc = "The largest of the inputs, element by element."});
  Add(registry, {.op_type = "Min",
                 .versions = {6, 8, 12, 13},
                 .parse = Variadic::Parse<VariadicOp::kMin>,
                 .doc = "The smallest of the inputs, element by element."});
  Add(registry, {.op_type = "Sum",
                 .versions = {6, 8, 13},
                 .parse = Variadic::Parse<VariadicOp::kSum>,
                 .doc = "The sum of the inputs, element by element."});
  Add(registry, {.op_type = "Mean",
                 .versions = {6, 8, 13},
                 .parse = Variadic::Parse<VariadicOp::kMean>,
                 .doc = "The mean of the inputs, element by element."});
}

}  // namespace tandem::ops
