// Conv (ai.onnx, opsets 1, 11, 22): convolution of N x C x D1 x ... with filters M x C/group x K1 x
// ..., in one to three spatial axes. float32 runs as an indirect matrix product or as a depthwise
// kernel over channels-last activations; float64 on the reference kernel.
#include "engine/kernels/conv/conv.h"

#include <algorithm>
#include <cstring>

#include "engine/kernels/depthwise/depthwise.h"
#include "engine/kernels/gemm/gemm.h"
#include "engine/kernels/move/permute.h"
#include "engine/ops/epilogue.h"
#include "engine/ops/registry.h"
#include "engine/ops/window.h"

namespace tandem::ops {
namespace {

constexpr int kX = 0;
constexpr int kW = 1;
constexpr int kBias = 2;
constexpr int kOwnInputs = 3;

struct ConvAttributes {
  WindowAttributes window;
  int64_t group = 1;
};

// The geometry for concrete shapes, which Infer has checked.
kernels::ConvGeometry GeometryOf(const ConvAttributes& attributes, const Shape& x, const Shape& w) {
  kernels::ConvGeometry geometry;
  geometry.batch = x[0];
  geometry.in_channels = x[1];
  geometry.out_channels = w[0];
  geometry.group = attributes.group;
  StatusOr<kernels::WindowAxes> axes =
      ResolveWindow(attributes.window, w.dims().subspan(2), x.dims().subspan(2));
  CHECK(axes.ok(), "{}", Message(axes.status()));
  geometry.axes = kernels::PadAxes(*std::move(axes));
  return geometry;
}

// What the weights alone say; enough to pack them.
kernels::ConvGeometry GeometryOfWeights(int64_t group, const Shape& w) {
  kernels::ConvGeometry geometry;
  geometry.in_channels = w[1] * group;
  geometry.out_channels = w[0];
  geometry.group = group;
  for (const int64_t extent : w.dims().subspan(2)) {
    geometry.axes.push_back({.kernel = extent});
  }
  geometry.axes = kernels::PadAxes(std::move(geometry.axes));
  return geometry;
}

// Hands out consecutive aligned parts of the scratch memory; with no memory it only counts.
class ScratchPlan {
 public:
  explicit ScratchPlan(std::byte* base) : base_(base) {}
  std::byte* Take(int64_t elements, size_t element_size) {
    const size_t offset = bytes_;
    bytes_ += AlignUp(static_cast<size_t>(elements) * element_size);
    return base_ == nullptr ? nullptr : base_ + offset;
  }
  float* TakeFloats(int64_t elements) {
    return reinterpret_cast<float*>(Take(elements, sizeof(float)));
  }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  size_t bytes_ = 0;
};

class ConvStep final : public Step {
 public:
  static StatusOr<std::unique_ptr<Step>> Make(const ConvAttributes& attributes,
                                              BindContext& context);

  std::string kernel() const override {
    if (dtype_ == DType::kDouble) return "conv.f64 reference";
    if (isa_ == Isa::kReference) return "conv.f32 reference";
    if (pack_ == nullptr) return fmt::format("conv.f32 {} packing at run time", IsaName(isa_));
    return fmt::format("{} {}", pack_->key, IsaName(isa_));
  }

  size_t ScratchBytes(const StepShapes& shapes) const override {
    const Shape& w = weight_shape_ ? *weight_shape_ : shapes.inputs[kW];
    return Layout(shapes.inputs[kX], w, nullptr).bytes;
  }

  Status Run(StepContext& context) const override;

 private:
  // Parts of the scratch memory; null where nothing is converted or packed.
  struct Parts {
    std::byte* x = nullptr;
    std::byte* y = nullptr;
    float* zeros = nullptr;
    float* packed = nullptr;
    std::vector<float*> operands;  // one for each stage
    size_t bytes = 0;
  };

