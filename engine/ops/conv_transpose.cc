// ConvTranspose (ai.onnx, opsets 1, 11, 22): every element of N x C x D1 x ...
// adds a filter of C x M/group x K1 x ... to the output, in one to three
// spatial axes. float32 runs as one convolution for each remainder of the
// output's positions by the strides; float64 on the reference kernel.
//
// The output's extent is stride * (in - 1) + output_padding + reach - pads,
// where reach = (kernel - 1) * dilation + 1; in * stride with auto_pad SAME_*;
// or what output_shape says. In the last two the pads are what is left over, at
// least 0; an odd one lies at the end for SAME_UPPER and at the begin else,
// before opset 11 with output_shape the other way round.
#include <algorithm>

#include "engine/kernels/conv/disjoint.h"
#include "engine/kernels/conv/transposed.h"
#include "engine/kernels/gemm/gemm.h"
#include "engine/ops/conv_shape.h"
#include "engine/ops/conv_step.h"
#include "engine/ops/epilogue.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

// Convolutions that one transposed convolution becomes, at most.
constexpr int64_t kMostPhases = int64_t{1} << 16;

// Where the odd element of pads that follow from output_shape lies.
enum class OddPad : uint8_t { kBegin, kEnd };

struct TransposeAttributes {
  ConvAttributes conv;
  std::vector<int64_t> output_padding;  // empty: 0
  std::vector<int64_t> output_shape;    // empty: not given
  OddPad odd_pad = OddPad::kBegin;
};

// The attributes of one axis; `in` and `out` are not set.
kernels::WindowAxis AxisOf(const TransposeAttributes& attributes, size_t i, int64_t kernel) {
  const WindowAttributes& window = attributes.conv.window;
  kernels::WindowAxis axis{.kernel = kernel};
  if (!window.strides.empty()) axis.stride = window.strides[i];
  if (!window.dilations.empty()) axis.dilation = window.dilations[i];
  return axis;
}

bool IsSame(AutoPad auto_pad) {
  return auto_pad == AutoPad::kSameUpper || auto_pad == AutoPad::kSameLower;
}

// Output positions behind stride * in that the last filter and output_padding
// reach.
int64_t Overhang(const TransposeAttributes& attributes, size_t i, const kernels::WindowAxis& axis) {
  const int64_t padding = attributes.output_padding.empty() ? 0 : attributes.output_padding[i];
  return (axis.kernel - 1) * axis.dilation + 1 + padding - axis.stride;
}

// The sum of explicit pads.
int64_t GivenPads(const TransposeAttributes& attributes, size_t i, size_t axes) {
  const std::vector<int64_t>& pads = attributes.conv.window.pads;
  return pads.empty() ? 0 : pads[i] + pads[i + axes];
}

Status ResolveAxis(const TransposeAttributes& attributes, size_t i, size_t axes,
                   kernels::WindowAxis& axis) {
  const WindowAttributes& window = attributes.conv.window;
  const int64_t whole = axis.stride * axis.in + Overhang(attributes, i, axis);
  const bool given = !attributes.output_shape.empty();
  if (!given && !IsSame(window.auto_pad)) {
    axis.out = whole - GivenPads(attributes, i, axes);
    if (!window.pads.empty()) {
      axis.pad_begin = window.pads[i];
      axis.pad_end = window.pads[i + axes];
    }
    if (axis.out >= 1 || axis.in == 0) {
      axis.out = std::max<int64_t>(axis.out, 0);
      return absl::OkStatus();
    }
    return InvalidArgument("pads {} and {} leave nothing of an output of extent {}", axis.pad_begin,
                           axis.pad_end, whole);
  }
  axis.out = given ? attributes.output_shape[i] : axis.in * axis.stride;
  const int64_t total = std::max<int64_t>(0, whole - axis.out);
  const bool upper = window.auto_pad == AutoPad::kSameUpper;
  const OddPad odd = given ? attributes.odd_pad : OddPad::kBegin;
  const bool at_begin = upper ? odd == OddPad::kEnd : odd == OddPad::kBegin;
  axis.pad_begin = at_begin ? total - total / 2 : total / 2;
  axis.pad_end = total - axis.pad_begin;
  return absl::OkStatus();
}

