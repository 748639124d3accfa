#include "engine/ops/conv_shape.h"

#include <algorithm>

#include "engine/ops/epilogue.h"
#include "engine/ops/extents.h"

namespace tandem::ops {
namespace {

Status CheckChannels(int64_t group, const graph::DimVector& x, const graph::DimVector& w) {
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

}  // namespace

ConvAttributes ReadConvAttributes(NodeReader& reader) {
  ConvAttributes attributes;
  attributes.window = ReadWindow(reader, kWindowDilations);
  attributes.group = reader.Int("group", 1);
  if (attributes.group < 1) {
    reader.Fail(InvalidArgument("attribute 'group' is {} where a positive number is expected",
                                attributes.group));
    attributes.group = 1;
  }
  return attributes;
}

kernels::ConvGeometry ConvGeometryOf(const ConvAttributes& attributes, const Shape& x,
                                     const Shape& w) {
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

kernels::ConvGeometry ConvGeometryOfWeights(const ConvAttributes& attributes, const Shape& w) {
  kernels::ConvGeometry geometry;
  geometry.in_channels = w[1] * attributes.group;
  geometry.out_channels = w[0];
  geometry.group = attributes.group;
  for (const int64_t extent : w.dims().subspan(2)) {
    geometry.axes.push_back({.kernel = extent});
  }
  geometry.axes = kernels::PadAxes(std::move(geometry.axes));
  return geometry;
}

Status CheckConvRanks(const graph::DimVector* x, const graph::DimVector* w) {
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
  return absl::OkStatus();
}

Status CheckConvBias(const graph::DimVector* bias, const graph::Dim& channels) {
  if (bias == nullptr || (bias->size() == 1 && MayEqual((*bias)[0], channels))) {
    return absl::OkStatus();
  }
  return InvalidArgument("B has shape {} where [{}] is expected", graph::ToString(*bias),
                         channels.is_unknown() ? "output channels" : ToString(channels));
}

Status CheckConvKernel(const ConvAttributes& attributes, std::span<const int64_t> kernel) {
  const std::vector<int64_t>& declared = attributes.window.kernel;
  if (declared.empty() || std::ranges::equal(declared, kernel)) return absl::OkStatus();
  return InvalidArgument("attribute 'kernel_shape' is {} where W has {}", ToString(Shape(declared)),
                         ToString(Shape(kernel)));
}

StatusOr<Dims> ConvKernelOf(const ConvAttributes& attributes, const graph::DimVector* w) {
  const std::vector<int64_t>& declared = attributes.window.kernel;
  if (w == nullptr) return Dims(declared.begin(), declared.end());
  const std::optional<Shape> extents = graph::ToShape(graph::DimVector(w->begin() + 2, w->end()));
  if (!extents) return Dims(declared.begin(), declared.end());
  RETURN_IF_ERROR(CheckConvKernel(attributes, extents->dims()));
  return Dims(extents->dims().begin(), extents->dims().end());
}

StatusOr<std::optional<graph::DimVector>> InferConvDims(const ConvAttributes& attributes,
                                                        const graph::DimVector* x,
                                                        const graph::DimVector* w) {
  RETURN_IF_ERROR(CheckConvRanks(x, w));
  if (x == nullptr) return std::optional<graph::DimVector>();
  graph::DimVector out = {(*x)[0], w == nullptr ? graph::Dim() : (*w)[0]};
  if (w != nullptr) RETURN_IF_ERROR(CheckChannels(attributes.group, *x, *w));
  ASSIGN_OR_RETURN(const Dims kernel, ConvKernelOf(attributes, w));
  if (kernel.empty()) {
    out.resize(x->size());
  } else {
    ASSIGN_OR_RETURN(const graph::DimVector spatial,
                     InferWindow(attributes.window, kernel, std::span(*x).subspan(2)));
    out.insert(out.end(), spatial.begin(), spatial.end());
  }
  return std::optional(std::move(out));
}

Status CheckConvAxes(const BindContext& context, int x_port) {
  const int axes = context.input(x_port).rank() - 2;
  if (axes <= kernels::kConvAxes) return absl::OkStatus();
  return Unimplemented("{} has no kernel for {} spatial axes; 1 to {} are supported",
                       context.node().op_type, axes, kernels::kConvAxes);
}

Status CheckConvTypes(const InferContext& context) {
  const DType dtype = context.input(0).dtype;
  if (!IsFloating(dtype)) {
    return InvalidArgument("X is {} where a floating type is expected", DTypeName(dtype));
  }
  for (const int port : {1, 2}) {
    if (!context.has_input(port) || context.input(port).dtype == dtype) continue;
    return InvalidArgument("input {} is {} where X is {}", port,
                           DTypeName(context.input(port).dtype), DTypeName(dtype));
  }
  return absl::OkStatus();
}

Cost ConvCost(const ConvShapes& shapes, int64_t products, DType dtype) {
  const auto outputs = static_cast<double>(shapes.y.elements());
  const auto elements = static_cast<double>(shapes.x.elements() + shapes.w.elements()) + outputs;
  return {.multiply_adds = outputs * static_cast<double>(products),
          .bytes = elements * static_cast<double>(DTypeBits(dtype)) / 8};
}

BatchAnswer BatchOfConv(const BatchQuery& query, int own_inputs) {
  const std::string& op = query.node.op_type;
  const size_t own = std::min(query.axes.size(), static_cast<size_t>(own_inputs));
  for (size_t port = 1; port < own; ++port) {
    if (query.axes[port])
      return BatchAnswer::Decline(fmt::format("the weights of {} carry the batch", op));
  }
  if (query.axes[0] != 0) {
    return BatchAnswer::Decline(fmt::format("the batch of {}'s input is not on axis 0", op));
  }
  const int rank = query.inputs[0]->rank();
  if (std::optional<std::string> reason = OperandsMixBatch(query, own_inputs, 0, rank)) {
    return BatchAnswer::Decline(*std::move(reason));
  }
  return BatchAnswer::All(query, 0);
}

}  // namespace tandem::ops
