#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "engine/base/check.h"
#include "engine/kernels/compute_type.h"
#include "engine/kernels/pool/pool.h"

namespace tandem::kernels {
namespace {

// One output element: its taps on the three axes and the channel's first element.
struct Window {
  PoolTaps taps[3];
  int64_t start[3];

  int64_t Place(const Pool& pool, const int64_t (&tap)[3]) const {
    int64_t place = 0;
    for (int k = 0; k < 3; ++k) {
      place = place * pool.axes[k].in + start[k] + tap[k] * pool.axes[k].dilation;
    }
    return place;
  }
};

Window WindowAt(const Pool& pool, int64_t position) {
  Window window;
  for (int k = 2; k >= 0; --k) {
    const WindowAxis& axis = pool.axes[k];
    const int64_t o = position % axis.out;
    position /= axis.out;
    window.taps[k] = TapsOf(axis, o);
    window.start[k] = o * axis.stride - axis.pad_begin;
  }
  return window;
}

// Calls tap(place) for every tap inside the input, and row() after each row of them.
template <typename Tap, typename Row>
void ForEachTap(const Pool& pool, const Window& window, const Tap& tap, const Row& row) {
  int64_t at[3];
  for (at[0] = window.taps[0].begin; at[0] < window.taps[0].end; ++at[0]) {
    for (at[1] = window.taps[1].begin; at[1] < window.taps[1].end; ++at[1]) {
      for (at[2] = window.taps[2].begin; at[2] < window.taps[2].end; ++at[2]) {
        tap(window.Place(pool, at));
      }
      row();
    }
  }
}

template <typename T>
ComputeType<T> Lowest() {
  using A = ComputeType<T>;
  if constexpr (std::numeric_limits<A>::has_infinity) return -std::numeric_limits<A>::infinity();
  return std::numeric_limits<A>::lowest();
}

template <typename T>
struct Maximum {
  ComputeType<T> value = Lowest<T>();
  int64_t place = 0;
};

template <typename T>
Maximum<T> MaximumOf(const Pool& pool, const Window& window, const T* in) {
  Maximum<T> best;
  bool first = true;
  ForEachTap(
      pool, window,
      [&](int64_t place) {
        const ComputeType<T> x = ToCompute(in[place * pool.in.spatial]);
        const bool better = x > best.value || x != x;
        if (better) best.value = x;
        if (better || first) best.place = place;
        first = false;
      },
      [] {});
  return best;
}

template <typename A>
A PowerOf(A x, int64_t p) {
  const A magnitude = std::abs(x);
  if (p == 1) return magnitude;
  if (p == 2) return x * x;
  return std::pow(magnitude, static_cast<A>(p));
}

template <typename T>
ComputeType<T> SumOf(const Pool& pool, const Window& window, const T* in) {
  using A = ComputeType<T>;
  A sum = 0;
  A row_sum = 0;
  ForEachTap(
      pool, window,
      [&](int64_t place) {
        const A x = ToCompute(in[place * pool.in.spatial]);
        row_sum += pool.kind == PoolKind::kLp ? PowerOf(x, pool.p) : x;
      },
      [&] {
        sum += row_sum;
        row_sum = 0;
      });
  if (pool.kind == PoolKind::kLp) {
    if (pool.p == 1) return sum;
    if (pool.p == 2) return std::sqrt(sum);
    return std::pow(sum, A{1} / static_cast<A>(pool.p));
  }
  int64_t count = 1;
  for (const PoolTaps& taps : window.taps) {
    count *= pool.divisor == PoolDivisor::kPadded ? taps.padded
                                                  : std::max<int64_t>(0, taps.end - taps.begin);
  }
  return count == 0 ? A{0} : sum / static_cast<A>(count);
}

int64_t IndexOf(const Pool& pool, IndexOrder order, int64_t place) {
  if (order == IndexOrder::kRowMajor) return place;
  const int64_t width = pool.axes[2].in;
  const int64_t height = pool.axes[1].in;
  const int64_t w = place % width;
  const int64_t h = place / width % height;
  const int64_t d = place / width / height;
  // The first of the spatial axes that the input has runs fastest.
  return d + pool.axes[0].in * (h + height * w);
}

template <typename T>
void PoolChannel(const Pool& pool, const PoolBuffers& buffers, int64_t item, int64_t channel) {
  const int64_t in_item = pool.channels * pool.in_spatial();
  const int64_t out_item = pool.channels * pool.out_spatial();
  const T* in = static_cast<const T*>(buffers.in) + item * in_item + channel * pool.in.channel;
  T* out = static_cast<T*>(buffers.out) + item * out_item + channel * pool.out.channel;
  const int64_t plane = item * pool.channels + channel;
  for (int64_t o = 0; o < pool.out_spatial(); ++o) {
    const Window window = WindowAt(pool, o);
    T& result = out[o * pool.out.spatial];
    if (pool.kind != PoolKind::kMax) {
      if constexpr (std::is_integral_v<T>) {
        CHECK(false, "only maxima of integers");
      } else {
        result = FromCompute<T>(SumOf(pool, window, in));
      }
      continue;
    }
    const Maximum<T> best = MaximumOf(pool, window, in);
    result = FromCompute<T>(best.value);
    if (buffers.order != IndexOrder::kNone) {
      buffers.indices[plane * pool.out_spatial() + o] =
          plane * pool.in_spatial() + IndexOf(pool, buffers.order, best.place);
    }
  }
}

template <typename T>
void PoolTyped(const Pool& pool, const PoolBuffers& buffers, const Parallel& parallel) {
  const int64_t window = pool.axes[0].kernel * pool.axes[1].kernel * pool.axes[2].kernel;
  const int64_t grain = GrainOf(kGrainSlowElements, pool.out_spatial() * window);
  parallel.For(pool.items * pool.channels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      PoolChannel<T>(pool, buffers, plane / pool.channels, plane % pool.channels);
    }
  });
}

}  // namespace

void PoolReference(const Pool& pool, const PoolBuffers& buffers, const Parallel& parallel) {
  switch (buffers.dtype) {
    case DType::kFloat:
      return PoolTyped<float>(pool, buffers, parallel);
    case DType::kDouble:
      return PoolTyped<double>(pool, buffers, parallel);
    case DType::kFloat16:
      return PoolTyped<Float16>(pool, buffers, parallel);
    case DType::kBfloat16:
      return PoolTyped<Bfloat16>(pool, buffers, parallel);
    case DType::kInt8:
      return PoolTyped<int8_t>(pool, buffers, parallel);
    case DType::kUint8:
      return PoolTyped<uint8_t>(pool, buffers, parallel);
    default:
      CHECK(false, "no pooling of {}", DTypeName(buffers.dtype));
  }
}

}  // namespace tandem::kernels
