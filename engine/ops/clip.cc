// Clip (ai.onnx): min(max(x, low), high). Opset 6 takes the bounds as attributes, opset 11 on as
// optional scalar inputs. A missing bound is the type's lowest or largest finite value, as the
// specification says: infinities are clipped to it. NaN stays NaN, a NaN bound is no bound, and
// where the bounds are crossed the upper one wins.
#include <limits>

#include "engine/kernels/elementwise/binary.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

using kernels::FindClip;

template <typename T>
Tensor Limit(int port) {
  return Tensor::Scalar<T>(port == 1 ? std::numeric_limits<T>::lowest()
                                     : std::numeric_limits<T>::max());
}

// The bound that stands in for an omitted input.
Tensor DefaultBound(DType dtype, int port) {
  switch (dtype) {
    case DType::kDouble:
      return Limit<double>(port);
    case DType::kFloat16:
      return Tensor::Scalar(Float16{static_cast<uint16_t>(port == 1 ? 0xFBFF : 0x7BFF)});
    case DType::kBfloat16:
      return Tensor::Scalar(Bfloat16{static_cast<uint16_t>(port == 1 ? 0xFF7F : 0x7F7F)});
    case DType::kInt8:
      return Limit<int8_t>(port);
    case DType::kInt16:
      return Limit<int16_t>(port);
    case DType::kInt32:
      return Limit<int32_t>(port);
    case DType::kInt64:
      return Limit<int64_t>(port);
    case DType::kUint8:
      return Limit<uint8_t>(port);
    case DType::kUint16:
      return Limit<uint16_t>(port);
    case DType::kUint32:
      return Limit<uint32_t>(port);
    case DType::kUint64:
      return Limit<uint64_t>(port);
    default:
      return Limit<float>(port);
  }
}

// An attribute of opset 6 in the type of the input.
Tensor BoundOf(DType dtype, float bound) {
  switch (dtype) {
    case DType::kDouble:
      return Tensor::Scalar<double>(bound);
    case DType::kFloat16:
      return Tensor::Scalar(ToFloat16(bound));
    case DType::kBfloat16:
      return Tensor::Scalar(ToBfloat16(bound));
    default:
      return Tensor::Scalar<float>(bound);
  }
}

class Clip final : public Operator {
 public:
  Clip(float low, float high) : low_(low), high_(high) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    constexpr float kLargest = std::numeric_limits<float>::max();
    if (reader.opset() >= 11) return std::make_shared<const Clip>(-kLargest, kLargest);
    if (reader.inputs() > 1) {
      reader.Fail(InvalidArgument("it has {} inputs where 1 input is expected before opset 11",
                                  reader.inputs()));
    }
    const float low = reader.Float("min", -kLargest);
    return std::make_shared<const Clip>(low, reader.Float("max", kLargest));
  }

  Status Infer(InferContext& context) const override {
    const bool attributes = context.node().opset < 11;
    RETURN_IF_ERROR(CheckDType(context, 0, [attributes](DType dtype) {
      if (attributes && !IsFloating(dtype)) return false;
      return FindClip(dtype, Isa::kReference) != nullptr;
    }));
    for (int port = 1; port <= 2; ++port) {
      if (!context.has_input(port)) continue;
      RETURN_IF_ERROR(CheckSameDType(context, port, 0));
      const graph::DimVector* dims = context.dims(port);
      const bool one = dims == nullptr || dims->empty() ||
                       (dims->size() == 1 && !((*dims)[0].is_number() && (*dims)[0].number() != 1));
      if (!one) {
        return InvalidArgument("input {} has shape {} where a scalar is expected", port,
                               graph::ToString(*dims));
      }
    }
    context.SetOutput(0, context.input(0).dtype, context.input(0).dims);
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const DType dtype = context.input(0).dtype;
    const bool attributes = context.node().opset < 11;
    std::vector<RowOperand> operands = {
        {0, Tensor()},
        {1, attributes ? BoundOf(dtype, low_) : DefaultBound(dtype, 1)},
        {2, attributes ? BoundOf(dtype, high_) : DefaultBound(dtype, 2)}};
    return std::make_unique<ElementwiseStep>(ElementwiseName(context),
                                             kernels::RowKernel{FindClip(dtype, context.isa()), {}},
                                             std::move(operands));
  }

  Traits traits() const override {
    return {.elementwise = true, .in_place = true, .layout = LayoutRule::kFollow};
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return ElementwiseCost(shapes, dtype, 1);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    for (size_t port = 1; port < query.axes.size(); ++port) {
      if (query.axes[port]) return BatchAnswer::Decline("a bound carries the batch");
    }
    return BatchAnswer::All(query, query.axes[0]);
  }

 private:
  float low_;
  float high_;
};

}  // namespace

void RegisterClip(OpRegistry& registry) {
  registry.Add({.op_type = "Clip",
                .versions = {6, 11, 12, 13},
                .max_inputs = 3,
                .parse = Clip::Parse,
                .doc = "Limits every element to a range."});
}

}  // namespace tandem::ops
