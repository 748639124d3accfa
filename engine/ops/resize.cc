// Resize (ai.onnx, opset 10; coordinate rules, cubic, regions and sizes since 11; axes, antialias
// and aspect policies since 18; half_pixel_symmetric since 19) and Upsample (opset 7 with scales as
// an attribute, 9 as an input; replaced by Resize in opset 10).
//
// With scales an output extent is floor(extent * scale) in float32, whatever the region of interest
// is. The region takes effect with tf_crop_and_resize alone. Integers are truncated toward zero.
#include "engine/kernels/resize/resize.h"

#include <algorithm>
#include <cmath>

#include "engine/kernels/elementwise/cast.h"
#include "engine/kernels/resize/rows.h"
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

using kernels::ResizeCoordinates;
using kernels::ResizeExtent;
using kernels::ResizeMode;
using kernels::ResizeRounding;
using kernels::ResizeRule;
using kernels::ResizeScale;

enum class AspectPolicy : uint8_t { kStretch, kNotLarger, kNotSmaller };

// Where the inputs are in this version; kNone where it has none.
constexpr int kNone = -1;
struct Ports {
  int roi = kNone;
  int scales = kNone;
  int sizes = kNone;
};

// What a node asks for, as far as it is known; exactly one of scales and sizes decides.
struct Request {
  std::optional<std::vector<float>> scales;
  std::optional<graph::DimVector> sizes;
};

Status CheckScales(std::span<const float> scales) {
  for (const float scale : scales) {
    if (!(scale > 0) || std::isinf(scale)) {
      return InvalidArgument("a scale is {} where a positive number is expected", scale);
    }
  }
  return absl::OkStatus();
}

StatusOr<int64_t> Scaled(int64_t extent, float scale) {
  const float product = std::floor(static_cast<float>(extent) * scale);
  constexpr float kLimit = 0x1p31F;
  if (product < kLimit) return static_cast<int64_t>(product);
  return InvalidArgument("extent {} scaled by {} is {} where less than 2^31 is expected", extent,
                         scale, product);
}

// The quotient that the float32 stands for, if it is one of the extents.
ResizeScale ScaleOf(int64_t in, int64_t out, float scale) {
  if (in > 0 && out > 0 && static_cast<float>(out) / static_cast<float>(in) == scale) {
    return {static_cast<double>(out), static_cast<double>(in)};
  }
  return {scale, 1, true};
}

