// Which pairs of convolutions run as one (pointwise.h): pure functions on plain data, asked while a
// graph is optimised.
#pragma once

#include <cstdint>

#include "engine/kernels/gemm/fusion.h"

namespace tandem::kernels {

// A convolution in groups, and the one that reads it.
struct PointwiseQuery {
  bool is_float32 = false;
  bool is_depthwise = false;  // several groups, each of one input and one output channel
  bool is_pointwise = false;  // 1x1 with stride 1 and one group
  bool has_stages = false;    // the epilogue has every stage of the first
  bool fits_columns = false;  // their operands: one element, or one for each channel
  int64_t channels = -1;      // between the two; -1: unknown
  int64_t pixels = -1;        // of an item, there; -1: unknown
  int64_t columns = -1;       // output channels of the second; -1: unknown
};

// With fewer pixels what lies between them is in a first-level cache anyhow.
inline constexpr int64_t kLeastPointwisePixels = 128;
// A strip and all weights of the second share a cache of the second level.
inline constexpr int64_t kMostPointwiseChannels = 4096;
inline constexpr int64_t kMostPointwiseWeights = int64_t{1} << 17;

FusionAnswer TryFusePointwise(const PointwiseQuery& query);

}  // namespace tandem::kernels
