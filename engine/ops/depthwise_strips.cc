#include "engine/ops/depthwise_strips.h"

#include <algorithm>

#include "engine/kernels/depthwise/fusion.h"
#include "engine/kernels/depthwise/strips.h"
#include "engine/ops/epilogue.h"

namespace tandem::ops {
namespace {

using kernels::ConvGeometry;

// A convolution of the prologue.
struct Part {
  std::shared_ptr<const ConvForm> form;
  int weights = -1;  // their input port
  Shape weight_shape;
  BoundStages stages;  // behind it
  PackRef pack;        // null for the reference

  static StatusOr<Part> Make(std::shared_ptr<const ConvForm> form, const ConvStage& stage,
                             size_t end, BindContext& context);
  const float* packed() const { return reinterpret_cast<const float*>(pack->buffer.data()); }
  RunStages Stages(const StepContext& context) const;
};

// Stages of the prologue up to `end` belong to the convolution.
StatusOr<Part> Part::Make(std::shared_ptr<const ConvForm> form, const ConvStage& stage, size_t end,
                          BindContext& context) {
  Part part;
  part.form = std::move(form);
  part.weights = stage.weights;
  const graph::ConstantRef weights = context.constant(part.weights);
  if (weights == nullptr || weights->dtype() != DType::kFloat) {
    return Internal("weights of the prologue are no constant of float");
  }
  part.weight_shape = weights->shape();
  const graph::Node& node = context.node();
  ASSIGN_OR_RETURN(
      part.stages,
      BindStages(node,
                 std::span(node.prologue).subspan(stage.index + 1).first(end - stage.index - 1)));
  if (context.isa() == Isa::kReference) return part;
  ASSIGN_OR_RETURN(
      part.pack, context.MakePack(part.weights,
                                  PackSpecOf(part.form, context.arithmetic(), part.weight_shape)));
  return part;
}

RunStages Part::Stages(const StepContext& context) const {
  RunStages run;
  for (const BoundStage& bound : stages) {
    kernels::EpilogueStage stage = bound.stage;
    if (bound.port < 0) {
      run.Add(stage, {});
      continue;
    }
    const TensorView& operand = context.input(bound.port);
    stage.kind =
        operand.elements() == 1 ? kernels::OperandKind::kScalar : kernels::OperandKind::kColumn;
    run.Add(stage, {operand.data<float>(), 0});
  }
  return run;
}

// The form of all convolutions: the geometry has the window of the depthwise one, the input
// channels of the first and the output channels of the last.
class StripsForm final : public ConvForm {
 public:
  static StatusOr<std::shared_ptr<const ConvForm>> Make(const ConvStages& before,
                                                        const ConvAttributes& own, FormOf form_of,
                                                        BindContext& context);

  ConvGeometry Geometry(const Shape& x, const Shape& w) const override {
    Shape expanded = x;
    if (expansion_) expanded[1] = expansion_->weight_shape[0];
    ConvGeometry geometry = depthwise_
                                ? depthwise_->form->Geometry(expanded, depthwise_->weight_shape)
                                : own_->Geometry(expanded, w);
    geometry.group = 1;
    geometry.in_channels = x[1];
    geometry.out_channels = w[0];
    return geometry;
  }

  Format FormatOf(Arithmetic arithmetic, const Shape& w) const override {
    return own_->FormatOf(arithmetic, w);
  }
  void Pack(Arithmetic arithmetic, const TensorView& weights, float* packed) const override {
    own_->Pack(arithmetic, weights, packed);
  }

  int64_t ScratchFloats(Arithmetic arithmetic, const ConvGeometry& geometry,
                        int threads) const override {
    if (!HasStrips(arithmetic, geometry)) {
      return ExpandedFloats(geometry) + FilteredFloats(geometry);
    }
    return kernels::DepthwiseStripsScratchFloats(arithmetic, StripsOf(geometry), threads);
  }