  Parts Layout(const Shape& x, const Shape& w, std::byte* base) const;
  RunStages Stages(StepContext& context, const kernels::ConvGeometry& geometry,
                   const Parts& parts) const;
  void RunDouble(StepContext& context, const kernels::ConvGeometry& geometry, const double* x,
                 double* y) const;
  void RunFloat(StepContext& context, const kernels::ConvGeometry& geometry,
                const kernels::ConvData& data, float* packed) const;
  size_t element_size() const { return DTypeBits(dtype_) / 8; }
  PackSpec Spec(const Shape& w) const;

  ConvAttributes attributes_;
  Isa isa_ = Isa::kReference;
  DType dtype_ = DType::kFloat;
  bool has_bias_ = false;
  bool convert_x_ = false;
  bool convert_y_ = false;
  std::vector<bool> convert_operand_;  // by stage
  BoundStages stages_;
  PackRef pack_;                       // null: packed in each run, or not at all
  std::optional<Shape> weight_shape_;  // of packed weights
};

StatusOr<std::unique_ptr<Step>> ConvStep::Make(const ConvAttributes& attributes,
                                               BindContext& context) {
  auto step = std::make_unique<ConvStep>();
  step->attributes_ = attributes;
  step->isa_ = context.isa();
  step->dtype_ = context.input(kX).dtype;
  if (step->dtype_ != DType::kFloat && step->dtype_ != DType::kDouble) {
    return Unimplemented("Conv has no kernel for {}; float and double are supported",
                         DTypeName(step->dtype_));
  }
  if (context.input(kX).rank() > 2 + kernels::kConvAxes) {
    return Unimplemented("Conv has no kernel for {} spatial axes; 1 to {} are supported",
                         context.input(kX).rank() - 2, kernels::kConvAxes);
  }
  step->has_bias_ = context.has_input(kBias);
  step->convert_x_ = context.input_layout(kX) == tandem::Layout::kNative;
  step->convert_y_ = context.output_layout(0) == tandem::Layout::kNative;
  ASSIGN_OR_RETURN(step->stages_, BindStages(context.node()));
  for (const BoundStage& stage : step->stages_) {
    step->convert_operand_.push_back(stage.port >= 0 &&
                                     context.input_layout(stage.port) == tandem::Layout::kNative);
  }
  const bool packs = step->isa_ != Isa::kReference && step->dtype_ == DType::kFloat;
  if (const graph::ConstantRef weights = context.constant(kW); packs && weights != nullptr) {
    step->weight_shape_ = weights->shape();
    ASSIGN_OR_RETURN(step->pack_, context.MakePack(kW, step->Spec(*step->weight_shape_)));
  }
  return step;
}

PackSpec ConvStep::Spec(const Shape& w) const {
  const kernels::ConvGeometry geometry = GeometryOfWeights(attributes_.group, w);
  PackSpec spec;
  if (kernels::IsDepthwise(geometry)) {
    spec.kernel = "conv.depthwise.f32";
    spec.parameters = "taps,channels";
    spec.bytes = static_cast<size_t>(w.elements()) * sizeof(float);
    spec.fill = [geometry](const TensorView& native, std::span<std::byte> packed) {
      kernels::PackDepthwiseWeights(geometry, native.data<float>(),
                                    reinterpret_cast<float*>(packed.data()));
    };
    return spec;
  }
  spec.kernel = "conv.igemm.f32";
  spec.parameters = fmt::format("panel={} group={} taps,channels", kernels::PanelColumns(isa_),
                                attributes_.group);
  spec.bytes = static_cast<size_t>(kernels::PackedConvFloats(isa_, geometry)) * sizeof(float);
  spec.fill = [geometry, isa = isa_](const TensorView& native, std::span<std::byte> packed) {
    kernels::PackConvWeights(isa, geometry, native.data<float>(),
                             reinterpret_cast<float*>(packed.data()));
  };
  return spec;
}

ConvStep::Parts ConvStep::Layout(const Shape& x, const Shape& w, std::byte* base) const {
  const kernels::ConvGeometry geometry = GeometryOf(attributes_, x, w);
  const int64_t out = geometry.batch * geometry.out_pixels() * geometry.out_channels;
  ScratchPlan plan(base);
  Parts parts;
  if (convert_x_) parts.x = plan.Take(x.elements(), element_size());
  if (convert_y_) parts.y = plan.Take(out, element_size());
  for (const bool convert : convert_operand_) {
    parts.operands.push_back(convert ? plan.TakeFloats(out) : nullptr);
  }
  parts.zeros = plan.TakeFloats(geometry.in_per_group());
  if (pack_ == nullptr && isa_ != Isa::kReference && dtype_ == DType::kFloat) {
    parts.packed = plan.TakeFloats(
        kernels::IsDepthwise(geometry) ? w.elements() : kernels::PackedConvFloats(isa_, geometry));
  }
  parts.bytes = plan.bytes();
  return parts;
}

kernels::LayoutConversion Conversion(const kernels::ConvGeometry& geometry, int64_t channels,
                                     int64_t pixels, size_t element_size) {
  return {.items = geometry.batch,
          .channels = channels,
          .spatial = pixels,
          .element_size = static_cast<int>(element_size)};
}

RunStages ConvStep::Stages(StepContext& context, const kernels::ConvGeometry& geometry,
                           const Parts& parts) const {
  RunStages run;
  if (has_bias_) {
    run.Add({kernels::EpilogueOp::kAdd, kernels::OperandKind::kColumn},
            {context.input(kBias).data<float>(), 0});
  }
  const Shape& result = context.output(0).shape();
  for (size_t i = 0; i < stages_.size(); ++i) {
    kernels::EpilogueStage stage = stages_[i].stage;
    if (stages_[i].port < 0) {
      run.Add(stage, {});
      continue;
    }
    const TensorView& operand = context.input(stages_[i].port);
    stage.kind = OperandKindOf(operand.shape(), result, ColumnAxis::kChannels);
    const float* data = operand.data<float>();
    if (stage.kind == kernels::OperandKind::kFull && convert_operand_[i]) {
      kernels::ConvertLayout(Conversion(geometry, geometry.out_channels, geometry.out_pixels(), 4),
                             data, parts.operands[i], context.parallel());
      data = parts.operands[i];
    }
    run.Add(stage, {data, geometry.out_channels});
  }
  return run;
}

void ConvStep::RunDouble(StepContext& context, const kernels::ConvGeometry& geometry,
                         const double* x, double* y) const {
  kernels::ConvReference(geometry, context.input(kW).data<double>(), x, y);
  if (!has_bias_) return;
  const double* bias = context.input(kBias).data<double>();
  const int64_t pixels = geometry.batch * geometry.out_pixels();
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    for (int64_t m = 0; m < geometry.out_channels; ++m) *y++ += bias[m];
  }
}

void ConvStep::RunFloat(StepContext& context, const kernels::ConvGeometry& geometry,
                        const kernels::ConvData& data, float* packed) const {
  if (isa_ == Isa::kReference) {
    kernels::ConvReference(geometry, context.input(kW).data<float>(), data);
    return;
  }
  const bool depthwise = kernels::IsDepthwise(geometry);
  const float* weights = packed;
  if (pack_ != nullptr) {
    weights = reinterpret_cast<const float*>(pack_->buffer.data());
  } else if (depthwise) {
    kernels::PackDepthwiseWeights(geometry, context.input(kW).data<float>(), packed);
  } else {
    kernels::PackConvWeights(isa_, geometry, context.input(kW).data<float>(), packed);
  }
  if (depthwise) {
    kernels::Depthwise(isa_, geometry, weights, data, context.parallel());
  } else {
    kernels::Conv(isa_, geometry, weights, data, context.parallel());
  }
}

Status ConvStep::Run(StepContext& context) const {
  const TensorView& x = context.input(kX);
  const MutableTensorView& y = context.output(0);
  const Shape& w = weight_shape_ ? *weight_shape_ : context.input(kW).shape();
  const kernels::ConvGeometry geometry = GeometryOf(attributes_, x.shape(), w);
  const Parts parts = Layout(x.shape(), w, context.scratch().data());
  const void* in = x.raw();
  if (convert_x_) {
    kernels::ConvertLayout(
        Conversion(geometry, geometry.in_channels, geometry.in_pixels(), element_size()), in,
        parts.x, context.parallel());
    in = parts.x;
  }
  void* out = convert_y_ ? static_cast<void*>(parts.y) : y.mutable_raw();
  if (dtype_ == DType::kDouble) {
    RunDouble(context, geometry, static_cast<const double*>(in), static_cast<double*>(out));
  } else {
    std::fill_n(parts.zeros, geometry.in_per_group(), 0.0f);
    const RunStages run = Stages(context, geometry, parts);
    RunFloat(context, geometry,
             {.x = static_cast<const float*>(in),
              .y = static_cast<float*>(out),
              .zeros = parts.zeros,
              .epilogue = &run.stages,
              .operands = run.operands.data()},
             parts.packed);
  }
  if (convert_y_) {
    kernels::LayoutConversion back =
        Conversion(geometry, geometry.out_channels, geometry.out_pixels(), element_size());
    back.direction = kernels::LayoutDirection::kChannelsLastToNative;
    kernels::ConvertLayout(back, out, y.mutable_raw(), context.parallel());
  }
  return absl::OkStatus();
}

class Conv final : public Operator {
 public:
  explicit Conv(ConvAttributes attributes) : attributes_(std::move(attributes)) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    ConvAttributes attributes;
    attributes.window = ReadWindow(reader, kWindowDilations);
    attributes.group = reader.Int("group", 1);
    if (attributes.group < 1) {
      reader.Fail(InvalidArgument("attribute 'group' is {} where a positive number is expected",
                                  attributes.group));
      attributes.group = 1;
    }
    return std::make_shared<const Conv>(std::move(attributes));
  }

