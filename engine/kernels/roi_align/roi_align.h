// Regions of images pooled to one size (ONNX RoiAlign), in plain loops.
//
// A region is cut into out_height x out_width bins; each is the average or the maximum of samples
// on a regular grid, interpolated between the four elements around them. A sample more than one
// element outside of the image is 0. The maximum is over the four weighted elements of each sample,
// as the specification's own implementation has it.
//
// Source: ONNX RoiAlign; K. He et al., "Mask R-CNN".
#pragma once

#include <cstdint>

#include "engine/base/parallel.h"
#include "engine/tensor/dtype.h"

namespace tandem::kernels {

enum class RoiPooling : uint8_t { kAverage, kMax };
// Whether a coordinate counts from the corner of the first element or from its centre; regions are
// at least one element large in the second case.
enum class RoiOrigin : uint8_t { kHalfPixel, kOutputHalfPixel };

struct RoiAlign {
  RoiPooling pooling = RoiPooling::kAverage;
  RoiOrigin origin = RoiOrigin::kHalfPixel;
  double scale = 1;      // of the regions' coordinates to the image's
  int64_t sampling = 0;  // samples along each side of a bin; 0: as many as it has elements
  int64_t channels = 1;
  int64_t height = 1;
  int64_t width = 1;
  int64_t out_height = 1;
  int64_t out_width = 1;
  int64_t regions = 1;
};

// `x` is [items, channels, height, width], `regions` [regions, 4] as x1, y1, x2, y2, `out`
// [regions, channels, out_height, out_width], all of `dtype`, a floating type; `items` names the
// image of each region.
struct RoiBuffers {
  DType dtype = DType::kFloat;
  const void* x = nullptr;
  const void* regions = nullptr;
  const int64_t* items = nullptr;
  void* out = nullptr;
};
void RunRoiAlign(const RoiAlign& align, const RoiBuffers& buffers, const Parallel& parallel);

}  // namespace tandem::kernels