  void Run(const Work& work) const override;
  void RunReference(const Work& work) const override { RunOneByOne(work, &ConvForm::RunReference); }
  void RunReference(const ConvGeometry&, const double*, const double*, double*) const override {
    CHECK(false, "convolutions of a prologue are float32");
  }

 private:
  bool HasStrips(Arithmetic arithmetic, const ConvGeometry& geometry) const {
    return arithmetic.isa != Isa::kReference &&
           kernels::HasShortGroups(arithmetic.isa, DepthwiseOf(geometry));
  }

  ConvGeometry ExpansionOf(ConvGeometry geometry) const {
    for (kernels::WindowAxis& axis : geometry.axes) axis = {.in = axis.in, .out = axis.in};
    geometry.out_channels = expansion_->weight_shape[0];
    return geometry;
  }
  ConvGeometry DepthwiseOf(ConvGeometry geometry) const {
    if (depthwise_) geometry.out_channels = depthwise_->weight_shape[0];
    geometry.in_channels = geometry.out_channels;
    geometry.group = geometry.out_channels;
    return geometry;
  }
  ConvGeometry ProjectionOf(ConvGeometry geometry) const {
    for (kernels::WindowAxis& axis : geometry.axes) axis = {.in = axis.out, .out = axis.out};
    geometry.in_channels = depthwise_->weight_shape[0];
    return geometry;
  }

  // Between the convolutions, as a whole.
  int64_t ExpandedFloats(const ConvGeometry& geometry) const {
    if (!expansion_) return 0;
    return geometry.batch * geometry.in_pixels() * expansion_->weight_shape[0];
  }
  int64_t FilteredFloats(const ConvGeometry& geometry) const {
    if (!depthwise_) return 0;
    return geometry.batch * geometry.out_pixels() * depthwise_->weight_shape[0];
  }

  // Extents of the kernel's problem.
  kernels::DepthwiseStrips StripsOf(const ConvGeometry& geometry) const {
    kernels::DepthwiseStrips strips;
    strips.depthwise = DepthwiseOf(geometry);
    if (expansion_) strips.expansion.emplace().problem.k = geometry.in_channels;
    if (depthwise_) strips.projection.emplace().problem.n = geometry.out_channels;
    return strips;
  }
  void RunOneByOne(const Work& work, void (ConvForm::*run)(const Work&) const) const;