  Status Infer(InferContext& context) const override;

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    return ConvStep::Make(attributes_, context);
  }

  Traits traits() const override { return {.layout = LayoutRule::kChannelsLast}; }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    const Shape& w = shapes.inputs[kW];
    const auto outputs = static_cast<double>(shapes.outputs[0].elements());
    const auto elements =
        static_cast<double>(shapes.inputs[kX].elements() + w.elements()) + outputs;
    return {.multiply_adds = outputs * static_cast<double>(w.Product(1, w.rank())),
            .bytes = elements * static_cast<double>(DTypeBits(dtype)) / 8};
  }

  Decision TryFuseEpilogue(const EpilogueRequest& request) const override {
    return TryFuseStage(request, ColumnAxis::kChannels);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    for (int port = kW; port < kOwnInputs && static_cast<size_t>(port) < query.axes.size();
         ++port) {
      if (query.axes[static_cast<size_t>(port)]) {
        return BatchAnswer::Decline("the weights of Conv carry the batch");
      }
    }
    if (query.axes[kX] != 0) {
      return BatchAnswer::Decline("the batch of Conv's input is not on axis 0");
    }
    const int rank = query.inputs[kX]->rank();
    if (std::optional<std::string> reason = OperandsMixBatch(query, kOwnInputs, 0, rank)) {
      return BatchAnswer::Decline(*std::move(reason));
    }
    return BatchAnswer::All(query, 0);
  }

 private:
  Status CheckChannels(const graph::DimVector& x, const graph::DimVector& w) const;
  Status CheckBias(const InferContext& context, const graph::DimVector* w) const;
  Status CheckKernel(std::span<const int64_t> kernel) const;

  ConvAttributes attributes_;
};

