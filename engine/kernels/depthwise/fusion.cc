#include "engine/kernels/depthwise/fusion.h"

#include <fmt/format.h>

namespace tandem::kernels {

FusionAnswer TryFusePointwise(const PointwiseQuery& query) {
  if (!query.is_depthwise) {
    return {false, "depthwise: a group has more than one input or output channel", ""};
  }
  if (!query.is_pointwise) {
    return {false, "depthwise: the reader is no 1x1 convolution of stride 1 and one group", ""};
  }
  if (!query.is_float32) return {false, "depthwise: strips are computed in float32 only", ""};
  if (!query.has_stages) return {false, "depthwise: the epilogue has no such stage", ""};
  if (!query.fits_columns) {
    return {false, "depthwise: an operand is neither a scalar nor one element a channel", ""};
  }
  if (query.channels < 0 || query.pixels < 0 || query.columns < 0) {
    return {false, "depthwise: extents are not known at load", ""};
  }
  if (query.pixels < kLeastPointwisePixels) {
    return {false, "depthwise: the image between the convolutions is small",
            fmt::format("pixels={} limit={}", query.pixels, kLeastPointwisePixels)};
  }
  if (query.channels > kMostPointwiseChannels) {
    return {false, "depthwise: a strip would not stay in a cache",
            fmt::format("channels={} limit={}", query.channels, kMostPointwiseChannels)};
  }
  if (query.channels * query.columns > kMostPointwiseWeights) {
    return {
        false, "depthwise: the weights would not stay in a cache beside a strip",
        fmt::format("weights={} limit={}", query.channels * query.columns, kMostPointwiseWeights)};
  }
  return {true, "", ""};
}

FusionAnswer TryFuseExpansion(const ExpansionQuery& query) {
  if (!query.is_pointwise) {
    return {false, "depthwise: its input is no 1x1 convolution of stride 1 and one group", ""};
  }
  if (!query.is_depthwise) {
    return {false, "depthwise: a group has more than one input or output channel", ""};
  }
  if (!query.is_float32) return {false, "depthwise: rows are expanded in float32 only", ""};
  if (!query.is_planar) return {false, "depthwise: the images do not have two axes", ""};
  if (!query.has_stages) return {false, "depthwise: the epilogue has no such stage", ""};
  if (!query.fits_columns) {
    return {false, "depthwise: an operand is neither a scalar nor one element a channel", ""};
  }
  if (query.inputs < 0 || query.channels < 0 || query.pixels < 0 || query.window_pixels < 0) {
    return {false, "depthwise: extents are not known at load", ""};
  }
  if (query.pixels * query.channels < kLeastExpandedFloats) {
    return {
        false, "depthwise: the image between the convolutions stays in a cache",
        fmt::format("elements={} limit={}", query.pixels * query.channels, kLeastExpandedFloats)};
  }
  if (query.window_pixels * query.channels > kMostWindowFloats) {
    return {false, "depthwise: the rows of a window would not stay in a cache",
            fmt::format("elements={} limit={}", query.window_pixels * query.channels,
                        kMostWindowFloats)};
  }
  if (query.inputs * query.channels > kMostExpansionWeights) {
    return {
        false, "depthwise: the weights would not stay in a cache beside them",
        fmt::format("weights={} limit={}", query.inputs * query.channels, kMostExpansionWeights)};
  }
  return {true, "", ""};
}

}  // namespace tandem::kernels