class Resize final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader);
  static std::shared_ptr<const Operator> ParseUpsample(NodeReader& reader);

  Status Infer(InferContext& context) const override {
    const ValueFacts& x = context.input(0);
    RETURN_IF_ERROR(CheckTypes(context));
    if (!x.dims) {
      context.SetOutput(0, x.dtype, std::nullopt);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::vector<int> axes, Axes(x.rank()));
    ASSIGN_OR_RETURN(const Request request, RequestOf(context));
    ASSIGN_OR_RETURN(graph::DimVector dims, OutputDims(*x.dims, axes, request));
    RETURN_IF_ERROR(CheckExtents(*x.dims, dims));
    if (CropsRegion()) RETURN_IF_ERROR(CheckRegion(context, axes.size()));
    context.SetOutput(0, x.dtype, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const DType dtype = context.input(0).dtype;
    const bool nearest = rule_.mode == ResizeMode::kNearest;
    if (!nearest && !IsFloating(dtype) && !IsInteger(dtype)) {
      return Unimplemented("mode {} of {} is not supported", ModeName(), DTypeName(dtype));
    }
    if (nearest && CropsRegion() && kernels::FindCast(DType::kFloat, dtype) == nullptr) {
      return Unimplemented("extrapolation of {} is not supported", DTypeName(dtype));
    }
    const Resize self = *this;
    const Isa isa = context.isa();
    return MakeMoveStep(context, fmt::format("resize.{} {}", ModeName(), IsaName(isa)),
                        [self, isa](StepContext& run, std::span<const MutableTensorView> outputs) {
                          return self.Run(run, isa, outputs[0]);
                        });
  }

  // One order of axes in memory serves as well as another, as long as both sides have it.
  Traits traits() const override { return {.layout = LayoutRule::kFollow}; }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    constexpr double kTaps[] = {0, 4, 8};  // of an image: the rows' and those within a row
    const auto out = static_cast<double>(shapes.outputs[0].elements());
    const auto in = static_cast<double>(shapes.inputs[0].elements());
    return {.multiply_adds = out * kTaps[static_cast<int>(rule_.mode)],
            .bytes = (in + out) * static_cast<double>(DTypeBytes(dtype, 1))};
  }

  BatchAnswer Batch(const BatchQuery& query) const override;
  bool ReadsShape(int port) const override { return port == ports_.sizes; }

 private:
  bool CropsRegion() const { return rule_.coordinates == ResizeCoordinates::kTfCropAndResize; }
  std::string_view ModeName() const {
    constexpr std::string_view kNames[] = {"nearest", "linear", "cubic"};
    return kNames[static_cast<int>(rule_.mode)];
  }

  StatusOr<std::vector<int>> Axes(int rank) const {
    if (axes_) return ResolveAxes(*axes_, rank, "attribute 'axes'");
    std::vector<int> all;
    for (int axis = 0; axis < rank; ++axis) all.push_back(axis);
    return all;
  }

  Status CheckTypes(const InferContext& context) const;
  StatusOr<Request> RequestOf(const InferContext& context) const;
  Request RequestOf(const StepContext& run) const;
  Status CheckRegion(const InferContext& context, size_t axes) const;
  StatusOr<graph::DimVector> OutputDims(const graph::DimVector& in, const std::vector<int>& axes,
                                        const Request& request) const;
  Status KeepAspect(const graph::DimVector& in, const std::vector<int>& axes,
                    graph::DimVector& dims) const;
  static Status CheckExtents(const graph::DimVector& in, const graph::DimVector& out);
  // The scale that the policy gives all axes of these extents.
  ResizeScale CommonScale(std::span<const int64_t> in, std::span<const int64_t> sizes) const;
  StatusOr<std::vector<ResizeExtent>> Extents(const StepContext& run, const Shape& out) const;
  Status Run(StepContext& run, Isa isa, const MutableTensorView& out) const;
  Status RunNearest(const StepContext& run, const kernels::ResizePlan& plan,
                    const MutableTensorView& out) const;

  ResizeRule rule_;
  float extrapolation_ = 0;
  AspectPolicy policy_ = AspectPolicy::kStretch;
  Ports ports_;
  std::optional<std::vector<int64_t>> axes_;
  std::optional<std::vector<float>> scales_;  // Upsample 7
};

// The value that `name` has among `choices`; the first where the attribute is missing or wrong.
template <typename T>
T ReadChoice(NodeReader& reader, std::string_view name,
             std::initializer_list<std::pair<std::string_view, T>> choices,
             std::string_view fallback) {
  const std::string given = reader.String(name, fallback);
  std::string expected;
  for (const auto& [text, value] : choices) {
    if (text == given) return value;
    expected += fmt::format("{}{}", expected.empty() ? "" : ", ", text);
  }
  reader.Fail(
      InvalidArgument("attribute '{}' is '{}' where one of {} is expected", name, given, expected));
  return choices.begin()->second;
}

ResizeMode ReadMode(NodeReader& reader) {
  using enum ResizeMode;
  if (reader.opset() < 11) {
    return ReadChoice<ResizeMode>(reader, "mode", {{"nearest", kNearest}, {"linear", kLinear}},
                                  "nearest");
  }
  return ReadChoice<ResizeMode>(
      reader, "mode", {{"nearest", kNearest}, {"linear", kLinear}, {"cubic", kCubic}}, "nearest");
}

