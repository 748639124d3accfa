// Which convolutions run as one (strips.h): pure functions on plain data, asked while a graph is
// optimised.
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

// A convolution, and the one in groups that reads it.
struct ExpansionQuery {
  bool is_float32 = false;
  bool is_pointwise = false;   // 1x1 with stride 1 and one group
  bool is_depthwise = false;   // several groups, each of one input and one output channel
  bool is_planar = false;      // of images with two axes
  bool has_stages = false;     // the epilogue has every stage of the first
  bool fits_columns = false;   // their operands: one element, or one for each channel
  int64_t inputs = -1;         // channels before the first; -1: unknown
  int64_t channels = -1;       // between the two; -1: unknown
  int64_t pixels = -1;         // of an item, there; -1: unknown
  int64_t window_pixels = -1;  // of the rows that a window reaches; -1: unknown
};

// What lies between them passes a cache of the second level or nearly does.
inline constexpr int64_t kLeastExpandedFloats = int64_t{1} << 17;
// The rows of one window and the weights of the first; a strip has several, with as many rows.
inline constexpr int64_t kMostWindowFloats = int64_t{1} << 17;
inline constexpr int64_t kMostExpansionWeights = int64_t{1} << 16;

FusionAnswer TryFuseExpansion(const ExpansionQuery& query);

}  // namespace tandem::kernels
