// Conv (ai.onnx, opsets 1, 11, 22): convolution of N x C x D1 x ... with filters M x C/group x K1 x
// ..., in one to three spatial axes. float32 runs as an indirect matrix product or, with few
// channels a group, on vectors that hold whole groups; float64 on the reference kernel.
#include "engine/kernels/conv/conv.h"

#include "engine/kernels/depthwise/depthwise.h"
#include "engine/kernels/gemm/gemm.h"
#include "engine/ops/conv_shape.h"
#include "engine/ops/conv_step.h"
#include "engine/ops/epilogue.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class DirectForm final : public ConvForm {
 public:
  explicit DirectForm(ConvAttributes attributes) : attributes_(std::move(attributes)) {}

  kernels::ConvGeometry Geometry(const Shape& x, const Shape& w) const override {
    return ConvGeometryOf(attributes_, x, w);
  }

  Format FormatOf(Isa isa, const Shape& w) const override {
    const kernels::ConvGeometry geometry = ConvGeometryOfWeights(attributes_, w);
    if (kernels::HasShortGroups(isa, geometry)) {
      return {"conv.grouped.f32", fmt::format("{} group={}", IsaName(isa), attributes_.group),
              kernels::PackedShortGroupFloats(isa, geometry)};
    }
    return {"conv.igemm.f32",
            fmt::format("panel={} group={} taps,channels", kernels::PanelColumns(isa),
                        attributes_.group),
            kernels::PackedConvFloats(isa, geometry)};
  }

  void Pack(Isa isa, const TensorView& weights, float* packed) const override {
    const kernels::ConvGeometry geometry = ConvGeometryOfWeights(attributes_, weights.shape());
    const kernels::ConvWeights native = kernels::NativeWeights(geometry, weights.data<float>());
    if (kernels::HasShortGroups(isa, geometry)) {
      kernels::PackShortGroups(isa, geometry, native, packed);
    } else {
      kernels::PackConvWeights(isa, geometry, native, packed);
    }
  }

  void Run(Isa isa, const kernels::ConvGeometry& geometry, const float* packed,
           const kernels::ConvData& data, const Parallel& parallel) const override {
    if (kernels::HasShortGroups(isa, geometry)) {
      kernels::ConvShortGroups(isa, geometry, packed, data, parallel);
    } else {
      kernels::Conv(isa, geometry, packed, data, parallel);
    }
  }

  void RunReference(const kernels::ConvGeometry& geometry, const float* weights,
                    const kernels::ConvData& data) const override {
    kernels::ConvReference(geometry, weights, data);
  }
  void RunReference(const kernels::ConvGeometry& geometry, const double* weights, const double* x,
                    double* y) const override {
    kernels::ConvReference(geometry, weights, x, y);
  }

 private:
  ConvAttributes attributes_;
};

class Conv final : public Operator {
 public:
  explicit Conv(ConvAttributes attributes) : attributes_(std::move(attributes)) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    return std::make_shared<const Conv>(ReadConvAttributes(reader));
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(CheckConvTypes(context));
    const graph::DimVector* w = context.dims(kConvW);
    ASSIGN_OR_RETURN(std::optional<graph::DimVector> dims,
                     InferConvDims(attributes_, context.dims(kConvX), w));
    RETURN_IF_ERROR(CheckConvBias(context.dims(kConvBias), w == nullptr ? graph::Dim() : (*w)[0]));
    context.SetOutput(0, context.input(kConvX).dtype, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    return BindConv(std::make_shared<const DirectForm>(attributes_), context);
  }

  Traits traits() const override { return {.layout = LayoutRule::kChannelsLast}; }

  ConstantUse UseOfConstant(int port, DType dtype) const override {
    return UseOfConvConstant(port, dtype);
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    const Shape& w = shapes.inputs[kConvW];
    return ConvCost({shapes.inputs[kConvX], w, shapes.outputs[0]}, w.Product(1, w.rank()), dtype);
  }

  Decision TryFuseEpilogue(const EpilogueRequest& request) const override {
    return TryFuseStage(request, ColumnAxis::kChannels);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    return BatchOfConv(query, kConvInputs);
  }

 private:
  ConvAttributes attributes_;
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