ResizeCoordinates ReadCoordinates(NodeReader& reader) {
  using enum ResizeCoordinates;
  constexpr std::string_view kName = "coordinate_transformation_mode";
  const auto coordinates =
      ReadChoice<ResizeCoordinates>(reader, kName,
                                    {{"half_pixel", kHalfPixel},
                                     {"half_pixel_symmetric", kHalfPixelSymmetric},
                                     {"pytorch_half_pixel", kPytorchHalfPixel},
                                     {"align_corners", kAlignCorners},
                                     {"asymmetric", kAsymmetric},
                                     {"tf_half_pixel_for_nn", kTfHalfPixelForNn},
                                     {"tf_crop_and_resize", kTfCropAndResize}},
                                    "half_pixel");
  if ((coordinates == kHalfPixelSymmetric && reader.opset() < 19) ||
      (coordinates == kTfHalfPixelForNn && reader.opset() >= 13)) {
    reader.Fail(InvalidArgument("attribute '{}' is '{}', which opset {} does not have", kName,
                                reader.String(kName, ""), reader.opset()));
  }
  return coordinates;
}

ResizeRule ReadRule(NodeReader& reader) {
  using enum ResizeRounding;
  ResizeRule rule;
  rule.mode = ReadMode(reader);
  if (reader.opset() < 11) {
    rule.coordinates = ResizeCoordinates::kAsymmetric;
    rule.rounding = kFloorUpCeilDown;
    return rule;
  }
  rule.coordinates = ReadCoordinates(reader);
  rule.rounding = ReadChoice<ResizeRounding>(reader, "nearest_mode",
                                             {{"round_prefer_floor", kPreferFloor},
                                              {"round_prefer_ceil", kPreferCeil},
                                              {"floor", kFloor},
                                              {"ceil", kCeil}},
                                             "round_prefer_floor");
  rule.cubic_a = reader.Float("cubic_coeff_a", -0.75F);
  if (reader.Flag("exclude_outside", false)) rule.edge = kernels::ResizeEdge::kExclude;
  if (reader.opset() >= 18 && reader.Flag("antialias", false)) {
    rule.filter = kernels::ResizeFilter::kAntialias;
    if (rule.mode == ResizeMode::kNearest) {
      reader.Fail(InvalidArgument("attribute 'antialias' is 1 where mode is nearest"));
    }
  }
  return rule;
}

std::shared_ptr<const Operator> Resize::Parse(NodeReader& reader) {
  auto op = std::make_shared<Resize>();
  op->rule_ = ReadRule(reader);
  if (reader.opset() < 11) {
    op->ports_.scales = 1;
    return op;
  }
  op->ports_ = {.roi = 1, .scales = 2, .sizes = 3};
  op->extrapolation_ = reader.Float("extrapolation_value", 0);
  if (op->CropsRegion() && !reader.has_input(op->ports_.roi)) {
    reader.Fail(InvalidArgument("input 1 (roi) is missing where tf_crop_and_resize needs it"));
  }
  if (reader.opset() < 18) return op;
  if (reader.has("axes")) op->axes_ = reader.Ints("axes");
  using enum AspectPolicy;
  op->policy_ = ReadChoice<AspectPolicy>(
      reader, "keep_aspect_ratio_policy",
      {{"stretch", kStretch}, {"not_larger", kNotLarger}, {"not_smaller", kNotSmaller}}, "stretch");
  return op;
}

std::shared_ptr<const Operator> Resize::ParseUpsample(NodeReader& reader) {
  auto op = std::make_shared<Resize>();
  op->rule_ = ReadRule(reader);
  if (reader.opset() >= 10) {
    reader.Fail(Unimplemented("opset {} has Resize in place of Upsample", reader.opset()));
  } else if (reader.opset() >= 9) {
    op->ports_.scales = 1;
    if (!reader.has_input(1)) reader.Fail(InvalidArgument("input 1 (scales) is missing"));
  } else {
    op->scales_ = reader.Floats("scales");
    if (!reader.has("scales")) reader.Fail(InvalidArgument("attribute 'scales' is missing"));
    if (reader.has_input(1)) reader.Fail(InvalidArgument("it has an input 1 (scales) in opset 7"));
  }
  return op;
}

