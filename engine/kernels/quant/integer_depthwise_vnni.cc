#include "engine/kernels/quant/integer_depthwise_vnni.h"

#include <algorithm>
#include <cmath>

#include "engine/base/arena.h"
#include "engine/kernels/ceil_div.h"
#include "engine/kernels/quant/vnni.h"
#include "engine/kernels/simd.h"

namespace tandem::kernels {
namespace {

constexpr int64_t kBlock = 64;      // channels that are computed at once
constexpr int kQuarters = 4;        // vectors of sums of a block
constexpr int64_t kMostGroups = 2;  // of four rows of taps
constexpr int64_t kMostColumns = 64;

// The channel of a block that lane `lane` of quarter `q` holds.
constexpr int64_t ChannelOf(int64_t q, int64_t lane) { return lane / 4 * 16 + q * 4 + lane % 4; }

// Rows of taps, outer axes together, and their taps.
struct Window {
  int64_t rows;
  int64_t groups;
  int64_t taps;  // of a row
  int64_t blocks;

  explicit Window(const ConvGeometry& geometry)
      : rows(geometry.axes[0].kernel * geometry.axes[1].kernel),
        groups(CeilDiv(rows, 4)),
        taps(geometry.axes[2].kernel),
        blocks(CeilDiv(geometry.out_channels, kBlock)) {}

  // Packed weights: for each block its taps, of each tap its groups, of each the quarters; then the
  // sum of each filter.
  int64_t block_bytes() const { return taps * groups * kQuarters * kBlock; }
  int64_t sums_offset() const { return blocks * block_bytes(); }
};

// The scratch memory, in the order of the lanes; then a row of padding. Without memory, its size.
struct Prepared {
  int32_t* base = nullptr;
  float* multipliers = nullptr;
  std::byte* padding = nullptr;
  size_t bytes;

  Prepared(const Window& window, std::byte* scratch)
      : bytes(static_cast<size_t>(window.blocks * kBlock) * (2 * sizeof(int32_t)) + kBlock) {
    if (scratch == nullptr) return;
    base = reinterpret_cast<int32_t*>(scratch);
    multipliers = reinterpret_cast<float*>(base + window.blocks * kBlock);
    padding = reinterpret_cast<std::byte*>(multipliers + window.blocks * kBlock);
  }
};

struct Run {
  const ConvGeometry& geometry;
  const IntegerConvData& data;
  const std::byte* packed;
  Window window;
  Prepared prepared;

  Run(const ConvGeometry& g, const IntegerConvMemory& memory, const IntegerConvData& d)
      : geometry(g), data(d), packed(memory.packed), window(g), prepared(window, memory.scratch) {
    const auto* sums = reinterpret_cast<const int32_t*>(packed + window.sums_offset());
    const auto zero = static_cast<uint32_t>(ZeroPointOf(data.x, 0));
    std::fill_n(prepared.padding, kBlock, static_cast<std::byte>(zero));
    for (int64_t place = 0; place < window.blocks * kBlock; ++place) {
      const int64_t in_block = place % kBlock;
      const int64_t m = place - in_block + ChannelOf(in_block / 16, in_block % 16);
      const bool real = m < geometry.out_channels;
      const bool biased = real && data.result.bias != nullptr;
      const auto bias = static_cast<uint32_t>(biased ? data.result.bias[m] : 0);
      const auto sum = static_cast<uint32_t>(real ? sums[m] : 0);
      prepared.base[place] = static_cast<int32_t>(bias - zero * sum);
      prepared.multipliers[place] = real ? data.result.multipliers[m] : 0.0f;
    }
  }
};

// Lanes of four rows of taps, for one column of the input.
struct Lanes {
  __m512i quarters[kQuarters];
};

// What one output row reads of a block.
struct Rows {
  const std::byte* at[4 * kMostGroups];  // column 0; null: padding

