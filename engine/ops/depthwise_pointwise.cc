#include "engine/ops/depthwise_pointwise.h"

#include <algorithm>

#include "engine/kernels/depthwise/fusion.h"
#include "engine/kernels/depthwise/pointwise.h"
#include "engine/ops/epilogue.h"

namespace tandem::ops {
namespace {

// The form of both convolutions: the geometry has the window of the first, the input channels of
// the first and the output channels of the second.
class PairForm final : public ConvForm {
 public:
  static StatusOr<std::shared_ptr<const ConvForm>> Make(const DepthwisePointwise& pair,
                                                        BindContext& context);

  kernels::ConvGeometry Geometry(const Shape& x, const Shape& w) const override {
    kernels::ConvGeometry geometry = pair_.depthwise->Geometry(x, weight_shape_);
    geometry.group = 1;
    geometry.out_channels = w[0];
    return geometry;
  }

  Format FormatOf(Arithmetic arithmetic, const Shape& w) const override {
    return pair_.pointwise->FormatOf(arithmetic, w);
  }
  void Pack(Arithmetic arithmetic, const TensorView& weights, float* packed) const override {
    pair_.pointwise->Pack(arithmetic, weights, packed);
  }

  int64_t ScratchFloats(Arithmetic arithmetic, const kernels::ConvGeometry& geometry,
                        int threads) const override {
    const kernels::ConvGeometry depthwise = DepthwiseOf(geometry);
    kernels::DepthwisePointwise shapes;
    shapes.depthwise = depthwise;
    shapes.product.n = geometry.out_channels;
    const int64_t between =
        HasStrips(arithmetic, depthwise)
            ? kernels::DepthwisePointwiseScratchFloats(arithmetic, shapes, threads)
            : depthwise.batch * depthwise.out_pixels() * depthwise.out_channels;
    return PackedFloats(arithmetic) + between;
  }

  void Run(const Work& work) const override;
  void RunReference(const Work& work) const override {
    RunOneByOne(work, work.context.input(pair_.weights).data<float>(), &ConvForm::RunReference);
  }
  void RunReference(const kernels::ConvGeometry&, const double*, const double*,
                    double*) const override {
    CHECK(false, "a depthwise stage is float32");
  }

 private:
  static bool HasStrips(Arithmetic arithmetic, const kernels::ConvGeometry& depthwise) {
    return arithmetic.isa != Isa::kReference && kernels::HasShortGroups(arithmetic.isa, depthwise);
  }
  static kernels::ConvGeometry DepthwiseOf(kernels::ConvGeometry geometry) {
    geometry.group = geometry.in_channels;
    geometry.out_channels = geometry.in_channels;
    return geometry;
  }
  static kernels::ConvGeometry PointwiseOf(kernels::ConvGeometry geometry) {
    for (kernels::WindowAxis& axis : geometry.axes) axis = {.in = axis.out, .out = axis.out};
    return geometry;
  }

  // Of weights that are packed in each run.
  int64_t PackedFloats(Arithmetic arithmetic) const {
    if (pack_ != nullptr || arithmetic.isa == Isa::kReference) return 0;
    return pair_.depthwise->FormatOf(arithmetic, weight_shape_).floats;
  }
  RunStages Stages(const StepContext& context) const;
  void RunOneByOne(const Work& work, const float* weights,
                   void (ConvForm::*run)(const Work&) const) const;

