// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/quant/integer_depthwise.cc"
#include <algorithm>
#include <cstring>
#include "hwy/foreach_target.h"  // before every other Highway header
#include "engine/kernels/quant/integer_depthwise.h"
#include "engine/kernels/quant/integer_depthwise_run.h"
#include "engine/kernels/quant/integer_depthwise_vnni.h"
#include "engine/kernels/quant/integer_window.h"
#include "engine/kernels/quant/requantize-inl.h"
#include "engine/kernels/simd.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2

namespace hn = hwy::HWY_NAMESPACE;

using D16 = hn::ScalableTag<int16_t>;
using D32 = hn::ScalableTag<int32_t>;
using DF = hn::ScalableTag<float>;
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;
constexpr int64_t kChannels = HWY_LANES(int16_t);  // of one vector
constexpr int64_t kLanes = HWY_LANES(int32_t);

// The channel of a vector that lane `lane` of its lower (half 0) or upper sums belongs to.
constexpr int64_t ChannelOfLane(int64_t half, int64_t lane) {
  return lane / 4 * 8 + half * 4 + lane % 4;
}

template <typename T>
HWY_INLINE V16 LoadWide(const std::byte* from) {
  const hn::Rebind<T, D16> bytes;
  return hn::PromoteTo(D16(), hn::LoadU(bytes, reinterpret_cast<const T*>(from)));
}

// Two taps of a vector's channels side by side.
struct Pair {
  V16 lower;
  V16 upper;
};
HWY_INLINE Pair PairOf(V16 first, V16 second) {
  return {hn::InterleaveLower(D16(), first, second), hn::InterleaveUpper(D16(), first, second)};
}

struct PairSums {
  V32 lower;
  V32 upper;

  HWY_INLINE void Add(const Pair& a, const Pair& b) {
    V32 unused = hn::Zero(D32());  // the sum of pairs is whole on x86
    lower = hn::ReorderWidenMulAccumulate(D32(), a.lower, b.lower, lower, unused);
    upper = hn::ReorderWidenMulAccumulate(D32(), a.upper, b.upper, upper, unused);
  }
};

// The weights of a vector without their zero points, in pairs, and what is added to its sums.
template <typename W>
void PrepareVector(const DepthwiseRun& run, int64_t first) {
  const DepthwisePlan& plan = run.plan;
  const int64_t taps = run.geometry.taps();
  const int64_t used = HWY_MIN(kChannels, run.geometry.out_channels - first);
  HWY_ALIGN int16_t zero_points[kChannels] = {};
  for (int64_t c = 0; c < used; ++c) {
    zero_points[c] = static_cast<int16_t>(ZeroPointOf(run.data.w, first + c));
  }
  const V16 zeros = hn::Load(D16(), zero_points);
  const Pair ones = {hn::Set(D16(), 1), hn::Set(D16(), 1)};
  PairSums sums = {hn::Zero(D32()), hn::Zero(D32())};
  int16_t* to = plan.weights + first * plan.pairs * 2;
  for (int64_t tap = 0; tap < taps; tap += 2, to += 2 * kChannels) {
    const std::byte* from = run.packed + tap * plan.channels + first;
    const V16 one = hn::Sub(LoadWide<W>(from), zeros);
    const V16 other =
        tap + 1 < taps ? hn::Sub(LoadWide<W>(from + plan.channels), zeros) : hn::Zero(D16());
    const Pair pair = PairOf(one, other);
    hn::Store(pair.lower, D16(), to);
    hn::Store(pair.upper, D16(), to + kChannels);
    sums.Add(pair, ones);
  }
  HWY_ALIGN int32_t weight_sums[kChannels];
  hn::Store(sums.lower, D32(), weight_sums);
  hn::Store(sums.upper, D32(), weight_sums + kLanes);
  const auto zero = static_cast<uint32_t>(ZeroPointOf(run.data.x, 0));
  const IntegerResult& result = run.data.result;
  for (int64_t place = 0; place < kChannels; ++place) {
    const int64_t c = ChannelOfLane(place / kLanes, place % kLanes);
    const bool real = c < used;
    const bool biased = real && result.bias != nullptr;
    const auto bias = static_cast<uint32_t>(biased ? result.bias[first + c] : 0);
    plan.base[first + place] =
        static_cast<int32_t>(bias - zero * static_cast<uint32_t>(weight_sums[place]));
    const bool scaled = real && result.multipliers != nullptr;
    plan.multipliers[first + place] = scaled ? result.multipliers[first + c] : 0.0f;
  }
}

