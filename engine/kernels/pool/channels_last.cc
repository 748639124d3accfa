// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/pool/channels_last.cc"
#include "hwy/foreach_target.h"  // before every other Highway header
#include <algorithm>
#include <limits>

#include "engine/kernels/pool/pool.h"
#include "engine/kernels/simd.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// The taps of one output position; pointers are those of channel 0.
struct Position {
  PoolTaps taps[3];
  const float* first;  // the tap (begin, begin, begin)
  int64_t step[3];     // elements between neighbouring taps
  float divisor;
};

template <PoolKind kKind>
HWY_INLINE V Combine(int64_t p, V sum, V x) {
  if constexpr (kKind == PoolKind::kMax) {
    return hn::IfThenElse(hn::Or(hn::Gt(x, sum), hn::IsNaN(x)), x, sum);
  } else if constexpr (kKind == PoolKind::kLp) {
    return hn::Add(sum, p == 1 ? hn::Abs(x) : hn::Mul(x, x));
  } else {
    return hn::Add(sum, x);
  }
}

template <PoolKind kKind, typename Load>
HWY_INLINE V Reduce(const Pool& pool, const Position& at, const Load& load) {
  const D d;
  V total = hn::Set(d, kKind == PoolKind::kMax ? -std::numeric_limits<float>::infinity() : 0.0f);
  const float* plane = at.first;
  for (int64_t z = at.taps[0].begin; z < at.taps[0].end; ++z, plane += at.step[0]) {
    const float* line = plane;
    for (int64_t y = at.taps[1].begin; y < at.taps[1].end; ++y, line += at.step[1]) {
      V row = kKind == PoolKind::kMax ? total : hn::Zero(d);
      const float* tap = line;
      for (int64_t x = at.taps[2].begin; x < at.taps[2].end; ++x, tap += at.step[2]) {
        row = Combine<kKind>(pool.p, row, load(tap));
      }
      total = kKind == PoolKind::kMax ? row : hn::Add(total, row);
    }
  }
  if constexpr (kKind == PoolKind::kLp) return pool.p == 1 ? total : hn::Sqrt(total);
  if constexpr (kKind == PoolKind::kAverage) {
    return at.divisor == 0 ? hn::Zero(d) : hn::Div(total, hn::Set(d, at.divisor));
  }
  return total;
}

template <PoolKind kKind>
void ReduceChannels(const Pool& pool, const Position& at, int64_t channels, float* out) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes <= channels; c += lanes) {
    const V result =
        Reduce<kKind>(pool, at, [d, c](const float* tap) { return hn::LoadU(d, tap + c); });
    hn::StoreU(result, d, out + c);
  }
  if (c == channels) return;
  const auto rest = hn::FirstN(d, static_cast<size_t>(channels - c));
  const V result = Reduce<kKind>(
      pool, at, [d, c, rest](const float* tap) { return hn::MaskedLoad(rest, d, tap + c); });
  hn::BlendedStore(result, rest, d, out + c);
}

// Output row `row` (of depth and height) of one item, channels [c, c + channels).
void PoolRow(const Pool& pool, int64_t row, int64_t channels, const float* in, float* out) {
  const int64_t index[2] = {row / pool.axes[1].out, row % pool.axes[1].out};
  Position at;
  at.step[2] = pool.axes[2].dilation * pool.channels;
  at.step[1] = pool.axes[1].dilation * pool.axes[2].in * pool.channels;
  at.step[0] = pool.axes[0].dilation * pool.axes[1].in * pool.axes[2].in * pool.channels;
  const int64_t inputs[3] = {pool.axes[1].in * pool.axes[2].in, pool.axes[2].in, 1};
  for (int64_t x = 0; x < pool.axes[2].out; ++x) {
    int64_t count = 1;
    int64_t place = 0;
    for (int k = 0; k < 3; ++k) {
      const WindowAxis& axis = pool.axes[k];
      const int64_t o = k == 2 ? x : index[k];
      const PoolTaps taps = TapsOf(axis, o);
      at.taps[k] = taps;
      place += (o * axis.stride - axis.pad_begin + taps.begin * axis.dilation) * inputs[k];
      count *= pool.divisor == PoolDivisor::kPadded ? taps.padded
                                                    : std::max<int64_t>(0, taps.end - taps.begin);
    }
    at.first = in + place * pool.channels;
    at.divisor = static_cast<float>(count);
    float* result = out + (row * pool.axes[2].out + x) * pool.channels;
    switch (pool.kind) {
      case PoolKind::kMax:
        ReduceChannels<PoolKind::kMax>(pool, at, channels, result);
        break;
      case PoolKind::kAverage:
        ReduceChannels<PoolKind::kAverage>(pool, at, channels, result);
        break;
      case PoolKind::kLp:
        ReduceChannels<PoolKind::kLp>(pool, at, channels, result);
        break;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels {

HWY_EXPORT(PoolRow);

void PoolChannelsLast(Isa isa, const Pool& pool, const float* in, float* out,
                      const Parallel& parallel) {
  constexpr int64_t kBlock = 256;  // channels of one unit of work
  const int64_t blocks = (pool.channels + kBlock - 1) / kBlock;
  const int64_t rows = pool.axes[0].out * pool.axes[1].out;
  const int64_t window = pool.axes[0].kernel * pool.axes[1].kernel * pool.axes[2].kernel;
  const int64_t work = pool.axes[2].out * window * std::min(kBlock, pool.channels);
  // A tap is loaded, too.
  const int64_t grain = GrainOf(kGrainMultiplyAdds, 2 * work);
  const auto kernel = TANDEM_DISPATCH(isa, PoolRow);
  parallel.For(pool.items * rows * blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t channel = unit % blocks * kBlock;
      const int64_t row = unit / blocks % rows;
      const int64_t item = unit / blocks / rows;
      kernel(pool, row, std::min(kBlock, pool.channels - channel),
             in + item * pool.channels * pool.in_spatial() + channel,
             out + item * pool.channels * pool.out_spatial() + channel);
    }
  });
}

}  // namespace tandem::kernels
#endif  // HWY_ONCE
