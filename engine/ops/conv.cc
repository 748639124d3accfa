// Conv (ai.onnx, opsets 1, 11, 22): convolution of N x C x D1 x ... with filters M x C/group x K1 x
// ..., in one to three spatial axes. float32 runs as an indirect matrix product or, with few
// channels a group, on vectors that hold whole groups; float64 on the reference kernel. Pointwise
// and depthwise convolutions before it may be stages of its prologue (depthwise_strips.h).
#include "engine/kernels/conv/conv.h"

#include <algorithm>

#include "engine/kernels/depthwise/depthwise.h"
#include "engine/kernels/gemm/gemm.h"
#include "engine/kernels/winograd/winograd.h"
#include "engine/ops/conv_shape.h"
#include "engine/ops/conv_step.h"
#include "engine/ops/depthwise_strips.h"
#include "engine/ops/epilogue.h"
#include "engine/ops/quantised_weight.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class DirectForm : public ConvForm {
 public:
  explicit DirectForm(ConvAttributes attributes) : attributes_(std::move(attributes)) {}

  kernels::ConvGeometry Geometry(const Shape& x, const Shape& w) const override {
    return ConvGeometryOf(attributes_, x, w);
  }

  Format FormatOf(Arithmetic arithmetic, const Shape& w) const override {
    const kernels::ConvGeometry geometry = ConvGeometryOfWeights(attributes_, w);
    if (kernels::HasShortGroups(arithmetic.isa, geometry)) {
      return {"conv.grouped.f32",
              fmt::format("{} group={}", IsaName(arithmetic.isa), attributes_.group),
              kernels::PackedShortGroupFloats(arithmetic.isa, geometry)};
    }
    return {"conv.igemm.f32",
            fmt::format("{} group={} taps,channels",
                        kernels::PackFormat(arithmetic, geometry.taps() * geometry.in_per_group(),
                                            geometry.out_per_group()),
                        attributes_.group),
            kernels::PackedConvFloats(arithmetic, geometry)};
  }

  void Pack(Arithmetic arithmetic, const TensorView& weights, float* packed) const override {
    const kernels::ConvGeometry geometry = ConvGeometryOfWeights(attributes_, weights.shape());
    const kernels::ConvWeights native = kernels::NativeWeights(geometry, weights.data<float>());
    if (kernels::HasShortGroups(arithmetic.isa, geometry)) {
      kernels::PackShortGroups(arithmetic.isa, geometry, native, packed);
    } else {
      kernels::PackConvWeights(arithmetic, geometry, native, packed);
    }
  }

  int64_t ScratchFloats(Arithmetic arithmetic, const kernels::ConvGeometry& geometry,
                        int /*threads*/) const override {
    if (arithmetic.isa == Isa::kReference) return 0;
    if (kernels::HasShortGroups(arithmetic.isa, geometry)) return 0;
    return kernels::ConvScratchFloats(arithmetic, geometry);
  }

  void Run(const Work& work) const override {
    const Parallel& parallel = work.context.parallel();
    if (kernels::HasShortGroups(work.arithmetic.isa, work.geometry)) {
      kernels::ConvShortGroups(work.arithmetic.isa, work.geometry, work.weights, work.data,
                               parallel);
    } else {
      kernels::ConvData data = work.data;
      data.scratch = work.scratch;
      kernels::Conv(work.arithmetic, work.geometry, work.weights, data, parallel);
    }
  }

  void RunReference(const Work& work) const override {
    kernels::ConvReference(work.geometry, work.weights, work.data);
  }
  void RunReference(const kernels::ConvGeometry& geometry, const double* weights, const double* x,
                    double* y) const override {
    kernels::ConvReference(geometry, weights, x, y);
  }

 protected:
  const ConvAttributes& attributes() const { return attributes_; }

 private:
  ConvAttributes attributes_;
};

// Weights that stay in 8 bits.
class ByteForm final : public DirectForm {
 public:
  ByteForm(ConvAttributes attributes, std::shared_ptr<const Quantised> quantised)
      : DirectForm(std::move(attributes)), quantised_(std::move(quantised)) {}

