// Resampling a dense tensor along any of its axes (ONNX Resize and Upsample).
//
// Axes are independent: each has a table of the input places that make an output place and of their
// weights. Linear and cubic results are sums of products over the places of all resized axes;
// nearest moves elements as bits. Places beyond the edges repeat the edge unless the rule leaves
// them out. The order of summation follows from the plan alone.
//
// Source: ONNX Resize; R. Keys, "Cubic convolution interpolation for digital image processing".
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "engine/base/cpu.h"
#include "engine/base/parallel.h"
#include "engine/tensor/dtype.h"

namespace tandem::kernels {

enum class ResizeMode : uint8_t { kNearest, kLinear, kCubic };

// How a place of the output becomes a coordinate of the input (coordinate_transformation_mode).
enum class ResizeCoordinates : uint8_t {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kTfHalfPixelForNn,
  kTfCropAndResize,
};

// Which place is nearest to a coordinate (nearest_mode).
enum class ResizeRounding : uint8_t {
  kPreferFloor,
  kPreferCeil,
  kFloor,
  kCeil,
  kFloorUpCeilDown,  // floor where the axis grows, ceil where it shrinks: opset 10 and Upsample
};

enum class ResizeEdge : uint8_t { kRepeat, kExclude };
enum class ResizeFilter : uint8_t { kInterpolate, kAntialias };

struct ResizeRule {
  ResizeMode mode = ResizeMode::kNearest;
  ResizeCoordinates coordinates = ResizeCoordinates::kHalfPixel;
  ResizeRounding rounding = ResizeRounding::kPreferFloor;
  ResizeEdge edge = ResizeEdge::kRepeat;
  ResizeFilter filter = ResizeFilter::kInterpolate;
  double cubic_a = -0.75;
};

// Output places per input place, as a quotient, so that coordinates of given sizes are exact.
struct ResizeScale {
  double numerator = 1;
  double denominator = 1;
  bool rounded = false;  // a float32 that is no quotient of the extents

  double value() const { return numerator / denominator; }
  friend bool operator==(const ResizeScale&, const ResizeScale&) = default;
};

// One axis as it is asked for. The region of interest is for kTfCropAndResize, in shares of `in`.
struct ResizeExtent {
  int64_t in = 1;
  int64_t out = 1;
  ResizeScale scale;
  double roi_begin = 0;
  double roi_end = 1;
};

// One axis ready to run. Tables are in the order [tap][output place].
struct ResizeAxis {
  int64_t in = 1;
  int64_t out = 1;
  int taps = 0;  // 0: the axis is kept, out = in
  std::vector<int32_t> places;
  std::vector<double> weights;
  // By output place, 1 where the extrapolation value stands; empty when it stands nowhere.
  std::vector<uint8_t> outside;
};

// `in` is below 2^31, and at least 1 unless `out` is 0.
ResizeAxis MakeResizeAxis(const ResizeRule& rule, const ResizeExtent& extent);

// Output places [begin, end) of a row, and the input places [first, last] that they read.
struct ResizeBlock {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t first = 0;
  int64_t last = 0;
};

// A tensor as rows along its last resized axis; a place of a row is `inner` neighbouring elements.
struct ResizePlan {
  absl::InlinedVector<ResizeAxis, 4> outer;  // outermost first, kept ones among them
  ResizeAxis row;
  int64_t inner = 1;
  // For ResizeRows; without blocks it cannot serve this plan.
  std::vector<float> row_weights;
  std::vector<ResizeBlock> blocks;
  int64_t chunks = 1;  // parts of `inner` that are computed one by one

  int64_t rows() const;  // of the output
  bool extrapolates() const;
};
inline constexpr int64_t kResizeTile = 4096;  // elements of an input row that are held at a time

// The axes of the tensor in the order of memory, outermost first.
ResizePlan MakeResizePlan(std::vector<ResizeAxis> axes);

// Linear and cubic modes of floating types and integers, summed in double; integers are truncated
// toward zero and saturated. `extrapolation` stands outside the region of interest.
struct ResizeBuffers {
  DType dtype = DType::kFloat;
  const void* in = nullptr;
  void* out = nullptr;
  double extrapolation = 0;
};
void ResizeReference(const ResizePlan& plan, const ResizeBuffers& buffers,
                     const Parallel& parallel);

// The same for float32, summed in float32, without extrapolation.
void ResizeRows(Isa isa, const ResizePlan& plan, const float* in, float* out,
                const Parallel& parallel);

}  // namespace tandem::kernels