Status Resize::CheckTypes(const InferContext& context) const {
  const auto check = [&context](int port, std::string_view name, auto supported) -> Status {
    if (port == kNone || !context.has_input(port)) return absl::OkStatus();
    const DType dtype = context.input(port).dtype;
    if (supported(dtype)) return absl::OkStatus();
    return InvalidArgument("input {} ({}) is of type {}", port, name, DTypeName(dtype));
  };
  RETURN_IF_ERROR(check(ports_.scales, "scales", [](DType d) { return d == DType::kFloat; }));
  RETURN_IF_ERROR(check(ports_.sizes, "sizes", [](DType d) { return d == DType::kInt64; }));
  return check(ports_.roi, "roi", [](DType d) { return IsFloating(d) && d != DType::kBfloat16; });
}

StatusOr<Request> Resize::RequestOf(const InferContext& context) const {
  if (scales_) return Request{.scales = scales_};
  // The number of elements of a list: 0 where it is omitted, nothing where it is unknown.
  const auto count = [&context](int port) -> std::optional<int64_t> {
    if (port == kNone || !context.has_input(port)) return 0;
    const graph::DimVector* dims = context.dims(port);
    if (dims == nullptr || dims->size() != 1 || !(*dims)[0].is_number()) return std::nullopt;
    return (*dims)[0].number();
  };
  const std::optional<int64_t> scales = count(ports_.scales);
  const std::optional<int64_t> sizes = count(ports_.sizes);
  if (scales == 0 && sizes == 0) return InvalidArgument("neither scales nor sizes are given");
  if (scales.value_or(0) > 0 && sizes.value_or(0) > 0) {
    return InvalidArgument("both scales and sizes are given");
  }
  Request request;
  if (sizes == 0 && context.input(ports_.scales).value) {
    const auto values = context.input(ports_.scales).value->span<float>();
    request.scales.emplace(values.begin(), values.end());
  } else if (scales == 0) {
    request.sizes = context.Content(ports_.sizes);
  }
  return request;
}

Request Resize::RequestOf(const StepContext& run) const {
  Request request;
  if (scales_) {
    request.scales = scales_;
  } else if (run.has_input(ports_.scales) && run.input(ports_.scales).elements() > 0) {
    const auto values = run.input(ports_.scales).span<float>();
    request.scales.emplace(values.begin(), values.end());
  } else {
    const std::vector<int64_t> sizes = ReadIntegers(run.input(ports_.sizes));
    request.sizes.emplace(sizes.begin(), sizes.end());
  }
  return request;
}

Status Resize::CheckRegion(const InferContext& context, size_t axes) const {
  const graph::DimVector* dims = context.dims(ports_.roi);
  const auto expected = static_cast<int64_t>(2 * axes);
  if (dims == nullptr || (dims->size() == 1 && MayEqual((*dims)[0], expected))) {
    return absl::OkStatus();
  }
  return InvalidArgument("roi (input 1) has shape {} where {} elements are expected",
                         graph::ToString(*dims), expected);
}

ResizeScale Resize::CommonScale(std::span<const int64_t> in, std::span<const int64_t> sizes) const {
  ResizeScale common;
  for (size_t i = 0; i < in.size(); ++i) {
    const ResizeScale scale{static_cast<double>(sizes[i]), static_cast<double>(in[i])};
    const bool better = policy_ == AspectPolicy::kNotLarger ? scale.value() < common.value()
                                                            : scale.value() > common.value();
    if (i == 0 || better) common = scale;
  }
  return common;
}

StatusOr<graph::DimVector> Resize::OutputDims(const graph::DimVector& in,
                                              const std::vector<int>& axes,
                                              const Request& request) const {
  graph::DimVector dims = in;
  const auto at = [&](size_t i) -> graph::Dim& { return dims[static_cast<size_t>(axes[i])]; };
  const auto check_count = [&axes](std::string_view name, size_t count) -> Status {
    if (count == axes.size()) return absl::OkStatus();
    return InvalidArgument("{} have {} elements where {} are expected", name, count, axes.size());
  };
  if (request.scales) {
    RETURN_IF_ERROR(check_count("scales", request.scales->size()));
    RETURN_IF_ERROR(CheckScales(*request.scales));
    for (size_t i = 0; i < axes.size(); ++i) {
      const float scale = (*request.scales)[i];
      if (at(i).is_number()) {
        ASSIGN_OR_RETURN(at(i), Scaled(at(i).number(), scale));
      } else {
        ASSIGN_OR_RETURN(const int64_t whole, Scaled(1, scale));
        at(i) = static_cast<float>(whole) == scale ? at(i) * graph::Dim(whole) : graph::Dim();
      }
    }
    return dims;
  }
  if (request.sizes) RETURN_IF_ERROR(check_count("sizes", request.sizes->size()));
  for (size_t i = 0; i < axes.size(); ++i) {
    at(i) = request.sizes ? (*request.sizes)[i] : graph::Dim();
    constexpr int64_t kLimit = int64_t{1} << 31;
    if (at(i).is_number() && (at(i).number() < 0 || at(i).number() >= kLimit)) {
      return InvalidArgument("a size is {} where 0 to 2^31 - 1 are expected", at(i).number());
    }
  }
  if (policy_ != AspectPolicy::kStretch) RETURN_IF_ERROR(KeepAspect(in, axes, dims));
  return dims;
}