  // The form for weights that are quantised by output channel; null for others, and for groups that
  // are so short that their weights are few.
  static std::shared_ptr<const ConvForm> For(const ConvAttributes& attributes,
                                             const BindContext& context) {
    const graph::ConstantRef weights = context.constant(kConvW);
    if (weights == nullptr || context.isa() == Isa::kReference) return nullptr;
    std::shared_ptr<const Quantised> quantised = QuantisedAlong(*weights, 0);
    if (quantised == nullptr) return nullptr;
    const kernels::ConvGeometry geometry = ConvGeometryOfWeights(attributes, weights->shape());
    if (kernels::HasShortGroups(context.isa(), geometry)) return nullptr;
    return std::make_shared<const ByteForm>(attributes, std::move(quantised));
  }

  bool packs_integers() const override { return true; }

  Format FormatOf(Arithmetic arithmetic, const Shape& w) const override {
    return DirectForm::FormatOf(InBytes(arithmetic), w);
  }

  void Pack(Arithmetic arithmetic, const TensorView& weights, float* packed) const override {
    const kernels::ConvGeometry geometry = ConvGeometryOfWeights(attributes(), weights.shape());
    kernels::ConvWeights native = kernels::NativeWeights(geometry, weights.data<float>());
    native.columns = ScalesOf(quantised_.get());
    kernels::PackConvWeights(InBytes(arithmetic), geometry, native, packed);
  }

  int64_t ScratchFloats(Arithmetic arithmetic, const kernels::ConvGeometry& geometry,
                        int threads) const override {
    return DirectForm::ScratchFloats(InBytes(arithmetic), geometry, threads);
  }

  void Run(const Work& work) const override {
    DirectForm::Run({InBytes(work.arithmetic), work.geometry, work.weights, work.data, work.scratch,
                     work.context});
  }

 private:
  static Arithmetic InBytes(Arithmetic arithmetic) {
    arithmetic.weights = Weights::kBytes;
    return arithmetic;
  }

  std::shared_ptr<const Quantised> quantised_;
};

// Minimal filtering of tiles of m x m outputs.
class WinogradForm final : public DirectForm {
 public:
  WinogradForm(ConvAttributes attributes, int m) : DirectForm(std::move(attributes)), m_(m) {}

  // The form for constant weights and images of known size, where it is worth it; null otherwise.
  static std::shared_ptr<const ConvForm> For(const ConvAttributes& attributes,
                                             const BindContext& context) {
    const graph::ConstantRef weights = context.constant(kConvW);
    const std::optional<graph::DimVector>& dims = context.input(kConvX).dims;
    if (weights == nullptr || weights->dtype() != DType::kFloat || !dims) return nullptr;
    Dims x = {1, weights->shape()[1] * attributes.group};
    for (size_t i = x.size(); i < dims->size(); ++i) {
      if (!(*dims)[i].is_number()) return nullptr;
      x.push_back((*dims)[i].number());
    }
    const kernels::ConvGeometry geometry =
        ConvGeometryOf(attributes, Shape(std::move(x)), weights->shape());
    const int m = kernels::WinogradTile(context.arithmetic(), geometry);
    return m == 0 ? nullptr : std::make_shared<const WinogradForm>(attributes, m);
  }

  Format FormatOf(Arithmetic arithmetic, const Shape& w) const override {
    const kernels::ConvGeometry geometry = ConvGeometryOfWeights(attributes(), w);
    return {"conv.winograd.f32",
            fmt::format("{0}x{0} {1}", m_,
                        kernels::PackFormat({arithmetic.isa, Precision::kF32Plain},
                                            geometry.in_channels, geometry.out_channels)),
            kernels::PackedWinogradFloats(arithmetic.isa, m_, geometry)};
  }

  void Pack(Arithmetic arithmetic, const TensorView& weights, float* packed) const override {
    const kernels::ConvGeometry geometry = ConvGeometryOfWeights(attributes(), weights.shape());
    kernels::PackWinogradWeights(arithmetic.isa, m_, geometry,
                                 kernels::NativeWeights(geometry, weights.data<float>()), packed);
  }

  int64_t ScratchFloats(Arithmetic arithmetic, const kernels::ConvGeometry& geometry,
                        int threads) const override {
    return kernels::WinogradScratchFloats(arithmetic.isa, m_, geometry, threads);
  }