  std::optional<Part> expansion_;
  std::optional<Part> depthwise_;  // nothing: the node's own
  std::shared_ptr<const ConvForm> own_;
};

StatusOr<std::shared_ptr<const ConvForm>> StripsForm::Make(const ConvStages& before,
                                                           const ConvAttributes& own,
                                                           FormOf form_of, BindContext& context) {
  auto form = std::make_shared<StripsForm>();
  form->own_ = form_of(own);
  for (size_t i = 0; i < before.size(); ++i) {
    const size_t end = i + 1 < before.size() ? before[i + 1].index : context.node().prologue.size();
    std::optional<Part>& part =
        before[i].attributes.group == 1 ? form->expansion_ : form->depthwise_;
    ASSIGN_OR_RETURN(part, Part::Make(form_of(before[i].attributes), before[i], end, context));
  }
  return form;
}

void StripsForm::RunOneByOne(const Work& work, void (ConvForm::*run)(const Work&) const) const {
  float* between = work.scratch;
  const float* x = work.data.x;
  const auto run_part = [&](const Part& part, const ConvGeometry& geometry, int64_t floats) {
    const RunStages stages = part.Stages(work.context);
    const kernels::ConvData data{x, between, work.data.zeros, &stages.stages,
                                 stages.operands.data()};
    const float* weights =
        part.pack != nullptr ? part.packed() : work.context.input(part.weights).data<float>();
    ((*part.form).*run)({work.arithmetic, geometry, weights, data, nullptr, work.context});
    x = between;
    between += floats;
  };
  if (expansion_) run_part(*expansion_, ExpansionOf(work.geometry), ExpandedFloats(work.geometry));
  if (depthwise_) run_part(*depthwise_, DepthwiseOf(work.geometry), FilteredFloats(work.geometry));
  const ConvGeometry last = depthwise_ ? ProjectionOf(work.geometry) : DepthwiseOf(work.geometry);
  kernels::ConvData data = work.data;
  data.x = x;
  ((*own_).*run)({work.arithmetic, last, work.weights, data, nullptr, work.context});
}

void StripsForm::Run(const Work& work) const {
  if (!HasStrips(work.arithmetic, work.geometry)) return RunOneByOne(work, &ConvForm::Run);
  kernels::DepthwiseStrips strips = StripsOf(work.geometry);
  strips.data = work.data;
  strips.packed = work.weights;
  RunStages expanded;
  RunStages filtered;
  if (expansion_) {
    expanded = expansion_->Stages(work.context);
    strips.expansion->packed = expansion_->packed();
    strips.expansion->problem.a = work.data.x;
    strips.expansion->problem.epilogue = &expanded.stages;
    strips.expansion->problem.operands = expanded.operands.data();
  }
  if (depthwise_) {
    filtered = depthwise_->Stages(work.context);
    strips.projection->packed = work.weights;
    strips.projection->problem.c = work.data.y;
    strips.projection->problem.epilogue = work.data.epilogue;
    strips.projection->problem.operands = work.data.operands;
    strips.packed = depthwise_->packed();
    strips.data.epilogue = &filtered.stages;
    strips.data.operands = filtered.operands.data();
  }
  kernels::ConvDepthwiseStrips(work.arithmetic, strips, work.scratch, work.context.parallel());
}

bool IsNumber(const graph::Dim& dim, int64_t number) {
  return dim.is_number() && dim.number() == number;
}

bool IsDepthwise(const ConvAttributes& attributes, const graph::DimVector* w) {
  return attributes.group > 1 && w != nullptr && IsNumber((*w)[0], attributes.group) &&
         IsNumber((*w)[1], 1);
}

bool IsPointwise(const ConvAttributes& attributes, const graph::DimVector* w) {
  const auto is_one = [](int64_t stride) { return stride == 1; };
  const auto is_zero = [](int64_t pad) { return pad == 0; };
  return attributes.group == 1 && std::ranges::all_of(attributes.window.strides, is_one) &&
         std::ranges::all_of(attributes.window.pads, is_zero) && w != nullptr &&
         std::all_of(w->begin() + 2, w->end(),
                     [](const graph::Dim& extent) { return IsNumber(extent, 1); });
}

// The stages behind the last convolution of the request, on its result.
struct StagesBehind {
  bool exist = true;        // in the epilogue
  bool fit_columns = true;  // each operand is one element, or one for each channel

  StagesBehind(const PrologueRequest& request, size_t first) {
    const graph::DimVector* result = request.inputs[kConvX];
    for (size_t i = first; i < request.stages.size(); ++i) {
      const graph::EpilogueStage& stage = request.stages[i];
      exist = exist && StageOf(stage.op, stage.attributes).has_value();
      if (stage.operand < 0) continue;
      fit_columns = fit_columns && request.operands[i] != nullptr && result != nullptr &&
                    FitsColumns(*request.operands[i], *result);
    }
  }

