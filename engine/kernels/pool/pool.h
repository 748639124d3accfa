// Sliding-window reductions: maximum, average and Lp norm over one to three spatial axes (ONNX
// MaxPool, AveragePool, LpPool; the global ones are a window as large as the input).
//
// Every output element is reduced in the order of its window, row by row, so that all versions and
// any number of threads give the same bits. Taps in the padding are left out; a window without any
// other tap gives the lowest value for kMax and 0 else. NaN passes through kMax.
#pragma once

#include <cstdint>

#include "engine/base/cpu.h"
#include "engine/base/parallel.h"
#include "engine/kernels/window.h"
#include "engine/tensor/dtype.h"

namespace tandem::kernels {

enum class PoolKind : uint8_t { kMax, kAverage, kLp };

// What an average divides by.
enum class PoolDivisor : uint8_t {
  kTaps,    // taps inside the input
  kPadded,  // taps inside the input and its explicit padding (count_include_pad)
};

// Elements between neighbours; native: channel = all spatial, spatial = 1; channels-last: channel =
// 1, spatial = channels. An item has channels * (all spatial) elements in both.
struct PoolLayout {
  int64_t channel = 1;
  int64_t spatial = 1;
};

struct Pool {
  PoolKind kind = PoolKind::kMax;
  PoolDivisor divisor = PoolDivisor::kTaps;
  int64_t p = 2;  // of kLp, >= 1
  int64_t items = 1;
  int64_t channels = 1;
  WindowAxis axes[3];  // depth, height, width; of extent 1 where the input has fewer
  PoolLayout in;
  PoolLayout out;

  int64_t in_spatial() const { return axes[0].in * axes[1].in * axes[2].in; }
  int64_t out_spatial() const { return axes[0].out * axes[1].out * axes[2].out; }
};

// How MaxPool's Indices number the elements of one channel; always native with N and C outside.
enum class IndexOrder : uint8_t { kNone, kRowMajor, kColumnMajor };

// The reduction of `pool`, in plain loops, for any layout. float, double, float16, bfloat16 (the
// last two computed in float); kMax also int8 and uint8. With an index order other than kNone,
// `indices` takes the flat index of each maximum, the first of equal ones, in native layout.
struct PoolBuffers {
  DType dtype = DType::kFloat;
  const void* in = nullptr;
  void* out = nullptr;
  IndexOrder order = IndexOrder::kNone;
  int64_t* indices = nullptr;
};
void PoolReference(const Pool& pool, const PoolBuffers& buffers, const Parallel& parallel);

// float, both sides channels-last, without indices; bits equal PoolReference's. kLp has p = 1 or 2.
void PoolChannelsLast(Isa isa, const Pool& pool, const float* in, float* out,
                      const Parallel& parallel);

// kMax of int8 or uint8, both sides channels-last, without indices.
void MaxPoolBytes(Isa isa, const Pool& pool, const PoolBuffers& buffers, const Parallel& parallel);

// The taps [begin, end) of output `o` that lie inside the input, and those that count with padding.
struct PoolTaps {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t padded = 0;
};
inline PoolTaps TapsOf(const WindowAxis& axis, int64_t o) {
  const int64_t start = o * axis.stride - axis.pad_begin;
  const auto before = [&axis, start](int64_t limit) {  // taps whose place is below `limit`
    const int64_t room = limit - start;
    const int64_t taps = room <= 0 ? 0 : (room + axis.dilation - 1) / axis.dilation;
    return taps < axis.kernel ? taps : axis.kernel;
  };
  PoolTaps taps;
  taps.begin = before(0);
  taps.end = before(axis.in);
  taps.padded = before(axis.in + axis.pad_end);
  return taps;
}

}  // namespace tandem::kernels