  void Run(const Work& work) const override {
    kernels::ConvData data = work.data;
    data.scratch = work.scratch;
    kernels::ConvWinograd(work.arithmetic.isa, m_, work.geometry, work.weights, data,
                          work.context.parallel());
  }

 private:
  int m_;
};

class Conv final : public Operator {
 public:
  Conv(ConvAttributes attributes, ConvStages before)
      : attributes_(std::move(attributes)), before_(std::move(before)) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    return std::make_shared<const Conv>(ReadConvAttributes(reader),
                                        ConvsOf(reader.node().prologue));
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(CheckConvTypes(context));
    const graph::DimVector* x = context.dims(kConvX);
    std::optional<graph::DimVector> between;
    for (const ConvStage& stage : before_) {
      ASSIGN_OR_RETURN(between, InferConvDims(stage.attributes, x, context.dims(stage.weights)));
      x = between ? &*between : nullptr;
    }
    const graph::DimVector* w = context.dims(kConvW);
    ASSIGN_OR_RETURN(std::optional<graph::DimVector> dims, InferConvDims(attributes_, x, w));
    RETURN_IF_ERROR(CheckConvBias(context.dims(kConvBias), w == nullptr ? graph::Dim() : (*w)[0]));
    context.SetOutput(0, context.input(kConvX).dtype, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const auto direct = [](const ConvAttributes& attributes) {
      return std::make_shared<const DirectForm>(attributes);
    };
    if (!before_.empty()) return BindDepthwiseStrips(before_, attributes_, direct, context);
    std::shared_ptr<const ConvForm> form = ByteForm::For(attributes_, context);
    if (form == nullptr) form = WinogradForm::For(attributes_, context);
    if (form == nullptr) form = direct(attributes_);
    return BindConv(std::move(form), context);
  }

  Traits traits() const override { return {.layout = LayoutRule::kChannelsLast}; }

  ConstantUse UseOfConstant(int port, DType dtype) const override {
    const bool is_weights = std::ranges::find(before_, port, &ConvStage::weights) != before_.end();
    return UseOfConvConstant(is_weights ? kConvW : port, dtype);
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    const Shape& w = shapes.inputs[kConvW];
    int64_t products = w.Product(1, w.rank());
    Cost cost = ConvCost({shapes.inputs[kConvX], w, shapes.outputs[0]}, products, dtype);
    cost.multiply_adds += ProductsOf(before_, shapes);
    return cost;
  }

  Decision TryFuseEpilogue(const EpilogueRequest& request) const override {
    return TryFuseStage(request, ColumnAxis::kChannels);
  }

  Decision TryFusePrologue(const PrologueRequest& request) const override {
    return TryFuseConvs(ConvsOf(request.stages), attributes_, request);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    if (before_.empty()) return BatchOfConv(query, kConvInputs);
    // What the prologue reads is constant, and no operand of the result.
    std::vector<const ValueFacts*> inputs(query.inputs.begin(), query.inputs.end());
    for (const graph::EpilogueStage& stage : query.node.prologue) {
      if (stage.operand >= 0) inputs[static_cast<size_t>(stage.operand)] = nullptr;
    }
    BatchQuery rest{query.node, query.items, query.axes, inputs, query.outputs, query.rounds};
    return BatchOfConv(rest, kConvInputs);
  }

 private:
  static ConvStages ConvsOf(std::span<const graph::EpilogueStage> stages) {
    ConvStages convs;
    for (size_t i = 0; i < stages.size(); ++i) {
      const auto* conv = dynamic_cast<const Conv*>(stages[i].resolved.get());
      if (conv != nullptr) convs.push_back({conv->attributes_, stages[i].operand, i});
    }
    return convs;
  }

  ConvAttributes attributes_;
  ConvStages before_;  // in the prologue
};

}  // namespace

void RegisterConv(OpRegistry& registry) {
  registry.Add({.op_type = "Conv",
                .versions = {1, 11, 22},
                .min_inputs = 2,
                .max_inputs = kConvInputs,
                .parse = Conv::Parse,
                .doc = "Convolution with filters, in groups, with an optional bias."});
}

}  // namespace tandem::ops