// One extent of the output; unknown where `in` is no number and the rule keeps
// no multiple of it.
StatusOr<graph::Dim> InferAxis(const TransposeAttributes& attributes, size_t i, size_t axes,
                               const kernels::WindowAxis& window, const graph::Dim& in) {
  kernels::WindowAxis axis = window;
  if (in.is_number()) {
    axis.in = in.number();
    RETURN_IF_ERROR(ResolveAxis(attributes, i, axes, axis));
    return graph::Dim(axis.out);
  }
  if (!attributes.output_shape.empty()) return graph::Dim(attributes.output_shape[i]);
  const bool same = IsSame(attributes.conv.window.auto_pad);
  const bool multiple = same || Overhang(attributes, i, axis) == GivenPads(attributes, i, axes);
  return multiple ? in * graph::Dim(axis.stride) : graph::Dim();
}

kernels::ConvGeometry WeightGeometry(const TransposeAttributes& attributes, const Shape& w) {
  kernels::ConvGeometry geometry;
  geometry.in_channels = w[0];
  geometry.out_channels = w[1] * attributes.conv.group;
  geometry.group = attributes.conv.group;
  for (int i = 2; i < w.rank(); ++i) {
    geometry.axes.push_back(AxisOf(attributes, static_cast<size_t>(i - 2), w[i]));
  }
  geometry.axes = kernels::PadAxes(std::move(geometry.axes));
  geometry.outputs.resize(kernels::kConvAxes);
  return geometry;
}

class TransposedForm final : public ConvForm {
 public:
  explicit TransposedForm(TransposeAttributes attributes) : attributes_(std::move(attributes)) {}

  kernels::ConvGeometry Geometry(const Shape& x, const Shape& w) const override {
    kernels::ConvGeometry geometry = WeightGeometry(attributes_, w);
    geometry.batch = x[0];
    const auto axes = static_cast<size_t>(x.rank() - 2);
    for (size_t i = 0; i < axes; ++i) {
      kernels::WindowAxis& axis = geometry.axes[geometry.axes.size() - axes + i];
      axis.in = x[static_cast<int>(i) + 2];
      const Status resolved = ResolveAxis(attributes_, i, axes, axis);
      CHECK(resolved.ok(), "{}", Message(resolved));
    }
    return geometry;
  }

  Format FormatOf(Arithmetic arithmetic, const Shape& w) const override {
    const kernels::ConvGeometry geometry = WeightGeometry(attributes_, w);
    std::string parameters = fmt::format("{} {} group={}", IsaName(arithmetic.isa),
                                         PrecisionName(arithmetic.precision), geometry.group);
    for (const kernels::WindowAxis& axis : geometry.axes) {
      parameters += fmt::format(" {}/{}", axis.stride, axis.dilation);
    }
    if (kernels::HasDisjointFilters(arithmetic, geometry)) parameters += " side by side";
    return {"conv_transpose.f32", std::move(parameters),
            kernels::PackedConvTransposeFloats(arithmetic, geometry)};
  }

  void Pack(Arithmetic arithmetic, const TensorView& weights, float* packed) const override {
    kernels::PackConvTransposeWeights(arithmetic, WeightGeometry(attributes_, weights.shape()),
                                      weights.data<float>(), packed);
  }

  void Run(const Work& work) const override {
    kernels::ConvTranspose(work.arithmetic, work.geometry, work.weights, work.data,
                           work.context.parallel());
  }

  void RunReference(const Work& work) const override {
    kernels::ConvTransposeReference(work.geometry, work.weights, work.data);
  }
  void RunReference(const kernels::ConvGeometry& geometry, const double* weights, const double* x,
                    double* y) const override {
    kernels::ConvTransposeReference(geometry, weights, x, y);
  }

 private:
  TransposeAttributes attributes_;
};

class ConvTranspose final : public Operator {
 public:
  explicit ConvTranspose(TransposeAttributes attributes) : attributes_(std::move(attributes)) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    TransposeAttributes attributes;
    attributes.conv = ReadConvAttributes(reader);
    attributes.output_padding = ReadWindowList(reader, "output_padding", 0);
    attributes.output_shape = ReadWindowList(reader, "output_shape", 1);
    attributes.odd_pad = reader.opset() < 11 ? OddPad::kEnd : OddPad::kBegin;
    return std::make_shared<const ConvTranspose>(std::move(attributes));
  }

  Status Infer(InferContext& context) const override;

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    int64_t phases = 1;
    for (const int64_t stride : attributes_.conv.window.strides) {
      if (phases <= kMostPhases) phases *= stride;
    }
    if (phases > kMostPhases) {
      return Unimplemented("strides {} have a product above {}, which is not supported",
                           ToString(Shape(attributes_.conv.window.strides)), kMostPhases);
    }
    return BindConv(std::make_shared<const TransposedForm>(attributes_), context);
  }

  Traits traits() const override { return {.layout = LayoutRule::kChannelsLast}; }

  ConstantUse UseOfConstant(int port, DType dtype) const override {
    return UseOfConvConstant(port, dtype);
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    const Shape& x = shapes.inputs[kConvX];
    const Shape& w = shapes.inputs[kConvW];
    const Shape& y = shapes.outputs[0];
    const int64_t all = x.elements() * w.Product(1, w.rank());
    return ConvCost({x, w, y}, all / std::max<int64_t>(1, y.elements()), dtype);
  }

  Decision TryFuseEpilogue(const EpilogueRequest& request) const override {
    return TryFuseStage(request, ColumnAxis::kChannels);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    return BatchOfConv(query, kConvInputs);
  }

 private:
  Status CheckChannels(const graph::DimVector& x, const graph::DimVector& w) const;
  Status CheckLists(std::span<const int64_t> kernel, size_t axes) const;

  TransposeAttributes attributes_;
};