Status Conv::CheckChannels(const graph::DimVector& x, const graph::DimVector& w) const {
  const int64_t group = attributes_.group;
  if (w[0].is_number() && w[0].number() % group != 0) {
    return InvalidArgument("W has {} output channels, not a multiple of group {}", w[0].number(),
                           group);
  }
  if (x[1].is_number() && w[1].is_number() && x[1].number() != w[1].number() * group) {
    return InvalidArgument("X has {} channels where W of shape {} and group {} expect {}",
                           x[1].number(), graph::ToString(w), group, w[1].number() * group);
  }
  return absl::OkStatus();
}

Status Conv::CheckBias(const InferContext& context, const graph::DimVector* w) const {
  const graph::DimVector* bias = context.dims(kBias);
  if (bias == nullptr) return absl::OkStatus();
  const bool differs = bias->size() == 1 && w != nullptr && (*bias)[0].is_number() &&
                       (*w)[0].is_number() && (*bias)[0].number() != (*w)[0].number();
  if (bias->size() == 1 && !differs) return absl::OkStatus();
  return InvalidArgument("B has shape {} where [{}] is expected", graph::ToString(*bias),
                         w == nullptr ? "output channels" : graph::ToString((*w)[0]));
}

Status Conv::CheckKernel(std::span<const int64_t> kernel) const {
  const std::vector<int64_t>& declared = attributes_.window.kernel;
  if (declared.empty() || std::ranges::equal(declared, kernel)) return absl::OkStatus();
  return InvalidArgument("attribute 'kernel_shape' is {} where W has {}", ToString(Shape(declared)),
                         ToString(Shape(kernel)));
}

