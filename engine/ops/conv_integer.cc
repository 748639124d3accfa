// ConvInteger (ai.onnx, opset 10): convolution of 8-bit integers in int32,
// after their zero points have been taken off; the padding counts as zero
// points. QLinearConv (opset 10): the same sums and an int32 bias, scaled and
// rounded back to 8 bits. x has one scale and zero point; w has one or one for
// each filter.
#include <algorithm>

#include "engine/kernels/move/permute.h"
#include "engine/ops/conv_shape.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/integer_product.h"
#include "engine/ops/registry.h"
#include "engine/ops/scratch_plan.h"

namespace tandem::ops {
namespace {

class ConvIntegerStep final : public Step {
 public:
  static StatusOr<std::unique_ptr<Step>> Make(const ConvAttributes& attributes,
                                              const IntegerPorts& ports, BindContext& context);

  std::string kernel() const override {
    return fmt::format("{} {}{}",
                       pack_ == nullptr ? "conv.integer packing at run time" : pack_->key,
                       IsaName(isa_), ports_.rounds_back() ? " to 8 bits" : "");
  }

  size_t ScratchBytes(const StepShapes& shapes) const override {
    const auto input = [&shapes](int port) { return shapes.inputs[static_cast<size_t>(port)]; };
    const Shape w = weight_shape_ ? *weight_shape_ : input(ports_.w);
    return Layout(ConvGeometryOf(attributes_, input(ports_.x), w), nullptr).bytes;
  }

  Status Run(StepContext& context) const override;

 private:
  // Parts of the scratch memory; null where nothing is converted, packed or scaled.
  struct Parts {
    std::byte* x = nullptr;
    std::byte* y = nullptr;
    std::byte* packed = nullptr;
    float* multipliers = nullptr;
    std::byte* kernel = nullptr;
    size_t bytes = 0;
  };

  Parts Layout(const kernels::ConvGeometry& geometry, std::byte* base) const;
  kernels::QuantizedOperand OperandOf(const StepContext& context, int port, int zero_port) const;
  kernels::IntegerResult ResultOf(const StepContext& context, const kernels::ConvGeometry& geometry,
                                  float* multipliers) const;
  size_t y_size() const { return ports_.rounds_back() ? 1 : sizeof(int32_t); }

