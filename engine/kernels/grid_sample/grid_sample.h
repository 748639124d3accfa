// Samples of images at places that a grid names (ONNX GridSample), for any number of spatial axes,
// in plain loops.
//
// A grid point has one number per spatial axis, the innermost axis first; -1 and 1 are the ends of
// the axis. NaN stands for the end at -1; with zeros around the image it, and whatever is far
// outside, gives 0.
//
// Source: ONNX GridSample; the cubic coefficient is -0.75.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "engine/base/parallel.h"
#include "engine/tensor/dtype.h"

namespace tandem::kernels {

enum class GridMode : uint8_t { kNearest, kLinear, kCubic };
enum class GridPadding : uint8_t { kZeros, kBorder, kReflection };
// What -1 and 1 are: the outer edges of the first and last element, or their centres.
enum class GridEnds : uint8_t { kEdges, kCentres };

struct GridSample {
  GridMode mode = GridMode::kLinear;
  GridPadding padding = GridPadding::kZeros;
  GridEnds ends = GridEnds::kEdges;
  int64_t items = 1;
  int64_t channels = 1;
  absl::InlinedVector<int64_t, 3> extents;  // spatial, outermost first
  int64_t points = 1;                       // of an item
};

// `x` is [items, channels, extents...], `out` [items, channels, points], both of `dtype`: floating
// types and integers, computed in double. `grid` is [items, points, number of extents], of
// `grid_dtype`, a floating type.
struct GridBuffers {
  DType dtype = DType::kFloat;
  DType grid_dtype = DType::kFloat;
  const void* x = nullptr;
  const void* grid = nullptr;
  void* out = nullptr;

  double ReadGrid(int64_t i) const;  // element i of the grid
};
void RunGridSample(const GridSample& sample, const GridBuffers& buffers, const Parallel& parallel);

}  // namespace tandem::kernels