// Brings the sizes in `dims` to the one scale that the policy chooses.
Status Resize::KeepAspect(const graph::DimVector& in, const std::vector<int>& axes,
                          graph::DimVector& dims) const {
  std::vector<int64_t> extents;
  std::vector<int64_t> sizes;
  for (const int axis : axes) {
    const graph::Dim& extent = in[static_cast<size_t>(axis)];
    const graph::Dim& size = dims[static_cast<size_t>(axis)];
    if (!extent.is_number() || !size.is_number()) break;
    if (extent.number() == 0) return InvalidArgument("axis {} has no elements to scale", axis);
    extents.push_back(extent.number());
    sizes.push_back(size.number());
  }
  const bool known = extents.size() == axes.size();
  const ResizeScale scale = known ? CommonScale(extents, sizes) : ResizeScale();
  for (size_t i = 0; i < axes.size(); ++i) {
    graph::Dim& dim = dims[static_cast<size_t>(axes[i])];
    if (!known) {
      dim = graph::Dim();
      continue;
    }
    const double extent = static_cast<double>(extents[i]) * scale.numerator / scale.denominator;
    dim = static_cast<int64_t>(std::floor(extent + 0.5));
  }
  return absl::OkStatus();
}

Status Resize::CheckExtents(const graph::DimVector& in, const graph::DimVector& out) {
  for (size_t axis = 0; axis < in.size(); ++axis) {
    if (!in[axis].is_number() || !out[axis].is_number()) continue;
    if (in[axis].number() == 0 && out[axis].number() > 0) {
      return InvalidArgument("axis {} has no elements and cannot have size {}", axis,
                             out[axis].number());
    }
  }
  const std::optional<Shape> shape = graph::ToShape(out);
  if (shape && !CheckedElements(shape->dims())) {
    return InvalidArgument("the output {} passes the size that can be counted", ToString(*shape));
  }
  return absl::OkStatus();
}

BatchAnswer Resize::Batch(const BatchQuery& query) const {
  if (!query.axes[0]) return BatchAnswer::Decline("its scales carry the batch");
  for (size_t port = 1; port < query.axes.size(); ++port) {
    if (query.axes[port]) return BatchAnswer::Decline("its scales carry the batch");
  }
  const ValueFacts& x = *query.inputs[0];
  if (!x.dims || !query.outputs[0]->dims) return BatchAnswer::Decline("a rank is unknown");
  const auto batch = static_cast<size_t>(*query.axes[0]);
  const StatusOr<std::vector<int>> axes = Axes(x.rank());
  if (!axes.ok()) return BatchAnswer::Decline(std::string(Message(axes.status())));
  const auto named = std::ranges::find(*axes, *query.axes[0]);
  if (named == axes->end()) return BatchAnswer::All(query, query.axes[0]);
  if (CropsRegion()) return BatchAnswer::Decline("its region may crop the batch");
  if (policy_ == AspectPolicy::kStretch &&
      (*query.outputs[0]->dims)[batch].SameAs((*x.dims)[batch])) {
    return BatchAnswer::All(query, query.axes[0]);
  }
  return BatchAnswer::Decline("it resizes the batch, or may do so");
}