Status Conv::Infer(InferContext& context) const {
  const DType dtype = context.input(kX).dtype;
  if (!IsFloating(dtype)) {
    return InvalidArgument("X is {} where a floating type is expected", DTypeName(dtype));
  }
  for (const int port : {kW, kBias}) {
    if (!context.has_input(port) || context.input(port).dtype == dtype) continue;
    return InvalidArgument("input {} is {} where X is {}", port,
                           DTypeName(context.input(port).dtype), DTypeName(dtype));
  }
  const graph::DimVector* x = context.dims(kX);
  const graph::DimVector* w = context.dims(kW);
  if (x != nullptr && x->size() < 3) {
    return InvalidArgument("X has shape {} where rank 3 or more is expected", graph::ToString(*x));
  }
  if (w != nullptr && w->size() < 3) {
    return InvalidArgument("W has shape {} where rank 3 or more is expected", graph::ToString(*w));
  }
  if (x != nullptr && w != nullptr && x->size() != w->size()) {
    return InvalidArgument("X has shape {} and W {} where equal ranks are expected",
                           graph::ToString(*x), graph::ToString(*w));
  }
  RETURN_IF_ERROR(CheckBias(context, w));
  if (x == nullptr) {
    context.SetOutput(0, dtype, std::nullopt);
    return absl::OkStatus();
  }
  graph::DimVector out = {(*x)[0], w == nullptr ? graph::Dim() : (*w)[0]};
  if (w != nullptr) RETURN_IF_ERROR(CheckChannels(*x, *w));
  Dims kernel(attributes_.window.kernel.begin(), attributes_.window.kernel.end());
  if (w != nullptr) {
    const std::optional<Shape> extents = graph::ToShape(graph::DimVector(w->begin() + 2, w->end()));
    if (extents) {
      kernel = Dims(extents->dims().begin(), extents->dims().end());
      RETURN_IF_ERROR(CheckKernel(kernel));
    }
  }
  if (kernel.empty()) {
    out.resize(x->size());
  } else {
    ASSIGN_OR_RETURN(const graph::DimVector spatial,
                     InferWindow(attributes_.window, kernel, std::span(*x).subspan(2)));
    out.insert(out.end(), spatial.begin(), spatial.end());
  }
  context.SetOutput(0, dtype, std::move(out));
  return absl::OkStatus();
}

}  // namespace

void RegisterConv(OpRegistry& registry) {
  registry.Add({.op_type = "Conv",
                .versions = {1, 11, 22},
                .min_inputs = 2,
                .max_inputs = kOwnInputs,
                .parse = Conv::Parse,
                .doc = "Convolution with filters, in groups, with an optional bias."});
}

}  // namespace tandem::ops
