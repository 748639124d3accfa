// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/pool/max_bytes.cc"
#include "hwy/foreach_target.h"  // before every other Highway header
#include <cstring>
#include <limits>

#include "engine/kernels/pool/pool.h"
#include "engine/kernels/simd.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The taps of one output position inside the input: so many lines of so many taps each.
struct ByteWindow {
  const void* first;  // the first tap's channel 0
  int64_t planes, lines, taps;
  int64_t plane_step, line_step, tap_step;  // elements
};

// out[c] = max over the taps, channels [0, channels).
template <typename T>
void MaxOfWindow(const ByteWindow& window, int64_t channels, T* out) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kLanes = HWY_LANES(T);
  const T* first = static_cast<const T*>(window.first);
  const auto reduce = [&](int64_t c, int64_t count) HWY_ATTR {
    auto most = hn::Set(d, std::numeric_limits<T>::lowest());
    HWY_ALIGN T last[kLanes] = {};
    for (int64_t z = 0; z < window.planes; ++z) {
      for (int64_t y = 0; y < window.lines; ++y) {
        const T* tap = first + z * window.plane_step + y * window.line_step + c;
        for (int64_t x = 0; x < window.taps; ++x, tap += window.tap_step) {
          if (count == kLanes) {
            most = hn::Max(most, hn::LoadU(d, tap));
          } else {
            std::memcpy(last, tap, static_cast<size_t>(count));
            most = hn::Max(most, hn::Load(d, last));
          }
        }
      }
    }
    return most;
  };
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) hn::StoreU(reduce(c, kLanes), d, out + c);
  if (c == channels) return;
  HWY_ALIGN T last[kLanes];
  hn::Store(reduce(c, channels - c), d, last);
  std::memcpy(out + c, last, static_cast<size_t>(channels - c));
}

// Output row `row` (of depth and height) of one item.
template <typename T>
void MaxRow(const Pool& pool, int64_t row, const T* in, T* out) {
  const int64_t at[2] = {row / pool.axes[1].out, row % pool.axes[1].out};
  const int64_t pixels[3] = {pool.axes[1].in * pool.axes[2].in, pool.axes[2].in, 1};
  for (int64_t x = 0; x < pool.axes[2].out; ++x) {
    int64_t counts[3];
    int64_t steps[3];
    int64_t place = 0;
    for (int k = 0; k < 3; ++k) {
      const WindowAxis& axis = pool.axes[k];
      const int64_t o = k == 2 ? x : at[k];
      const PoolTaps taps = TapsOf(axis, o);
      counts[k] = taps.end - taps.begin;
      steps[k] = axis.dilation * pixels[k] * pool.channels;
      place += (o * axis.stride - axis.pad_begin + taps.begin * axis.dilation) * pixels[k];
    }
    MaxOfWindow(
        {in + place * pool.channels, counts[0], counts[1], counts[2], steps[0], steps[1], steps[2]},
        pool.channels, out + (row * pool.axes[2].out + x) * pool.channels);
  }
}

using MaxRowFunction = void (*)(const Pool& pool, int64_t row, const void* in, void* out);
template <typename T>
void MaxRowOf(const Pool& pool, int64_t row, const void* in, void* out) {
  MaxRow(pool, row, static_cast<const T*>(in), static_cast<T*>(out));
}
MaxRowFunction FindMaxRow(DType dtype) {
  return dtype == DType::kInt8 ? &MaxRowOf<int8_t> : &MaxRowOf<uint8_t>;
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels {

HWY_EXPORT(FindMaxRow);

void MaxPoolBytes(Isa isa, const Pool& pool, const PoolBuffers& buffers, const Parallel& parallel) {
  const auto row = TANDEM_DISPATCH(isa, FindMaxRow)(buffers.dtype);
  const int64_t rows = pool.axes[0].out * pool.axes[1].out;
  const int64_t work = pool.axes[0].kernel * pool.axes[1].kernel * pool.axes[2].kernel *
                       pool.axes[2].out * pool.channels;
  parallel.For(pool.items * rows, GrainOf(kGrainElements, work), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t item = unit / rows;
      row(pool, unit % rows,
          static_cast<const std::byte*>(buffers.in) + item * pool.in_spatial() * pool.channels,
          static_cast<std::byte*>(buffers.out) + item * pool.out_spatial() * pool.channels);
    }
  });
}

}  // namespace tandem::kernels
#endif  // HWY_ONCE
