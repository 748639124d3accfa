// DynamicQuantizeLinear (ai.onnx, opset 11): quantises to uint8 with the scale
// and zero point that the range of the input, widened to hold 0, asks for. An
// input of zeros has scale 1.
#include <algorithm>
#include <cmath>

#include "engine/kernels/quant/quantize.h"
#include "engine/kernels/reduce/reduce.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class DynamicQuantizeStep final : public Step {
 public:
  explicit DynamicQuantizeStep(Isa isa)
      : min_(kernels::FindReduce(kernels::ReduceOp::kMin, DType::kFloat, isa)),
        max_(kernels::FindReduce(kernels::ReduceOp::kMax, DType::kFloat, isa)),
        row_(isa == Isa::kReference
                 ? kernels::FindQuantize(DType::kFloat, DType::kUint8)
                 : kernels::FindQuantizeSimd(DType::kFloat, DType::kUint8, isa)) {}

  std::string kernel() const override { return "dynamic_quantize float"; }

  Status Run(StepContext& context) const override {
    const TensorView& x = context.input(0);
    const int64_t elements[] = {x.elements()};
    const kernels::ReducePlan plan = kernels::MakeReducePlan(elements, {true});
    float min = 0;
    float max = 0;
    if (x.elements() > 0) {
      kernels::RunReduce(min_, plan, x.raw(), &min, context.parallel());
      kernels::RunReduce(max_, plan, x.raw(), &max, context.parallel());
    }
    min = std::min(min, 0.0f);
    max = std::max(max, 0.0f);
    const float scale = min == max ? 1.0f : (max - min) / kSteps;
    const auto zero_point = kernels::Saturate<uint8_t>(static_cast<double>(-min / scale), 0);
    *context.output(1).mutable_data<float>() = scale;
    *context.output(2).mutable_data<uint8_t>() = zero_point;
    context.parallel().For(x.elements(), kGrainSlowElements, [&](int64_t begin, int64_t end) {
      const void* operands[] = {x.data<float>() + begin, &scale, &zero_point};
      const int64_t steps[] = {1, 0, 0};
      row_({operands, steps, 3, context.output(0).mutable_data<uint8_t>() + begin, end - begin},
           {});
    });
    return absl::OkStatus();
  }

 private:
  static constexpr float kSteps = 255;

  kernels::ReduceFunction min_;
  kernels::ReduceFunction max_;
  kernels::RowFunction row_;
};

class DynamicQuantizeLinear final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader&) {
    return std::make_shared<const DynamicQuantizeLinear>();
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(CheckDType(context, 0, [](DType dtype) { return dtype == DType::kFloat; }));
    context.SetOutput(0, DType::kUint8, context.input(0).dims);
    context.SetOutput(1, DType::kFloat, graph::DimVector());
    context.SetOutput(2, DType::kUint8, graph::DimVector());
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    return std::make_unique<DynamicQuantizeStep>(context.isa());
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    constexpr double kPerElement = 6;
    return ElementwiseCost(shapes, dtype, kPerElement);
  }

  BatchAnswer Batch(const BatchQuery&) const override {
    return BatchAnswer::Decline("the scale is that of the whole batch");
  }
};

}  // namespace

void RegisterDynamicQuantizeLinear(OpRegistry& registry) {
  registry.Add({.op_type = "DynamicQuantizeLinear",
                .versions = {11},
                .min_outputs = 3,
                .max_outputs = 3,
                .parse = DynamicQuantizeLinear::Parse,
                .doc = "Numbers as uint8, by the range of the input."});
}

}  // namespace tandem::ops
