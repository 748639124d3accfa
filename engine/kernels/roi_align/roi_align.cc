#include "engine/kernels/roi_align/roi_align.h"

#include <algorithm>
#include <cmath>

#include "engine/base/check.h"
#include "engine/kernels/elementwise/number.h"

namespace tandem::kernels {
namespace {

// Samples of one side of a region's bins.
struct Side {
  double start = 0;
  double bin = 0;       // extent of a bin
  int64_t samples = 0;  // of a bin

  double step() const { return bin / static_cast<double>(samples); }
  double Begin(int64_t index) const { return start + static_cast<double>(index) * bin; }
  double Place(int64_t index, int64_t sample) const {
    return Begin(index) + (static_cast<double>(sample) + 0.5) * step();
  }
};

// The samples of a bin that may lie in the image; a region may be far larger than it.
struct Samples {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t count() const { return end - begin; }
};

Samples Inside(const Side& side, int64_t index, int64_t extent) {
  const auto bounded = [&side](double sample) -> int64_t {
    if (!(sample > 0)) return 0;
    return static_cast<int64_t>(std::min(sample, static_cast<double>(side.samples)));
  };
  if (!(side.step() > 0)) return {0, side.samples};
  const double begin = (-1 - side.Begin(index)) / side.step();
  const double end = (static_cast<double>(extent) - side.Begin(index)) / side.step();
  return {bounded(begin - 2), bounded(end + 2)};
}

Side SideOf(const RoiAlign& align, double begin, double end, int64_t bins) {
  const double offset = align.origin == RoiOrigin::kHalfPixel ? 0.5 : 0;
  Side side;
  side.start = begin * align.scale - offset;
  double length = end * align.scale - offset - side.start;
  if (align.origin == RoiOrigin::kOutputHalfPixel) length = std::max(length, 1.0);
  side.bin = length / static_cast<double>(bins);
  side.samples = align.sampling;
  constexpr double kMost = 1 << 30;
  if (side.samples == 0 && side.bin > 0) {
    side.samples = static_cast<int64_t>(std::ceil(std::min(side.bin, kMost)));
  }
  return side;
}

// The two elements around a place and the weight of the second.
struct Between {
  int64_t low = 0;
  int64_t high = 0;
  double rest = 0;
  bool outside = false;
};

Between Around(double place, int64_t extent) {
  Between between;
  if (!(place >= -1 && place <= static_cast<double>(extent))) return {.outside = true};
  place = std::max(place, 0.0);
  between.low = std::min(static_cast<int64_t>(place), extent - 1);
  between.high = std::min(between.low + 1, extent - 1);
  if (between.high > between.low) between.rest = place - static_cast<double>(between.low);
  return between;
}

class Pool {
 public:
  explicit Pool(RoiPooling pooling) : pooling_(pooling) {}

  void Add(const double (&weighted)[4]) {
    if (pooling_ == RoiPooling::kAverage) {
      for (const double value : weighted) value_ += value;
    } else {
      const double largest = *std::ranges::max_element(weighted);
      value_ = count_ == 0 ? largest : std::max(value_, largest);
    }
    ++count_;
  }
  // Samples that are 0.
  void AddOutside(int64_t samples) {
    if (samples == 0) return;
    if (pooling_ == RoiPooling::kMax) value_ = count_ == 0 ? 0 : std::max(value_, 0.0);
    count_ += samples;
  }

  double value() const {
    if (pooling_ == RoiPooling::kMax || count_ == 0) return value_;
    return value_ / static_cast<double>(count_);
  }

 private:
  RoiPooling pooling_;
  double value_ = 0;
  int64_t count_ = 0;
};

template <typename T>
double PoolBin(const RoiAlign& align, const Side (&sides)[2], const int64_t (&bins)[2],
               const T* image) {
  Pool pool(align.pooling);
  const Samples rows = Inside(sides[0], bins[0], align.height);
  const Samples columns = Inside(sides[1], bins[1], align.width);
  pool.AddOutside(sides[0].samples * sides[1].samples - rows.count() * columns.count());
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    const Between y = Around(sides[0].Place(bins[0], i), align.height);
    for (int64_t j = columns.begin; j < columns.end; ++j) {
      const Between x = Around(sides[1].Place(bins[1], j), align.width);
      if (y.outside || x.outside) {
        pool.AddOutside(1);
        continue;
      }
      const T* low = image + y.low * align.width;
      const T* high = image + y.high * align.width;
      pool.Add({(1 - y.rest) * (1 - x.rest) * AsDouble(low[x.low]),
                (1 - y.rest) * x.rest * AsDouble(low[x.high]),
                y.rest * (1 - x.rest) * AsDouble(high[x.low]),
                y.rest * x.rest * AsDouble(high[x.high])});
    }
  }
  return pool.value();
}

template <typename T>
void Run(const RoiAlign& align, const RoiBuffers& buffers, const Parallel& parallel) {
  const int64_t size = align.height * align.width;
  const int64_t bins = align.out_height * align.out_width;
  const int64_t samples = std::clamp<int64_t>(align.sampling, 1, 16);  // at the least, if it is 0
  constexpr int64_t kWorkOfSample = 8;                                 // in slow elements
  const int64_t grain = GrainOf(kGrainSlowElements, kWorkOfSample * bins * samples * samples);
  parallel.For(align.regions * align.channels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t region = plane / align.channels;
      const T* corners = static_cast<const T*>(buffers.regions) + region * 4;
      const auto corner = [corners](int i) { return AsDouble(corners[i]); };
      const Side sides[2] = {SideOf(align, corner(1), corner(3), align.out_height),
                             SideOf(align, corner(0), corner(2), align.out_width)};
      const T* image = static_cast<const T*>(buffers.x) +
                       (buffers.items[region] * align.channels + plane % align.channels) * size;
      T* to = static_cast<T*>(buffers.out) + plane * bins;
      for (int64_t bin = 0; bin < bins; ++bin) {
        const int64_t at[2] = {bin / align.out_width, bin % align.out_width};
        to[bin] = FromDouble<T>(PoolBin(align, sides, at, image));
      }
    }
  });
}

}  // namespace

void RunRoiAlign(const RoiAlign& align, const RoiBuffers& buffers, const Parallel& parallel) {
  using Function = void (*)(const RoiAlign&, const RoiBuffers&, const Parallel&);
  const auto run = ForNumber(buffers.dtype, []<typename T>(T) -> Function { return Run<T>; });
  CHECK(run != nullptr, "no regions of {}", DTypeName(buffers.dtype));
  run(align, buffers, parallel);
}

}  // namespace tandem::kernels
