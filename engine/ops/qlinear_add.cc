// QLinearAdd (com.microsoft, version 1): the sum of two quantised tensors that broadcast,
// quantised; one scale and zero point for each of the three. The bits are those of
// DequantizeLinear, Add and QuantizeLinear. An omitted zero point of
// the result is 0.
#include "engine/kernels/quant/quantised_sum.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/integer_product.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

constexpr int kA = 0;
constexpr int kAScale = 1;
constexpr int kAZero = 2;
constexpr int kB = 3;
constexpr int kBScale = 4;
constexpr int kBZero = 5;
constexpr int kYScale = 6;
constexpr int kYZero = 7;

class QLinearAddStep final : public Step {
 public:
  QLinearAddStep(DType dtype, const BindContext& context)
      : add_(kernels::AddQuantisedFor(dtype, context.isa())),
        range_(ByteRangeOf(dtype, context.node().epilogue)),
        kernel_(fmt::format("add.quantised {} {}", DTypeName(dtype), IsaName(context.isa()))) {}

  std::string kernel() const override { return kernel_; }

  Status Run(StepContext& context) const override {
    const auto scale = [&context](int port) { return *context.input(port).data<float>(); };
    const auto zero = [&context](int port) {
      return context.has_input(port) ? ByteAt(context.input(port), 0) : 0;
    };
    const kernels::QuantisedSum sum{scale(kAScale), scale(kBScale), scale(kYScale), zero(kAZero),
                                    zero(kBZero),   zero(kYZero),   range_.low,     range_.high};
    const MutableTensorView& y = context.output(0);
    const kernels::BroadcastOperand operands[] = {OperandOf(context.input(kA), y),
                                                  OperandOf(context.input(kB), y)};
    const Shape physical = PhysicalShape(y.shape(), y.layout());
    const kernels::BroadcastLoop loop(physical.dims(), operands);
    loop.Run([&](const kernels::RowArgs& args) { add_(sum, args); }, y.mutable_raw(), 1,
             context.parallel());
    return absl::OkStatus();
  }

 private:
  kernels::AddQuantised add_;
  ByteRange range_;
  std::string kernel_;
};

class QLinearAdd final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader&) {
    return std::make_shared<const QLinearAdd>();
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(CheckDType(context, kA, IsByte));
    for (const int port : {kAZero, kB, kBZero, kYZero}) {
      if (context.has_input(port)) RETURN_IF_ERROR(CheckSameDType(context, port, kA));
    }
    for (const int port : {kAScale, kBScale, kYScale}) {
      RETURN_IF_ERROR(
          CheckDType(context, port, [](DType dtype) { return dtype == DType::kFloat; }));
    }
    for (const int port : {kAScale, kAZero, kBScale, kBZero, kYScale, kYZero}) {
      RETURN_IF_ERROR(CheckOneElement(context, port));
    }
    const graph::DimVector* operands[] = {context.dims(kA), context.dims(kB)};
    ASSIGN_OR_RETURN(std::optional<graph::DimVector> dims, BroadcastDims(operands));
    context.SetOutput(0, context.input(kA).dtype, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    return std::make_unique<QLinearAddStep>(context.input(kA).dtype, context);
  }

  Traits traits() const override { return {.layout = LayoutRule::kFollow}; }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    constexpr double kPerElement = 2;
    return ElementwiseCost(shapes, dtype, kPerElement);
  }

  Decision TryFuseEpilogue(const EpilogueRequest& request) const override {
    return TryFuseByteClip(request);
  }

  BatchAnswer Batch(const BatchQuery& query) const override { return BroadcastBatch(query); }
};

}  // namespace

void RegisterQlinearAdd(OpRegistry& registry) {
  registry.Add({.op_type = "QLinearAdd",
                .versions = {1},
                .min_inputs = 7,
                .max_inputs = 8,
                .parse = QLinearAdd::Parse,
                .doc = "Sum of quantised tensors, quantised.",
                .domain = "com.microsoft"});
}

}  // namespace tandem::ops