void Prepare(const DepthwiseRun& run) {
  std::memset(run.plan.padding, ZeroPointOf(run.data.x, 0), static_cast<size_t>(run.plan.channels));
  for (int64_t first = 0; first < run.geometry.out_channels; first += kChannels) {
    if (run.data.w.dtype == DType::kInt8) {
      PrepareVector<int8_t>(run, first);
    } else {
      PrepareVector<uint8_t>(run, first);
    }
  }
}

template <typename X>
HWY_INLINE PairSums SumVector(const DepthwisePlan& plan, const std::byte* const* taps,
                              int64_t offset, int64_t first) {
  PairSums sums = {hn::Load(D32(), plan.base + first), hn::Load(D32(), plan.base + first + kLanes)};
  const int16_t* weights = plan.weights + first * plan.pairs * 2;
  for (int64_t pair = 0; pair < plan.pairs; ++pair, weights += 2 * kChannels) {
    const Pair x =
        PairOf(LoadWide<X>(taps[2 * pair] + offset), LoadWide<X>(taps[2 * pair + 1] + offset));
    sums.Add(x, {hn::Load(D16(), weights), hn::Load(D16(), weights + kChannels)});
  }
  return sums;
}

// The first `count` channels of a vector, in their order.
template <typename Y>
HWY_INLINE void StoreVector(const DepthwiseRun& run, const PairSums& sums, int64_t first,
                            int64_t count, std::byte* y) {
  if constexpr (std::is_same_v<Y, int32_t>) {
    HWY_ALIGN int32_t all[kChannels];
    hn::Store(sums.lower, D32(), all);
    hn::Store(sums.upper, D32(), all + kLanes);
    for (int64_t place = 0; place < kChannels; ++place) {
      const int64_t c = ChannelOfLane(place / kLanes, place % kLanes);
      if (c < count) reinterpret_cast<int32_t*>(y)[c] = all[place];
    }
  } else {
    const IntegerResult& result = run.data.result;
    const Rounding round(result.zero_point, result.low, result.high);
    const float* multipliers = run.plan.multipliers + first;
    const V32 lower = round(hn::Mul(hn::ConvertTo(DF(), sums.lower), hn::Load(DF(), multipliers)));
    const V32 upper =
        round(hn::Mul(hn::ConvertTo(DF(), sums.upper), hn::Load(DF(), multipliers + kLanes)));
    const hn::Rebind<Y, D16> bytes;
    // Packing by blocks brings the halves back to the order of the channels.
    const auto packed = hn::DemoteTo(bytes, hn::ReorderDemote2To(D16(), lower, upper));
    if (count == kChannels) {
      hn::StoreU(packed, bytes, reinterpret_cast<Y*>(y));
    } else {
      HWY_ALIGN Y all[kChannels];
      hn::Store(packed, bytes, all);
      std::memcpy(y, all, static_cast<size_t>(count));
    }
  }
}

// All channels of the output pixels [begin, end).
template <typename X, typename Y>
void RunPixels(const DepthwiseRun& run, int64_t begin, int64_t end) {
  const ConvGeometry& geometry = run.geometry;
  const int64_t channels = geometry.out_channels;
  const int64_t whole = channels / kChannels * kChannels;
  const TapSource source = {static_cast<const std::byte*>(run.data.x.data), run.plan.padding};
  const std::byte* taps[kMostTaps + 1];
  taps[geometry.taps()] = run.plan.padding;  // the second of the last pair, whose weight is 0
  auto* y = static_cast<std::byte*>(run.data.result.y) +
            begin * channels * static_cast<int64_t>(sizeof(Y));
  OutputPixel pixel(geometry, begin);
  for (int64_t at = begin; at < end; ++at) {
    PointAtTaps(geometry, pixel, source, 1, taps);
    pixel.Next(geometry.axes);
    for (int64_t first = 0; first < whole; first += kChannels) {
      StoreVector<Y>(run, SumVector<X>(run.plan, taps, first, first), first, kChannels,
                     y + first * static_cast<int64_t>(sizeof(Y)));
    }
    if (whole < channels) {
      // Copies of the last channels, as nothing may be read behind them.
      HWY_ALIGN std::byte copies[(kMostTaps + 1) * kChannels];
      const std::byte* last[kMostTaps + 1];
      for (int64_t tap = 0; tap < 2 * run.plan.pairs; ++tap) {
        std::byte* copy = copies + tap * kChannels;
        std::memcpy(copy, taps[tap] + whole, static_cast<size_t>(channels - whole));
        last[tap] = copy;
      }
      StoreVector<Y>(run, SumVector<X>(run.plan, last, 0, whole), whole, channels - whole,
                     y + whole * static_cast<int64_t>(sizeof(Y)));
    }
    y += channels * static_cast<int64_t>(sizeof(Y));
  }
}