Status ConvTranspose::CheckChannels(const graph::DimVector& x, const graph::DimVector& w) const {
  const int64_t group = attributes_.conv.group;
  if (w[0].is_number() && w[0].number() % group != 0) {
    return InvalidArgument("W has {} input channels, not a multiple of group {}", w[0].number(),
                           group);
  }
  if (x[1].is_number() && w[0].is_number() && x[1].number() != w[0].number()) {
    return InvalidArgument("X has {} channels where W of shape {} expects {}", x[1].number(),
                           graph::ToString(w), w[0].number());
  }
  return absl::OkStatus();
}

Status ConvTranspose::CheckLists(std::span<const int64_t> kernel, size_t axes) const {
  const WindowAttributes& window = attributes_.conv.window;
  if (kernel.size() != axes) {
    return InvalidArgument("the window has {} axes where the input has {} spatial axes",
                           kernel.size(), axes);
  }
  RETURN_IF_ERROR(CheckWindowCount("strides", window.strides.size(), axes));
  RETURN_IF_ERROR(CheckWindowCount("dilations", window.dilations.size(), axes));
  RETURN_IF_ERROR(CheckWindowCount("pads", window.pads.size(), 2 * axes));
  RETURN_IF_ERROR(CheckWindowCount("output_shape", attributes_.output_shape.size(), axes));
  RETURN_IF_ERROR(CheckWindowCount("output_padding", attributes_.output_padding.size(), axes));
  for (size_t i = 0; i < attributes_.output_padding.size(); ++i) {
    const kernels::WindowAxis axis = AxisOf(attributes_, i, kernel[i]);
    const int64_t most = std::max(axis.stride, axis.dilation);
    if (attributes_.output_padding[i] < most) continue;
    return InvalidArgument(
        "attribute 'output_padding' is {} on axis {} where less than {}, its "
        "stride or dilation, is expected",
        attributes_.output_padding[i], i, most);
  }
  return absl::OkStatus();
}

Status ConvTranspose::Infer(InferContext& context) const {
  RETURN_IF_ERROR(CheckConvTypes(context));
  const graph::DimVector* x = context.dims(kConvX);
  const graph::DimVector* w = context.dims(kConvW);
  RETURN_IF_ERROR(CheckConvRanks(x, w));
  const graph::Dim channels =
      w == nullptr ? graph::Dim() : (*w)[1] * graph::Dim(attributes_.conv.group);
  RETURN_IF_ERROR(CheckConvBias(context.dims(kConvBias), channels));
  const DType dtype = context.input(kConvX).dtype;
  context.SetOutput(0, dtype, std::nullopt);
  if (x == nullptr) return absl::OkStatus();
  if (w != nullptr) RETURN_IF_ERROR(CheckChannels(*x, *w));
  graph::DimVector out = {(*x)[0], channels};
  ASSIGN_OR_RETURN(const Dims kernel, ConvKernelOf(attributes_.conv, w));
  if (kernel.empty()) {
    out.resize(x->size());
  } else {
    const size_t axes = x->size() - 2;
    RETURN_IF_ERROR(CheckLists(kernel, axes));
    for (size_t i = 0; i < axes; ++i) {
      ASSIGN_OR_RETURN(
          const graph::Dim extent,
          InferAxis(attributes_, i, axes, AxisOf(attributes_, i, kernel[i]), (*x)[i + 2]));
      out.push_back(extent);
    }
  }
  context.SetOutput(0, dtype, std::move(out));
  return absl::OkStatus();
}

}  // namespace

void RegisterConvTranspose(OpRegistry& registry) {
  registry.Add({.op_type = "ConvTranspose",
                .versions = {1, 11, 22},
                .min_inputs = 2,
                .max_inputs = kConvInputs,
                .parse = ConvTranspose::Parse,
                .doc = "Every input element adds a filter to the output, in groups."});
}

}  // namespace tandem::ops