  DepthwisePointwise pair_;
  Shape weight_shape_;  // of the depthwise weights
  BoundStages stages_;  // between the two
  PackRef pack_;        // of the depthwise weights; null: packed in each run, or not at all
};

StatusOr<std::shared_ptr<const ConvForm>> PairForm::Make(const DepthwisePointwise& pair,
                                                         BindContext& context) {
  auto form = std::make_shared<PairForm>();
  form->pair_ = pair;
  const ValueFacts& weights = context.input(pair.weights);
  const std::optional<Shape> shape = weights.shape();
  if (!shape || weights.dtype != DType::kFloat) {
    return Internal("the depthwise weights are {} of unknown extents where float is expected",
                    DTypeName(weights.dtype));
  }
  form->weight_shape_ = *shape;
  const graph::Node& node = context.node();
  ASSIGN_OR_RETURN(form->stages_, BindStages(node, std::span(node.prologue).subspan(1)));
  if (context.isa() != Isa::kReference && context.constant(pair.weights) != nullptr) {
    ASSIGN_OR_RETURN(
        form->pack_,
        context.MakePack(pair.weights, PackSpecOf(pair.depthwise, context.arithmetic(), *shape)));
  }
  return form;
}

RunStages PairForm::Stages(const StepContext& context) const {
  RunStages run;
  for (const BoundStage& bound : stages_) {
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

void PairForm::RunOneByOne(const Work& work, const float* weights,
                           void (ConvForm::*run)(const Work&) const) const {
  const kernels::ConvGeometry depthwise = DepthwiseOf(work.geometry);
  const kernels::ConvGeometry pointwise = PointwiseOf(work.geometry);
  const RunStages stages = Stages(work.context);
  float* between = work.scratch + PackedFloats(work.arithmetic);
  const kernels::ConvData first{work.data.x, between, work.data.zeros, &stages.stages,
                                stages.operands.data()};
  ((*pair_.depthwise).*run)({work.arithmetic, depthwise, weights, first, nullptr, work.context});
  kernels::ConvData second = work.data;
  second.x = between;
  ((*pair_.pointwise).*
   run)({work.arithmetic, pointwise, work.weights, second, nullptr, work.context});
}

void PairForm::Run(const Work& work) const {
  const float* weights = work.scratch;
  if (pack_ != nullptr) {
    weights = reinterpret_cast<const float*>(pack_->buffer.data());
  } else {
    pair_.depthwise->Pack(work.arithmetic, work.context.input(pair_.weights), work.scratch);
  }
  kernels::DepthwisePointwise pair;
  pair.depthwise = DepthwiseOf(work.geometry);
  if (!HasStrips(work.arithmetic, pair.depthwise))
    return RunOneByOne(work, weights, &ConvForm::Run);
  const RunStages stages = Stages(work.context);
  pair.depthwise_packed = weights;
  pair.data = {work.data.x, nullptr, nullptr, &stages.stages, stages.operands.data()};
  pair.product.n = work.geometry.out_channels;
  pair.product.c = work.data.y;
  pair.product.c_row_stride = pair.product.n;
  pair.product.epilogue = work.data.epilogue;
  pair.product.operands = work.data.operands;
  pair.product_packed = work.weights;
  kernels::ConvDepthwisePointwise(
      work.arithmetic, pair, work.scratch + PackedFloats(work.arithmetic), work.context.parallel());
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

// The stages behind the convolution, on its result.
bool FitColumns(const PrologueRequest& request) {
  for (size_t i = 1; i < request.stages.size(); ++i) {
    if (request.stages[i].operand < 0) continue;
    if (request.operands[i] == nullptr || request.inputs[0] == nullptr) return false;
    const kernels::OperandForm form =
        OperandFormOf(*request.operands[i], *request.inputs[0], ColumnAxis::kChannels);
    if (form != kernels::OperandForm::kScalar && form != kernels::OperandForm::kColumn) {
      return false;
    }
  }
  return true;
}

int64_t NumberOf(const graph::Dim& dim) { return dim.is_number() ? dim.number() : -1; }

}  // namespace

Decision TryFuseDepthwise(const ConvAttributes& depthwise, const ConvAttributes& pointwise,
                          const PrologueRequest& request) {
  const graph::DimVector* between = request.inputs[kConvX];
  const graph::DimVector* w = request.inputs[kConvW];
  kernels::PointwiseQuery query;
  query.is_float32 = request.dtype == DType::kFloat;
  query.is_depthwise = IsDepthwise(depthwise, request.operands[0]);
  query.is_pointwise = IsPointwise(pointwise, w);
  query.has_stages = std::all_of(
      request.stages.begin() + 1, request.stages.end(),
      [](const auto& stage) { return StageOf(stage.op, stage.attributes).has_value(); });
  query.fits_columns = FitColumns(request);
  if (between != nullptr) {
    query.channels = NumberOf((*between)[1]);
    query.pixels = NumberOf(graph::Product(*between, 2, static_cast<int>(between->size())));
  }
  if (w != nullptr) query.columns = NumberOf((*w)[0]);
  kernels::FusionAnswer answer = kernels::TryFusePointwise(query);
  if (answer.accepted) return Decision::Accept();
  return Decision::Decline(std::move(answer.rule), std::move(answer.numbers));
}

double DepthwiseProducts(const DepthwiseStage& stage, const StepShapes& shapes) {
  const Shape& w = shapes.inputs[static_cast<size_t>(stage.weights)];
  const Shape& y = shapes.outputs[0];
  return static_cast<double>(y[0] * y.Product(2, y.rank())) *
         static_cast<double>(w[0] * w.Product(1, w.rank()));
}

StatusOr<std::unique_ptr<Step>> BindDepthwisePointwise(const DepthwisePointwise& pair,
                                                       BindContext& context) {
  ASSIGN_OR_RETURN(std::shared_ptr<const ConvForm> form, PairForm::Make(pair, context));
  return BindConv(std::move(form), context);
}

}  // namespace tandem::ops
