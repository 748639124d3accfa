#include "engine/kernels/grid_sample/grid_sample.h"

#include <algorithm>
#include <cmath>

#include "engine/base/check.h"
#include "engine/kernels/elementwise/number.h"

namespace tandem::kernels {
namespace {

// Where an axis ends, in places: its elements' centres are at 0 to extent - 1.
struct Ends {
  double low = 0;
  double high = 0;
};

Ends EndsOf(GridEnds ends, int64_t extent) {
  const auto last = static_cast<double>(extent - 1);
  return ends == GridEnds::kCentres ? Ends{0, last} : Ends{-0.5, last + 0.5};
}

double Place(GridEnds ends, int64_t extent, double grid) {
  const auto length = static_cast<double>(extent);
  if (ends == GridEnds::kCentres) return (grid + 1) / 2 * (length - 1);
  return ((grid + 1) * length - 1) / 2;
}

double Reflect(double place, const Ends& ends) {
  const double range = ends.high - ends.low;
  if (range <= 0) return ends.low;
  const double distance = std::fmod(std::abs(place - ends.low), 2 * range);
  return ends.low + (distance > range ? 2 * range - distance : distance);
}

// The weighted places of one axis that make a sample; fewer where some lie in zeros.
struct AxisTaps {
  int count = 0;
  int64_t places[4];
  double weights[4];
};

class Axis {
 public:
  Axis(const GridSample& sample, int64_t extent)
      : sample_(sample), extent_(extent), ends_(EndsOf(sample.ends, extent)) {}

  AxisTaps At(double grid) const {
    double x = Place(sample_.ends, extent_, grid);
    if (sample_.mode == GridMode::kNearest) x = std::nearbyint(x);  // halves to the even place
    if (!(x >= ends_.low && x <= ends_.high)) x = Padded(x);
    AxisTaps taps;
    constexpr double kReach = 4;  // no sample reaches further
    if (!(x > -kReach && x < static_cast<double>(extent_) + kReach)) return taps;
    const double floor = std::floor(x);
    const auto first = static_cast<int64_t>(floor);
    const double rest = x - floor;
    switch (sample_.mode) {
      case GridMode::kNearest:
        Add(taps, first, 1);
        break;
      case GridMode::kLinear:
        Add(taps, first, 1 - rest);
        Add(taps, first + 1, rest);
        break;
      case GridMode::kCubic:
        for (int t = -1; t <= 2; ++t) Add(taps, first + t, Cubic(std::abs(t - rest)));
        break;
    }
    return taps;
  }

 private:
  double Padded(double x) const {
    if (sample_.padding == GridPadding::kZeros) return x;
    const double padded = sample_.padding == GridPadding::kBorder ? x : Reflect(x, ends_);
    const auto last = static_cast<double>(extent_ - 1);
    if (sample_.padding == GridPadding::kReflection) return std::isnan(padded) ? 0 : padded;
    return padded > 0 ? std::min(padded, last) : 0;
  }

  void Add(AxisTaps& taps, int64_t place, double weight) const {
    if (place < 0 || place >= extent_) {
      if (sample_.padding == GridPadding::kZeros) return;
      if (sample_.padding == GridPadding::kReflection) {
        place = static_cast<int64_t>(Reflect(static_cast<double>(place), ends_));
      }
      place = std::clamp<int64_t>(place, 0, extent_ - 1);
    }
    taps.places[taps.count] = place;
    taps.weights[taps.count++] = weight;
  }

  static double Cubic(double d) {
    constexpr double a = -0.75;
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
  }

  const GridSample& sample_;
  int64_t extent_;
  Ends ends_;
};

// The elements of a channel that make a sample.
struct Tap {
  int64_t offset = 0;
  double weight = 1;
};
using Taps = absl::InlinedVector<Tap, 16>;

Taps TapsOf(const GridSample& sample, const double* point) {
  const auto axes = static_cast<int>(sample.extents.size());
  Taps taps = {Tap()};
  Taps next;
  for (int axis = 0; axis < axes; ++axis) {
    const int64_t extent = sample.extents[static_cast<size_t>(axis)];
    const AxisTaps along = Axis(sample, extent).At(point[axes - 1 - axis]);
    next.clear();
    for (const Tap& tap : taps) {
      for (int t = 0; t < along.count; ++t) {
        next.push_back({tap.offset * extent + along.places[t], tap.weight * along.weights[t]});
      }
    }
    std::swap(taps, next);
  }
  return taps;
}

template <typename T>
void Run(const GridSample& sample, const GridBuffers& buffers, const Parallel& parallel) {
  int64_t size = 1;  // of a channel
  for (const int64_t extent : sample.extents) size *= extent;
  const auto axes = static_cast<int64_t>(sample.extents.size());
  constexpr int64_t kTaps[] = {1, 2, 4};  // along one axis
  int64_t taps = 1;
  for (int64_t axis = 0; axis < axes; ++axis) taps *= kTaps[static_cast<int>(sample.mode)];
  const int64_t grain = GrainOf(kGrainSlowElements, taps * (1 + sample.channels));
  parallel.For(sample.items * sample.points, grain, [&](int64_t begin, int64_t end) {
    absl::InlinedVector<double, 4> point(static_cast<size_t>(axes));
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t axis = 0; axis < axes; ++axis) {
        point[static_cast<size_t>(axis)] = buffers.ReadGrid(i * axes + axis);
      }
      const Taps taps = TapsOf(sample, point.data());
      const int64_t item = i / sample.points;
      const T* from = static_cast<const T*>(buffers.x) + item * sample.channels * size;
      T* to =
          static_cast<T*>(buffers.out) + item * sample.channels * sample.points + i % sample.points;
      for (int64_t c = 0; c < sample.channels; ++c) {
        double sum = 0;
        for (const Tap& tap : taps) sum += tap.weight * AsDouble(from[c * size + tap.offset]);
        to[c * sample.points] = FromDouble<T>(sum);
      }
    }
  });
}

}  // namespace

double GridBuffers::ReadGrid(int64_t i) const {
  switch (grid_dtype) {
    case DType::kDouble:
      return static_cast<const double*>(grid)[i];
    case DType::kFloat16:
      return ToFloat(static_cast<const Float16*>(grid)[i]);
    case DType::kBfloat16:
      return ToFloat(static_cast<const Bfloat16*>(grid)[i]);
    default:
      return static_cast<const float*>(grid)[i];
  }
}

void RunGridSample(const GridSample& sample, const GridBuffers& buffers, const Parallel& parallel) {
  using Function = void (*)(const GridSample&, const GridBuffers&, const Parallel&);
  const auto run = ForNumber(buffers.dtype, []<typename T>(T) -> Function { return Run<T>; });
  CHECK(run != nullptr, "no samples of {}", DTypeName(buffers.dtype));
  run(sample, buffers, parallel);
}

}  // namespace tandem::kernels