  ConvAttributes attributes_;
  IntegerPorts ports_;
  Isa isa_ = Isa::kReference;
  DType w_dtype_ = DType::kInt8;
  bool convert_x_ = false;
  bool convert_y_ = false;
  std::vector<graph::EpilogueStage> epilogue_;
  PackRef pack_;                       // null: packed in each run
  std::optional<Shape> weight_shape_;  // of packed weights
};

StatusOr<std::unique_ptr<Step>> ConvIntegerStep::Make(const ConvAttributes& attributes,
                                                      const IntegerPorts& ports,
                                                      BindContext& context) {
  auto step = std::make_unique<ConvIntegerStep>();
  step->attributes_ = attributes;
  step->ports_ = PresentPorts(ports, context);
  step->isa_ = context.isa();
  step->w_dtype_ = context.input(ports.w).dtype;
  step->convert_x_ = context.input_layout(ports.x) == tandem::Layout::kNative;
  step->convert_y_ = context.output_layout(0) == tandem::Layout::kNative;
  step->epilogue_ = context.node().epilogue;
  const graph::ConstantRef weights = context.constant(ports.w);
  if (weights == nullptr || step->isa_ == Isa::kReference) return step;
  step->weight_shape_ = weights->shape();
  const kernels::ConvGeometry geometry = ConvGeometryOfWeights(attributes, weights->shape());
  const PackSpec spec = IntegerPackSpec(
      step->isa_, context.input(ports.x).dtype, geometry, [geometry](const TensorView& native) {
        return kernels::NativeIntegerWeights(geometry, native.dtype(), native.raw());
      });
  ASSIGN_OR_RETURN(step->pack_, context.MakePack(ports.w, spec));
  return step;
}

ConvIntegerStep::Parts ConvIntegerStep::Layout(const kernels::ConvGeometry& geometry,
                                               std::byte* base) const {
  ScratchPlan plan(base);
  Parts parts;
  if (convert_x_) {
    parts.x = plan.Take(geometry.batch * geometry.in_pixels() * geometry.in_channels, 1);
  }
  if (convert_y_) {
    parts.y = plan.Take(geometry.batch * geometry.out_pixels() * geometry.out_channels, y_size());
  }
  if (pack_ == nullptr) {
    parts.packed = plan.Take(static_cast<int64_t>(kernels::PackedIntegerBytes(isa_, geometry)), 1);
  }
  if (ports_.rounds_back()) {
    parts.multipliers = plan.TakeFloats(geometry.out_channels + kernels::kMultiplierSlack);
  }
  parts.kernel =
      plan.Take(static_cast<int64_t>(kernels::IntegerConvScratchBytes(isa_, geometry)), 1);
  parts.bytes = plan.bytes();
  return parts;
}

kernels::QuantizedOperand ConvIntegerStep::OperandOf(const StepContext& context, int port,
                                                     int zero_port) const {
  const TensorView& view = context.input(port);
  kernels::QuantizedOperand operand{view.dtype(), view.raw()};
  if (port == ports_.w) operand.dtype = w_dtype_;
  if (zero_port < 0) return operand;
  operand.zero_points = context.input(zero_port).raw();
  operand.zero_point_step = context.input(zero_port).elements() == 1 ? 0 : 1;
  return operand;
}

kernels::IntegerResult ConvIntegerStep::ResultOf(const StepContext& context,
                                                 const kernels::ConvGeometry& geometry,
                                                 float* multipliers) const {
  kernels::IntegerResult result;
  result.dtype = context.output(0).dtype();
  if (!ports_.rounds_back()) return result;
  if (ports_.bias >= 0) result.bias = context.input(ports_.bias).data<int32_t>();
  const float x_scale = *context.input(ports_.x_scale).data<float>();
  const float y_scale = *context.input(ports_.y_scale).data<float>();
  const TensorView& w_scale = context.input(ports_.w_scale);
  const int64_t step = w_scale.elements() == 1 ? 0 : 1;
  for (int64_t m = 0; m < geometry.out_channels; ++m) {
    multipliers[m] = x_scale * w_scale.data<float>()[m * step] / y_scale;
  }
  std::fill_n(multipliers + geometry.out_channels, kernels::kMultiplierSlack, 0.0f);
  result.multipliers = multipliers;
  result.zero_point = ByteAt(context.input(ports_.y_zero), 0);
  const ByteRange range = ByteRangeOf(result.dtype, epilogue_);
  result.low = range.low;
  result.high = range.high;
  return result;
}

Status ConvIntegerStep::Run(StepContext& context) const {
  const TensorView& x = context.input(ports_.x);
  const MutableTensorView& y = context.output(0);
  const Shape& w = weight_shape_ ? *weight_shape_ : context.input(ports_.w).shape();
  const kernels::ConvGeometry geometry = ConvGeometryOf(attributes_, x.shape(), w);
  const Parts parts = Layout(geometry, context.scratch().data());
  kernels::LayoutConversion conversion{.items = geometry.batch,
                                       .channels = geometry.in_channels,
                                       .spatial = geometry.in_pixels(),
                                       .element_size = 1};
  kernels::IntegerConvData data{OperandOf(context, ports_.x, ports_.x_zero),
                                OperandOf(context, ports_.w, ports_.w_zero),
                                ResultOf(context, geometry, parts.multipliers)};
  if (convert_x_) {
    kernels::ConvertLayout(conversion, x.raw(), parts.x, context.parallel());
    data.x.data = parts.x;
  }
  if (parts.packed != nullptr) {
    kernels::PackIntegerWeights(isa_, x.dtype(), geometry,
                                kernels::NativeIntegerWeights(geometry, w_dtype_, data.w.data),
                                parts.packed);
  }
  data.result.y = convert_y_ ? static_cast<void*>(parts.y) : y.mutable_raw();
  const std::byte* packed = pack_ == nullptr ? parts.packed : pack_->buffer.data();
  kernels::IntegerConv(isa_, geometry, {packed, parts.kernel}, data, context.parallel());
  if (convert_y_) {
    conversion.channels = geometry.out_channels;
    conversion.spatial = geometry.out_pixels();
    conversion.element_size = static_cast<int>(y_size());
    conversion.direction = kernels::LayoutDirection::kChannelsLastToNative;
    kernels::ConvertLayout(conversion, parts.y, y.mutable_raw(), context.parallel());
  }
  return absl::OkStatus();
}

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
    return ConvIntegerStep::Make(attributes_, ports_, context);
  }

  Traits traits() const override { return {.layout = LayoutRule::kChannelsLast}; }

  ConstantUse UseOfConstant(int port, DType) const override {
    return port == ports_.w ? ConstantUse::kPacked : ConstantUse::kNative;
  }

  Decision TryFuseEpilogue(const EpilogueRequest& request) const override {
    return ports_.rounds_back() ? TryFuseByteClip(request) : Decision();
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
