// ConvInteger (ai.onnx, opset 10): convolution of 8-bit integers in int32,
// after their zero points have been taken off; the padding counts as zero
// points. QLinearConv (opset 10): the same sums and an int32 bias, scaled and
// rounded back to 8 bits. x has one scale and zero point; w has one or one for
// each filter.
#include <algorithm>

#include "engine/kernels/quant/integer.h"
#include "engine/ops/conv_shape.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

// Where the inputs of an operator are; -1 where it has none.
struct IntegerPorts {
  int x = 0;
  int w = 1;
  int x_zero = 2;
  int w_zero = 3;
  int x_scale = -1;
  int w_scale = -1;
  int y_scale = -1;
  int y_zero = -1;
  int bias = -1;

  bool rounds_back() const { return y_scale >= 0; }
};
constexpr IntegerPorts kPlainPorts;
constexpr IntegerPorts kLinearPorts{0, 3, 2, 5, 1, 4, 6, 7, 8};

bool IsByte(DType dtype) { return dtype == DType::kInt8 || dtype == DType::kUint8; }

class ConvIntegerStep final : public Step {
 public:
  ConvIntegerStep(ConvAttributes attributes, const IntegerPorts& ports, const BindContext& context)
      : attributes_(std::move(attributes)), ports_(ports) {
    for (int* port : {&ports_.x_zero, &ports_.w_zero, &ports_.bias}) {
      if (*port >= 0 && !context.has_input(*port)) *port = -1;
    }
  }

  std::string kernel() const override {
    return ports_.rounds_back() ? "integer_conv to 8 bits" : "integer_conv";
  }

  // For rounding back: the sums.
  size_t ScratchBytes(const StepShapes& shapes) const override {
    if (!ports_.rounds_back()) return 0;
    return static_cast<size_t>(shapes.outputs[0].elements()) * sizeof(int32_t);
  }

  Status Run(StepContext& context) const override {
    const kernels::QuantizedOperand x = OperandOf(context, ports_.x, ports_.x_zero);
    const kernels::QuantizedOperand w = OperandOf(context, ports_.w, ports_.w_zero);
    const kernels::ConvGeometry geometry = ConvGeometryOf(
        attributes_, context.input(ports_.x).shape(), context.input(ports_.w).shape());
    int32_t* sums = ports_.rounds_back() ? reinterpret_cast<int32_t*>(context.scratch().data())
                                         : context.output(0).mutable_data<int32_t>();
    kernels::IntegerConv(geometry, x, w, sums, context.parallel());
    if (ports_.rounds_back()) RoundBack(context, geometry, sums);
    return absl::OkStatus();
  }

 private:
  static kernels::QuantizedOperand OperandOf(const StepContext& context, int port, int zero_port) {
    const TensorView& view = context.input(port);
    kernels::QuantizedOperand operand{view.dtype(), view.raw()};
    if (zero_port < 0) return operand;
    operand.zero_points = context.input(zero_port).raw();
    operand.zero_point_step = context.input(zero_port).elements() == 1 ? 0 : 1;
    return operand;
  }

  void RoundBack(StepContext& context, const kernels::ConvGeometry& geometry,
                 const int32_t* sums) const {
    const float x_scale = *context.input(ports_.x_scale).data<float>();
    const float y_scale = *context.input(ports_.y_scale).data<float>();
    const TensorView& w_scale = context.input(ports_.w_scale);
    const MutableTensorView& y = context.output(0);
    const int64_t pixels = geometry.out_pixels();
    const int64_t step = w_scale.elements() == 1 ? 0 : 1;
    for (int64_t plane = 0; plane < geometry.batch * geometry.out_channels; ++plane) {
      const int64_t channel = plane % geometry.out_channels;
      const float multiplier = x_scale * w_scale.data<float>()[channel * step] / y_scale;
      const int32_t* bias =
          ports_.bias < 0 ? nullptr : context.input(ports_.bias).data<int32_t>() + channel;
      kernels::Requantize({sums + plane * pixels, bias, 0, &multiplier, 0, pixels},
                          context.input(ports_.y_zero).raw(), y.dtype(),
                          static_cast<std::byte*>(y.mutable_raw()) + plane * pixels);
    }
  }

  ConvAttributes attributes_;
  IntegerPorts ports_;
};

class ConvInteger final : public Operator {
 public:
  ConvInteger(ConvAttributes attributes, const IntegerPorts& ports)
      : attributes_(std::move(attributes)), ports_(ports) {}

