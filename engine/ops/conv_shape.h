// What the operators share that convolve: attributes, shapes, checks and cost.
#pragma once

#include <optional>

#include "engine/kernels/conv/conv.h"
#include "engine/ops/operator.h"
#include "engine/ops/registry.h"
#include "engine/ops/window.h"

namespace tandem::ops {

struct ConvAttributes {
  WindowAttributes window;
  int64_t group = 1;
};

// kernel_shape, strides, dilations, pads, auto_pad and group.
ConvAttributes ReadConvAttributes(NodeReader& reader);

// The geometry for concrete shapes, which InferConvDims has accepted.
kernels::ConvGeometry ConvGeometryOf(const ConvAttributes& attributes, const Shape& x,
                                     const Shape& w);
// What the weights alone say; enough to pack them.
kernels::ConvGeometry ConvGeometryOfWeights(const ConvAttributes& attributes, const Shape& w);

// Extents of the result for x [N, C, ...] and w [M, C / group, ...], null where their rank is
// unknown; nothing when the result's is. InvalidArgument says what does not fit.
StatusOr<std::optional<graph::DimVector>> InferConvDims(const ConvAttributes& attributes,
                                                        const graph::DimVector* x,
                                                        const graph::DimVector* w);

// InvalidArgument for ranks that are below 3 or differ; dims are null where the rank is unknown.
Status CheckConvRanks(const graph::DimVector* x, const graph::DimVector* w);
// InvalidArgument when `bias` is no vector of `channels` elements.
Status CheckConvBias(const graph::DimVector* bias, const graph::Dim& channels);
// InvalidArgument when kernel_shape is given and is not what the weights have.
Status CheckConvKernel(const ConvAttributes& attributes, std::span<const int64_t> kernel);
// The window's extents, of the weights or else of kernel_shape; empty when neither is known.
StatusOr<Dims> ConvKernelOf(const ConvAttributes& attributes, const graph::DimVector* w);

// Unimplemented for more spatial axes than the kernels have.
Status CheckConvAxes(const BindContext& context, int x_port);

// InvalidArgument where inputs 0 to 2 are not of one floating type.
Status CheckConvTypes(const InferContext& context);

// x, w and y of a convolution; `products` are the multiply-adds of an element of y.
struct ConvShapes {
  const Shape& x;
  const Shape& w;
  const Shape& y;
};
Cost ConvCost(const ConvShapes& shapes, int64_t products, DType dtype);

// The batch rule: axis 0 of x, shared weights.
BatchAnswer BatchOfConv(const BatchQuery& query, int own_inputs);

}  // namespace tandem::ops
