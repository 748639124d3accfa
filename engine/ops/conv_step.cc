#include "engine/ops/conv_step.h"

#include <algorithm>
#include <vector>

#include "engine/kernels/move/permute.h"
#include "engine/ops/conv_shape.h"
#include "engine/ops/epilogue.h"
#include "engine/ops/scratch_plan.h"

namespace tandem::ops {
namespace {

class ConvStep final : public Step {
 public:
  static StatusOr<std::unique_ptr<Step>> Make(std::shared_ptr<const ConvForm> form,
                                              BindContext& context);

  std::string kernel() const override {
    if (dtype_ == DType::kDouble) return "conv.f64 reference";
    if (arithmetic_.isa == Isa::kReference) return "conv.f32 reference";
    if (pack_ == nullptr)
      return fmt::format("conv.f32 {} packing at run time", IsaName(arithmetic_.isa));
    return fmt::format("{} {}", pack_->key, IsaName(arithmetic_.isa));
  }

  size_t ScratchBytes(const StepShapes& shapes) const override {
    const Shape& w = weight_shape_ ? *weight_shape_ : shapes.inputs[kConvW];
    return Layout({shapes.inputs[kConvX], w, shapes.threads}, nullptr).bytes;
  }

  Status Run(StepContext& context) const override;

 private:
  // Parts of the scratch memory; null where nothing is converted or packed.
  struct Parts {
    std::byte* x = nullptr;
    std::byte* y = nullptr;
    float* zeros = nullptr;
    float* packed = nullptr;
    float* form = nullptr;
    std::vector<float*> operands;  // one for each stage
    size_t bytes = 0;
  };

  struct Sizes {
    const Shape& x;
    const Shape& w;
    int threads;
  };

  Parts Layout(const Sizes& sizes, std::byte* base) const;
  RunStages Stages(StepContext& context, const kernels::ConvGeometry& geometry,
                   const Parts& parts) const;
  void RunDouble(StepContext& context, const kernels::ConvGeometry& geometry, const double* x,
                 double* y) const;
  void RunFloat(StepContext& context, const kernels::ConvGeometry& geometry,
                const kernels::ConvData& data, const Parts& parts) const;
  size_t element_size() const { return DTypeBits(dtype_) / 8; }

  std::shared_ptr<const ConvForm> form_;
  Arithmetic arithmetic_;
  DType dtype_ = DType::kFloat;
  bool has_bias_ = false;
  bool convert_x_ = false;
  bool convert_y_ = false;
  std::vector<bool> convert_operand_;  // by stage
  BoundStages stages_;
  PackRef pack_;                       // null: packed in each run, or not at all
  std::optional<Shape> weight_shape_;  // of packed weights
};

StatusOr<std::unique_ptr<Step>> ConvStep::Make(std::shared_ptr<const ConvForm> form,
                                               BindContext& context) {
  auto step = std::make_unique<ConvStep>();
  step->form_ = std::move(form);
  step->arithmetic_ = context.arithmetic();
  step->dtype_ = context.input(kConvX).dtype;
  if (step->dtype_ != DType::kFloat && step->dtype_ != DType::kDouble) {
    return Unimplemented("{} has no kernel for {}; float and double are supported",
                         context.node().op_type, DTypeName(step->dtype_));
  }
  RETURN_IF_ERROR(CheckConvAxes(context, kConvX));
  step->has_bias_ = context.has_input(kConvBias);
  step->convert_x_ = context.input_layout(kConvX) == tandem::Layout::kNative;
  step->convert_y_ = context.output_layout(0) == tandem::Layout::kNative;
  ASSIGN_OR_RETURN(step->stages_, BindStages(context.node()));
  for (const BoundStage& stage : step->stages_) {
    step->convert_operand_.push_back(stage.port >= 0 &&
                                     context.input_layout(stage.port) == tandem::Layout::kNative);
  }
  const bool packs = step->arithmetic_.isa != Isa::kReference && step->dtype_ == DType::kFloat;
  if (const graph::ConstantRef weights = context.constant(kConvW); packs && weights != nullptr) {
    step->weight_shape_ = weights->shape();
    ASSIGN_OR_RETURN(
        step->pack_,
        context.MakePack(kConvW, PackSpecOf(step->form_, step->arithmetic_, *step->weight_shape_)));
  }
  return step;
}

ConvStep::Parts ConvStep::Layout(const Sizes& sizes, std::byte* base) const {
  const kernels::ConvGeometry geometry = form_->Geometry(sizes.x, sizes.w);
  const int64_t out = geometry.batch * geometry.out_pixels() * geometry.out_channels;
  ScratchPlan plan(base);
  Parts parts;
  if (convert_x_) parts.x = plan.Take(sizes.x.elements(), element_size());
  if (convert_y_) parts.y = plan.Take(out, element_size());
  for (const bool convert : convert_operand_) {
    parts.operands.push_back(convert ? plan.TakeFloats(out) : nullptr);
  }
  parts.zeros = plan.TakeFloats(geometry.in_per_group());
  if (pack_ == nullptr && arithmetic_.isa != Isa::kReference && dtype_ == DType::kFloat) {
    parts.packed = plan.TakeFloats(form_->FormatOf(arithmetic_, sizes.w).floats);
  }
  parts.form = plan.TakeFloats(form_->ScratchFloats(arithmetic_, geometry, sizes.threads));
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
            {context.input(kConvBias).data<float>(), 0});
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
  form_->RunReference(geometry, context.input(kConvW).data<double>(), x, y);
  if (!has_bias_) return;
  const double* bias = context.input(kConvBias).data<double>();
  const int64_t pixels = geometry.batch * geometry.out_pixels();
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    for (int64_t m = 0; m < geometry.out_channels; ++m) *y++ += bias[m];
  }
}