  Rows(const Run& run, int64_t row, int64_t block) {
    const ConvGeometry& geometry = run.geometry;
    const WindowAxis& outer = geometry.axes[0];
    const WindowAxis& middle = geometry.axes[1];
    const int64_t o1 = row % middle.out;
    const int64_t o0 = row / middle.out % outer.out;
    const int64_t item = row / middle.out / outer.out;
    const std::byte** to = at;
    for (int64_t t0 = 0; t0 < outer.kernel; ++t0) {
      const int64_t at0 = o0 * outer.stride - outer.pad_begin + t0 * outer.dilation;
      for (int64_t t1 = 0; t1 < middle.kernel; ++t1) {
        const int64_t at1 = o1 * middle.stride - middle.pad_begin + t1 * middle.dilation;
        const bool inside = at0 >= 0 && at0 < outer.in && at1 >= 0 && at1 < middle.in;
        const int64_t line = (item * outer.in + at0) * middle.in + at1;
        *to++ = inside ? static_cast<const std::byte*>(run.data.x.data) +
                             line * geometry.axes[2].in * geometry.in_channels + block * kBlock
                       : nullptr;
      }
    }
    std::fill(to, std::end(at), nullptr);
  }
};

TANDEM_VNNI inline void Interleave(const __m512i* rows, Lanes& lanes) {
  const __m512i first_lower = _mm512_unpacklo_epi8(rows[0], rows[1]);
  const __m512i first_upper = _mm512_unpackhi_epi8(rows[0], rows[1]);
  const __m512i second_lower = _mm512_unpacklo_epi8(rows[2], rows[3]);
  const __m512i second_upper = _mm512_unpackhi_epi8(rows[2], rows[3]);
  lanes.quarters[0] = _mm512_unpacklo_epi16(first_lower, second_lower);
  lanes.quarters[1] = _mm512_unpackhi_epi16(first_lower, second_lower);
  lanes.quarters[2] = _mm512_unpacklo_epi16(first_upper, second_upper);
  lanes.quarters[3] = _mm512_unpackhi_epi16(first_upper, second_upper);
}

// Input columns from `first` on, `count` of them.
TANDEM_VNNI void InterleaveColumns(const Run& run, const Rows& rows, int64_t first, int64_t count,
                                   __mmask64 mask, Lanes* lanes) {
  const int64_t in = run.geometry.axes[2].in;
  const __m512i padding = _mm512_loadu_si512(run.prepared.padding);
  for (int64_t column = first; column < first + count; ++column) {
    const bool inside = column >= 0 && column < in;
    for (int64_t group = 0; group < run.window.groups; ++group, ++lanes) {
      __m512i bytes[4];
      TANDEM_UNROLL
      for (int r = 0; r < 4; ++r) {
        const std::byte* row = rows.at[group * 4 + r];
        const bool read = inside && row != nullptr;
        bytes[r] =
            read ? _mm512_maskz_loadu_epi8(mask, row + column * run.geometry.in_channels) : padding;
      }
      Interleave(bytes, *lanes);
    }
  }
}

// A block of one output pixel, whose window begins at `lanes`.
template <DType kY>
TANDEM_VNNI inline __m512i Pixel(const Run& run, int64_t block, const Lanes* lanes,
                                 const BytePacking& packing) {
  const int64_t groups = run.window.groups;
  const int64_t step = run.geometry.axes[2].dilation * groups;
  const std::byte* weights = run.packed + block * run.window.block_bytes();
  __m512i sums[kQuarters];
  TANDEM_UNROLL
  for (int q = 0; q < kQuarters; ++q) {
    sums[q] = _mm512_loadu_si512(run.prepared.base + block * kBlock + int64_t{q} * 16);
  }
  for (int64_t tap = 0; tap < run.window.taps; ++tap, lanes += step) {
    for (int64_t group = 0; group < groups; ++group, weights += kQuarters * kBlock) {
      TANDEM_UNROLL
      for (int q = 0; q < kQuarters; ++q) {
        sums[q] = _mm512_dpbusd_epi32(sums[q], lanes[group].quarters[q],
                                      _mm512_loadu_si512(weights + q * kBlock));
      }
    }
  }
  TANDEM_UNROLL
  for (int q = 0; q < kQuarters; ++q) {
    const float* multipliers = run.prepared.multipliers + block * kBlock + int64_t{q} * 16;
    sums[q] = BytePacking::Rounded(sums[q], _mm512_loadu_ps(multipliers));
  }
  return packing.Pack<kY>(sums);
}

// One output row, a block of its channels.
template <DType kY>
TANDEM_VNNI void RunRow(const Run& run, int64_t row, int64_t block) {
  const ConvGeometry& geometry = run.geometry;
  const WindowAxis& axis = geometry.axes[2];
  const IntegerResult& result = run.data.result;
  const BytePacking packing(result.zero_point, result.low, result.high);
  const __mmask64 mask = FirstBytes(geometry.out_channels - block * kBlock);
  const Rows rows(run, row, block);
  const int64_t width = (axis.kernel - 1) * axis.dilation + 1;
  const int64_t most = (kMostColumns - width) / axis.stride + 1;
  auto* y =
      static_cast<std::byte*>(result.y) + row * axis.out * geometry.out_channels + block * kBlock;
  Lanes lanes[kMostColumns * kMostGroups];
  for (int64_t first = 0; first < axis.out; first += most) {
    const int64_t count = std::min(most, axis.out - first);
    const int64_t columns = (count - 1) * axis.stride + width;
    InterleaveColumns(run, rows, first * axis.stride - axis.pad_begin, columns, mask, lanes);
    for (int64_t o = 0; o < count; ++o, y += geometry.out_channels) {
      const Lanes* window = lanes + o * axis.stride * run.window.groups;
      _mm512_mask_storeu_epi8(y, mask, Pixel<kY>(run, block, window, packing));
    }
  }
}

template <DType kY>
void RunRows(const Run& run, const Parallel& parallel) {
  const ConvGeometry& geometry = run.geometry;
  const int64_t rows = geometry.batch * geometry.axes[0].out * geometry.axes[1].out;
  const int64_t work = kBlock * geometry.axes[2].out * geometry.taps();
  parallel.For(rows * run.window.blocks, GrainOf(kGrainMultiplyAdds, work),
               [&](int64_t begin, int64_t end) {
                 for (int64_t unit = begin; unit < end; ++unit) {
                   RunRow<kY>(run, unit / run.window.blocks, unit % run.window.blocks);
                 }
               });
}

}  // namespace

bool HasDotDepthwise(Isa isa, const ConvGeometry& geometry) {
  const Window window(geometry);
  return isa >= Isa::kVnni && window.groups <= kMostGroups && window.taps <= kMostColumns;
}

size_t PackedDotDepthwiseBytes(const ConvGeometry& geometry) {
  const Window window(geometry);
  return AlignUp(static_cast<size_t>(window.sums_offset() + geometry.out_channels * 4));
}

void PackDotDepthwise(const ConvGeometry& geometry, const IntegerWeights& weights,
                      std::byte* packed) {
  const Window window(geometry);
  auto* sums = reinterpret_cast<int32_t*>(packed + window.sums_offset());
  std::fill_n(packed, PackedDotDepthwiseBytes(geometry), std::byte{0});
  for (int64_t m = 0; m < geometry.out_channels; ++m) {
    const int64_t c = m % kBlock;  // channel 16 i + 4 q + e: byte 4 (4 i + e) of quarter q
    const int64_t place =
        m / kBlock * window.block_bytes() + c / 4 % 4 * kBlock + (c / 16 * 4 + c % 4) * 4;
    const auto* filter = static_cast<const int8_t*>(weights.data) + m * weights.out;
    for (int64_t tap = 0; tap < geometry.taps(); ++tap) {
      const int64_t row = tap / window.taps;
      const int64_t group = tap % window.taps * window.groups + row / 4;
      const int8_t weight = filter[tap * weights.tap];
      packed[place + group * kQuarters * kBlock + row % 4] = static_cast<std::byte>(weight);
      sums[m] += weight;
    }
  }
}

bool CanRunDotDepthwise(const ConvGeometry& geometry, const IntegerConvData& data) {
  if (data.x.dtype != DType::kUint8 || data.w.dtype != DType::kInt8) return false;
  if (data.result.dtype == DType::kInt32) return false;
  const WindowAxis& axis = geometry.axes[2];
  if ((axis.kernel - 1) * axis.dilation + 1 > kMostColumns) return false;
  for (int64_t m = 0; m < geometry.out_channels; ++m) {
    if (ZeroPointOf(data.w, m) != 0 || !std::isfinite(data.result.multipliers[m])) return false;
  }
  return true;
}

size_t DotDepthwiseScratchBytes(const ConvGeometry& geometry) {
  return AlignUp(Prepared(Window(geometry), nullptr).bytes);
}

void DotDepthwise(const ConvGeometry& geometry, const IntegerConvMemory& memory,
                  const IntegerConvData& data, const Parallel& parallel) {
  const Run run(geometry, memory, data);
  if (data.result.dtype == DType::kUint8) {
    RunRows<DType::kUint8>(run, parallel);
  } else {
    RunRows<DType::kInt8>(run, parallel);
  }
}

}  // namespace tandem::kernels