  static std::shared_ptr<const Operator> ParsePlain(NodeReader& reader) {
    return std::make_shared<const ConvInteger>(ReadConvAttributes(reader), kPlainPorts);
  }
  static std::shared_ptr<const Operator> ParseLinear(NodeReader& reader) {
    return std::make_shared<const ConvInteger>(ReadConvAttributes(reader), kLinearPorts);
  }

  Status Infer(InferContext& context) const override {
    for (const int port : {ports_.x, ports_.w}) RETURN_IF_ERROR(CheckDType(context, port, IsByte));
    if (context.has_input(ports_.x_zero)) {
      RETURN_IF_ERROR(CheckSameDType(context, ports_.x_zero, ports_.x));
      RETURN_IF_ERROR(CheckElements(context, ports_.x_zero, 1));
    }
    const graph::DimVector* w = context.dims(ports_.w);
    const graph::Dim filters = w == nullptr || w->empty() ? graph::Dim() : (*w)[0];
    if (context.has_input(ports_.w_zero)) {
      RETURN_IF_ERROR(CheckSameDType(context, ports_.w_zero, ports_.w));
      RETURN_IF_ERROR(CheckElements(context, ports_.w_zero, filters));
    }
    DType output = DType::kInt32;
    if (ports_.rounds_back()) {
      RETURN_IF_ERROR(CheckRoundingInputs(context, filters));
      output = context.input(ports_.y_zero).dtype;
    }
    ASSIGN_OR_RETURN(std::optional<graph::DimVector> dims,
                     InferConvDims(attributes_, context.dims(ports_.x), w));
    context.SetOutput(0, output, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    RETURN_IF_ERROR(CheckConvAxes(context, ports_.x));
    return std::make_unique<ConvIntegerStep>(attributes_, ports_, context);
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    const Shape& w = shapes.inputs[static_cast<size_t>(ports_.w)];
    return ConvCost({shapes.inputs[static_cast<size_t>(ports_.x)], w, shapes.outputs[0]},
                    w.Product(1, w.rank()), dtype);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    for (size_t port = 1; port < query.axes.size(); ++port) {
      if (query.axes[port]) {
        return BatchAnswer::Decline(fmt::format("input {} carries the batch", port));
      }
    }
    if (query.axes[0] == 0) return BatchAnswer::All(query, 0);
    return BatchAnswer::Decline(
        fmt::format("axis {} is convolved or holds channels", *query.axes[0]));
  }

 private:
  // One element or as many as `most`.
  static Status CheckElements(const InferContext& context, int port, const graph::Dim& most) {
    const graph::DimVector* dims = context.dims(port);
    if (dims == nullptr) return absl::OkStatus();
    const graph::Dim elements = graph::Product(*dims, 0, static_cast<int>(dims->size()));
    if (MayEqual(elements, 1) || (dims->size() == 1 && MayEqual(elements, most))) {
      return absl::OkStatus();
    }
    return InvalidArgument(
        "input {} has shape {} where {} is expected", port, graph::ToString(*dims),
        most.SameAs(1) ? "one element" : fmt::format("one element or [{}]", ToString(most)));
  }

  Status CheckRoundingInputs(const InferContext& context, const graph::Dim& filters) const {
    for (const int port : {ports_.x_scale, ports_.w_scale, ports_.y_scale}) {
      RETURN_IF_ERROR(
          CheckDType(context, port, [](DType dtype) { return dtype == DType::kFloat; }));
    }
    RETURN_IF_ERROR(CheckDType(context, ports_.y_zero, IsByte));
    for (const int port : {ports_.x_scale, ports_.y_scale, ports_.y_zero}) {
      RETURN_IF_ERROR(CheckElements(context, port, 1));
    }
    RETURN_IF_ERROR(CheckElements(context, ports_.w_scale, filters));
    if (!context.has_input(ports_.bias)) return absl::OkStatus();
    RETURN_IF_ERROR(
        CheckDType(context, ports_.bias, [](DType dtype) { return dtype == DType::kInt32; }));
    return CheckConvBias(context.dims(ports_.bias), filters);
  }

  ConvAttributes attributes_;
  IntegerPorts ports_;
};

}  // namespace

void RegisterConvInteger(OpRegistry& registry) {
  registry.Add({.op_type = "ConvInteger",
                .versions = {10},
                .min_inputs = 2,
                .max_inputs = 4,
                .parse = ConvInteger::ParsePlain,
                .doc = "Convolution of 8-bit integers, in int32."});
  registry.Add({.op_type = "QLinearConv",
                .versions = {10},
                .min_inputs = 8,
                .max_inputs = 9,
                .parse = ConvInteger::ParseLinear,
                .doc = "Convolution of quantised integers, quantised."});
}

}  // namespace tandem::ops
