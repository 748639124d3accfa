#include <algorithm>
#include <cmath>

#include "engine/kernels/resize/resize.h"

namespace tandem::kernels {
namespace {

// (place + shift) / scale. A float32 scale that is no quotient of the extents is itself rounded: in
// float32 its multiples fall on whole places again, which decides what is nearest.
double Unscaled(const ResizeRule& rule, const ResizeScale& scale, double place) {
  const double quotient = place * scale.denominator / scale.numerator;
  const bool snap = scale.rounded && rule.mode == ResizeMode::kNearest;
  return snap ? static_cast<float>(quotient) : quotient;
}

double Coordinate(const ResizeRule& rule, const ResizeExtent& extent, int64_t output) {
  const auto place = static_cast<double>(output);
  const auto last = static_cast<double>(extent.in - 1);
  const double length =
      static_cast<double>(extent.in) * extent.scale.numerator / extent.scale.denominator;
  switch (rule.coordinates) {
    case ResizeCoordinates::kHalfPixel:
      return Unscaled(rule, extent.scale, place + 0.5) - 0.5;
    case ResizeCoordinates::kHalfPixelSymmetric: {
      const double center = static_cast<double>(extent.in) / 2;
      const double offset = center * (1 - static_cast<double>(extent.out) / length);
      return offset + Unscaled(rule, extent.scale, place + 0.5) - 0.5;
    }
    case ResizeCoordinates::kPytorchHalfPixel:
      return extent.out > 1 ? Unscaled(rule, extent.scale, place + 0.5) - 0.5 : 0;
    case ResizeCoordinates::kAlignCorners:
      return extent.out > 1 ? place * last / (length - 1) : 0;
    case ResizeCoordinates::kAsymmetric:
      return Unscaled(rule, extent.scale, place);
    case ResizeCoordinates::kTfHalfPixelForNn:
      return Unscaled(rule, extent.scale, place + 0.5);
    case ResizeCoordinates::kTfCropAndResize:
      if (extent.out > 1) {
        return extent.roi_begin * last +
               place * (extent.roi_end - extent.roi_begin) * last / (length - 1);
      }
      return (extent.roi_begin + extent.roi_end) * last / 2;
  }
  return 0;
}

int64_t Nearest(ResizeRounding rounding, const ResizeScale& scale, double x) {
  const double floor = std::floor(x);
  const double rest = x - floor;
  bool up = false;
  switch (rounding) {
    case ResizeRounding::kPreferFloor:
      up = rest > 0.5;
      break;
    case ResizeRounding::kPreferCeil:
      up = rest >= 0.5;
      break;
    case ResizeRounding::kFloor:
      break;
    case ResizeRounding::kCeil:
      up = rest > 0;
      break;
    case ResizeRounding::kFloorUpCeilDown:
      up = rest > 0 && scale.value() < 1;
      break;
  }
  return static_cast<int64_t>(floor) + (up ? 1 : 0);
}

double Weight(const ResizeRule& rule, double distance) {
  const double d = std::abs(distance);
  if (rule.mode == ResizeMode::kLinear) return std::max(0.0, 1 - d);
  const double a = rule.cubic_a;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

// The taps around a coordinate: places floor(x) + first to floor(x) + first + taps - 1. A filter
// against aliasing is as much wider as the axis shrinks.
struct Footprint {
  double stretch = 1;
  int64_t first = 0;
  int taps = 1;
};

Footprint FootprintOf(const ResizeRule& rule, const ResizeScale& scale) {
  Footprint footprint;
  if (rule.mode == ResizeMode::kNearest) return footprint;
  if (rule.filter == ResizeFilter::kAntialias) footprint.stretch = std::min(1.0, scale.value());
  const double radius = rule.mode == ResizeMode::kLinear ? 1 : 2;
  footprint.first = static_cast<int64_t>(std::floor(-radius / footprint.stretch)) + 1;
  footprint.taps = static_cast<int>(2 - 2 * footprint.first);
  return footprint;
}

bool IsKept(const ResizeRule& rule, const ResizeExtent& extent) {
  return extent.in == extent.out && extent.scale.value() == 1 &&
         rule.coordinates != ResizeCoordinates::kTfHalfPixelForNn &&
         rule.coordinates != ResizeCoordinates::kTfCropAndResize;
}

// Writes the taps of output place `output` around coordinate `x`.
void WriteTaps(const ResizeRule& rule, const Footprint& footprint, ResizeAxis& axis, int64_t output,
               double x) {
  const double floor = std::floor(x);
  double sum = 0;
  for (int t = 0; t < axis.taps; ++t) {
    const auto at = static_cast<size_t>(t * axis.out + output);
    const int64_t offset = footprint.first + t;
    const int64_t place = static_cast<int64_t>(floor) + offset;
    const bool left_out = rule.edge == ResizeEdge::kExclude && (place < 0 || place >= axis.in);
    const double distance = (static_cast<double>(offset) - (x - floor)) * footprint.stretch;
    axis.places[at] = static_cast<int32_t>(std::clamp<int64_t>(place, 0, axis.in - 1));
    axis.weights[at] = left_out ? 0 : Weight(rule, distance);
    sum += axis.weights[at];
  }
  if (rule.edge == ResizeEdge::kRepeat && rule.filter == ResizeFilter::kInterpolate) return;
  for (int t = 0; t < axis.taps; ++t) {
    axis.weights[static_cast<size_t>(t * axis.out + output)] /= sum;
  }
}

}  // namespace

ResizeAxis MakeResizeAxis(const ResizeRule& rule, const ResizeExtent& extent) {
  ResizeAxis axis{.in = extent.in, .out = extent.out};
  if (IsKept(rule, extent)) return axis;
  const Footprint footprint = FootprintOf(rule, extent.scale);
  axis.taps = footprint.taps;
  axis.places.resize(static_cast<size_t>(axis.taps * axis.out));
  axis.weights.resize(axis.places.size(), 1);
  for (int64_t output = 0; output < axis.out; ++output) {
    double x = Coordinate(rule, extent, output);
    if (rule.coordinates == ResizeCoordinates::kTfCropAndResize &&
        !(x >= 0 && x <= static_cast<double>(extent.in - 1))) {
      axis.outside.resize(static_cast<size_t>(axis.out), 0);
      axis.outside[static_cast<size_t>(output)] = 1;
      x = 0;
    }
    if (rule.mode == ResizeMode::kNearest) {
      axis.places[static_cast<size_t>(output)] = static_cast<int32_t>(
          std::clamp<int64_t>(Nearest(rule.rounding, extent.scale, x), 0, extent.in - 1));
    } else {
      WriteTaps(rule, footprint, axis, output, x);
    }
  }
  return axis;
}

}  // namespace tandem::kernels