StatusOr<std::vector<ResizeExtent>> Resize::Extents(const StepContext& run,
                                                    const Shape& out) const {
  const Shape& in = run.input(0).shape();
  const Request request = RequestOf(run);
  ASSIGN_OR_RETURN(const std::vector<int> axes, Axes(in.rank()));
  std::vector<ResizeExtent> extents;
  for (int axis = 0; axis < in.rank(); ++axis) extents.push_back({in[axis], out[axis]});
  std::vector<int64_t> named;
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < axes.size() && request.sizes; ++i) {
    named.push_back(in[axes[i]]);
    sizes.push_back((*request.sizes)[i].number());
  }
  Tensor roi;
  if (CropsRegion()) {
    ASSIGN_OR_RETURN(roi, Converted(run.input(ports_.roi), DType::kDouble));
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizeExtent& extent = extents[static_cast<size_t>(axes[i])];
    if (request.scales) {
      extent.scale = ScaleOf(extent.in, extent.out, (*request.scales)[i]);
    } else if (policy_ == AspectPolicy::kStretch) {
      extent.scale = {static_cast<double>(extent.out), static_cast<double>(extent.in)};
    } else {
      extent.scale = CommonScale(named, sizes);
    }
    if (!roi.valid()) continue;
    extent.roi_begin = roi.data<double>()[i];
    extent.roi_end = roi.data<double>()[i + axes.size()];
  }
  return extents;
}

Status Resize::Run(StepContext& run, Isa isa, const MutableTensorView& out) const {
  const TensorView& x = run.input(0);
  if (out.elements() == 0) return absl::OkStatus();
  CHECK(x.layout() == out.layout(), "Resize from {} to {}", LayoutName(x.layout()),
        LayoutName(out.layout()));
  ASSIGN_OR_RETURN(const std::vector<ResizeExtent> extents, Extents(run, out.shape()));
  std::vector<kernels::ResizeAxis> axes;
  for (const ResizeExtent& extent : extents) axes.push_back(MakeResizeAxis(rule_, extent));
  if (x.layout() == Layout::kChannelsLast) {
    std::rotate(axes.begin() + 1, axes.begin() + 2, axes.end());
  }
  const kernels::ResizePlan plan = kernels::MakeResizePlan(std::move(axes));
  if (rule_.mode == ResizeMode::kNearest) return RunNearest(run, plan, out);
  if (x.dtype() == DType::kFloat && isa != Isa::kReference && !plan.blocks.empty() &&
      !plan.extrapolates()) {
    kernels::ResizeRows(isa, plan, x.data<float>(), out.mutable_data<float>(), run.parallel());
  } else {
    kernels::ResizeReference(plan, {x.dtype(), x.raw(), out.mutable_raw(), extrapolation_},
                             run.parallel());
  }
  return absl::OkStatus();
}

Status Resize::RunNearest(const StepContext& run, const kernels::ResizePlan& plan,
                          const MutableTensorView& out) const {
  const TensorView& x = run.input(0);
  const DType dtype = x.dtype();
  const Tensor wanted = Tensor::Scalar(extrapolation_);
  ASSIGN_OR_RETURN(const Tensor value, plan.extrapolates() ? Converted(wanted.view(), dtype)
                                                           : Tensor::Allocate(dtype, Shape()));
  WithElement(dtype, [&](auto element) {
    using T = decltype(element);
    kernels::ResizeNearest(plan, static_cast<const T*>(x.raw()), static_cast<T*>(out.mutable_raw()),
                           *static_cast<const T*>(value.view().raw()), run.parallel());
  });
  return absl::OkStatus();
}

}  // namespace

void RegisterResize(OpRegistry& registry) {
  registry.Add({.op_type = "Resize",
                .versions = {10, 11, 13, 18, 19},
                .min_inputs = 1,
                .max_inputs = 4,
                .parse = Resize::Parse,
                .doc = "Resamples the input along any of its axes: nearest, linear or cubic."});
  registry.Add({.op_type = "Upsample",
                .versions = {7, 9},
                .max_inputs = 2,
                .parse = Resize::ParseUpsample,
                .doc = "Resize of opsets 7 to 9."});
}

}  // namespace tandem::ops