 private:
  static bool FitsColumns(const graph::DimVector& operand, const graph::DimVector& result) {
    const kernels::OperandForm form = OperandFormOf(operand, result, ColumnAxis::kChannels);
    return form == kernels::OperandForm::kScalar || form == kernels::OperandForm::kColumn;
  }
};

int64_t NumberOf(const graph::Dim& dim) { return dim.is_number() ? dim.number() : -1; }

int64_t PixelsOf(const graph::DimVector& image) {
  return NumberOf(graph::Product(image, 2, static_cast<int>(image.size())));
}

// A pointwise convolution and the depthwise one before it.
Decision TryFuseDepthwise(const ConvStage& depthwise, const ConvAttributes& pointwise,
                          const PrologueRequest& request) {
  const graph::DimVector* between = request.inputs[kConvX];
  const graph::DimVector* w = request.inputs[kConvW];
  const StagesBehind stages(request, depthwise.index + 1);
  kernels::PointwiseQuery query;
  query.is_float32 = request.dtype == DType::kFloat;
  query.is_depthwise = IsDepthwise(depthwise.attributes, request.operands[depthwise.index]);
  query.is_pointwise = IsPointwise(pointwise, w);
  query.has_stages = stages.exist;
  query.fits_columns = stages.fit_columns;
  if (between != nullptr) {
    query.channels = NumberOf((*between)[1]);
    query.pixels = PixelsOf(*between);
  }
  if (w != nullptr) query.columns = NumberOf((*w)[0]);
  kernels::FusionAnswer answer = kernels::TryFusePointwise(query);
  if (answer.accepted) return Decision::Accept();
  return Decision::Decline(std::move(answer.rule), std::move(answer.numbers));
}

// A depthwise convolution and the pointwise one before it.
Decision TryFuseExpansion(const ConvStage& pointwise, const ConvAttributes& depthwise,
                          const PrologueRequest& request) {
  const graph::DimVector* between = request.inputs[kConvX];
  const graph::DimVector* w = request.inputs[kConvW];
  const graph::DimVector* filters = request.operands[pointwise.index];
  const StagesBehind stages(request, pointwise.index + 1);
  kernels::ExpansionQuery query;
  query.is_float32 = request.dtype == DType::kFloat;
  query.is_pointwise = IsPointwise(pointwise.attributes, filters);
  query.is_depthwise = IsDepthwise(depthwise, w);
  query.is_planar = between != nullptr && between->size() == 4;
  query.has_stages = stages.exist;
  query.fits_columns = stages.fit_columns;
  if (between != nullptr) {
    query.channels = NumberOf((*between)[1]);
    query.pixels = PixelsOf(*between);
  }
  if (filters != nullptr) query.inputs = NumberOf((*filters)[1]);
  if (query.is_planar && w != nullptr && w->size() == 4) {
    const int64_t taps = NumberOf((*w)[2]);
    const int64_t width = NumberOf((*between)[3]);
    const int64_t dilation = depthwise.window.dilations.empty() ? 1 : depthwise.window.dilations[0];
    if (taps >= 0 && width >= 0) query.window_pixels = ((taps - 1) * dilation + 1) * width;
  }
  kernels::FusionAnswer answer = kernels::TryFuseExpansion(query);
  if (answer.accepted) return Decision::Accept();
  return Decision::Decline(std::move(answer.rule), std::move(answer.numbers));
}

}  // namespace

Decision TryFuseConvs(const ConvStages& stages, const ConvAttributes& own,
                      const PrologueRequest& request) {
  if (stages.empty()) return Decision();
  const ConvStage& last = stages.back();
  if (own.group == 1) return TryFuseDepthwise(last, own, request);
  if (stages.size() == 1) return TryFuseExpansion(last, own, request);
  return Decision::Decline("depthwise: the convolution before has one in its own prologue");
}

double ProductsOf(const ConvStages& stages, const StepShapes& shapes) {
  const Shape& x = shapes.inputs[kConvX];
  const Shape& y = shapes.outputs[0];
  double products = 0;
  for (const ConvStage& stage : stages) {
    // A pointwise convolution comes before the depthwise one, which alone changes the image.
    const Shape& image = stage.attributes.group == 1 ? x : y;
    const Shape& w = shapes.inputs[static_cast<size_t>(stage.weights)];
    products += static_cast<double>(image[0] * image.Product(2, image.rank())) *
                static_cast<double>(w.elements());
  }
  return products;
}

StatusOr<std::unique_ptr<Step>> BindDepthwiseStrips(const ConvStages& before,
                                                    const ConvAttributes& own, FormOf form_of,
                                                    BindContext& context) {
  ASSIGN_OR_RETURN(std::shared_ptr<const ConvForm> form,
                   StripsForm::Make(before, own, form_of, context));
  return BindConv(std::move(form), context);
}

}  // namespace tandem::ops