void ConvStep::RunFloat(StepContext& context, const kernels::ConvGeometry& geometry,
                        const kernels::ConvData& data, const Parts& parts) const {
  ConvForm::Work work{arithmetic_, geometry, parts.packed, data, parts.form, context};
  if (arithmetic_.isa == Isa::kReference) {
    work.weights = context.input(kConvW).data<float>();
    form_->RunReference(work);
    return;
  }
  if (pack_ != nullptr) {
    work.weights = reinterpret_cast<const float*>(pack_->buffer.data());
  } else {
    form_->Pack(arithmetic_, context.input(kConvW), parts.packed);
  }
  form_->Run(work);
}

Status ConvStep::Run(StepContext& context) const {
  const TensorView& x = context.input(kConvX);
  const MutableTensorView& y = context.output(0);
  const Shape& w = weight_shape_ ? *weight_shape_ : context.input(kConvW).shape();
  const kernels::ConvGeometry geometry = form_->Geometry(x.shape(), w);
  const Parts parts =
      Layout({x.shape(), w, context.parallel().threads()}, context.scratch().data());
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
             parts);
  }
  if (convert_y_) {
    kernels::LayoutConversion back =
        Conversion(geometry, geometry.out_channels, geometry.out_pixels(), element_size());
    back.direction = kernels::LayoutDirection::kChannelsLastToNative;
    kernels::ConvertLayout(back, out, y.mutable_raw(), context.parallel());
  }
  return absl::OkStatus();
}

}  // namespace

PackSpec PackSpecOf(std::shared_ptr<const ConvForm> form, Arithmetic arithmetic, const Shape& w) {
  ConvForm::Format format = form->FormatOf(arithmetic, w);
  PackSpec spec;
  spec.kernel = std::move(format.kernel);
  spec.parameters = std::move(format.parameters);
  spec.bytes = static_cast<size_t>(format.floats) * sizeof(float);
  spec.of_integers = form->packs_integers();
  spec.fill = [form = std::move(form), arithmetic](const TensorView& native,
                                                   std::span<std::byte> packed) {
    form->Pack(arithmetic, native, reinterpret_cast<float*>(packed.data()));
  };
  return spec;
}

StatusOr<std::unique_ptr<Step>> BindConv(std::shared_ptr<const ConvForm> form,
                                         BindContext& context) {
  return ConvStep::Make(std::move(form), context);
}

}  // namespace tandem::ops