template <typename X>
void RunPixelsOf(const DepthwiseRun& run, int64_t begin, int64_t end) {
  switch (run.data.result.dtype) {
    case DType::kInt8:
      return RunPixels<X, int8_t>(run, begin, end);
    case DType::kUint8:
      return RunPixels<X, uint8_t>(run, begin, end);
    default:
      return RunPixels<X, int32_t>(run, begin, end);
  }
}

DepthwiseKernel FindDepthwise(DType x) {
  return {&Prepare, x == DType::kInt8 ? &RunPixelsOf<int8_t> : &RunPixelsOf<uint8_t>};
}

#else

DepthwiseKernel FindDepthwise(DType) { return {}; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels {

HWY_EXPORT(FindDepthwise);

bool HasIntegerDepthwise(Isa isa, const ConvGeometry& geometry) {
  if (geometry.in_per_group() != 1 || geometry.out_per_group() != 1) return false;
  return geometry.group > 1 && geometry.taps() <= kMostTaps &&
         TANDEM_DISPATCH(isa, FindDepthwise)(DType::kUint8).run != nullptr;
}

namespace {

// Of the rows of channels; what HasDotDepthwise packs follows.
size_t RowBytes(const ConvGeometry& geometry) {
  return AlignUp(static_cast<size_t>(FilledChannels(geometry) * geometry.taps()));
}

}  // namespace

size_t PackedIntegerDepthwiseBytes(Isa isa, const ConvGeometry& geometry) {
  return RowBytes(geometry) +
         (HasDotDepthwise(isa, geometry) ? PackedDotDepthwiseBytes(geometry) : 0);
}

void PackIntegerDepthwise(Isa isa, const ConvGeometry& geometry, const IntegerWeights& weights,
                          std::byte* packed) {
  if (HasDotDepthwise(isa, geometry)) {
    PackDotDepthwise(geometry, weights, packed + RowBytes(geometry));
  }
  const int64_t filled = FilledChannels(geometry);
  const auto* from = static_cast<const std::byte*>(weights.data);
  std::fill_n(packed, filled * geometry.taps(), std::byte{0});
  for (int64_t tap = 0; tap < geometry.taps(); ++tap, packed += filled) {
    for (int64_t m = 0; m < geometry.out_channels; ++m) {
      packed[m] = from[m * weights.out + tap * weights.tap];
    }
  }
}

size_t IntegerDepthwiseScratchBytes(Isa isa, const ConvGeometry& geometry) {
  const size_t dot = HasDotDepthwise(isa, geometry) ? DotDepthwiseScratchBytes(geometry) : 0;
  return std::max(dot, DepthwisePlan(geometry, nullptr).bytes);
}

void IntegerDepthwise(Isa isa, const ConvGeometry& geometry, const IntegerConvMemory& memory,
                      const IntegerConvData& data, const Parallel& parallel) {
  if (HasDotDepthwise(isa, geometry) && CanRunDotDepthwise(geometry, data)) {
    const IntegerConvMemory dot = {memory.packed + RowBytes(geometry), memory.scratch};
    return DotDepthwise(geometry, dot, data, parallel);
  }
  const DepthwiseKernel kernel = TANDEM_DISPATCH(isa, FindDepthwise)(data.x.dtype);
  const DepthwiseRun run{geometry, data, memory.packed, DepthwisePlan(geometry, memory.scratch)};
  kernel.prepare(run);
  const int64_t work = geometry.out_channels * geometry.taps();
  parallel.For(geometry.batch * geometry.out_pixels(), GrainOf(kGrainMultiplyAdds, work),
               [&](int64_t begin, int64_t end) { kernel.run(run, begin, end); });
}

}  // namespace tandem::kernels
#endif  // HWY_ONCE
