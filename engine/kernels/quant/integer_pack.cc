#include "engine/kernels/quant/integer_pack.h"

#include <algorithm>

#include "engine/base/arena.h"
#include "engine/kernels/ceil_div.h"
#include "engine/kernels/quant/integer_depthwise.h"
#include "engine/kernels/quant/integer_finish.h"

namespace tandem::kernels {
namespace {

// With fewer channels a tap is too short a run.
constexpr int64_t kShortRun = 16;

int32_t ElementAt(const IntegerWeights& weights, int64_t place) {
  return weights.dtype == DType::kInt8 ? static_cast<const int8_t*>(weights.data)[place]
                                       : static_cast<const uint8_t*>(weights.data)[place];
}

// One panel of columns from filter `first` on; the sums of its filters are added to `sums`.
void PackPanel(const ConvGeometry& geometry, const IntegerPackLayout& layout,
               const IntegerWeights& weights, int32_t shift, int64_t first, int64_t used,
               std::byte* packed, int32_t* sums) {
  const IntegerRuns runs = IntegerRunsOf(geometry);
  const int64_t channels = std::max<int64_t>(1, geometry.in_per_group());
  for (int64_t tap = 0; tap < runs.taps; ++tap) {
    for (int64_t k = 0; k < runs.depth; k += kDotBytes) {
      std::fill_n(packed, layout.panel_columns * kDotBytes, std::byte{0});
      const int64_t count = std::min(kDotBytes, runs.depth - k);
      int64_t places[kDotBytes] = {};
      for (int64_t i = 0; i < count; ++i) {
        const int64_t element = tap * runs.depth + k + i;
        places[i] = element % channels * weights.in + element / channels * weights.tap;
      }
      for (int64_t j = 0; j < used; ++j) {
        for (int64_t i = 0; i < count; ++i) {
          const int32_t value = ElementAt(weights, (first + j) * weights.out + places[i]) + shift;
          packed[j * kDotBytes + i] = static_cast<std::byte>(value);
          sums[j] += value;
        }
      }
      packed += layout.panel_columns * kDotBytes;
    }
  }
}

void PackTiles(Isa isa, DType x, const ConvGeometry& geometry, const IntegerWeights& weights,
               std::byte* packed) {
  const IntegerPackLayout layout(isa, geometry);
  const int32_t shift = PackedShift(x, weights.dtype);
  auto* sums = reinterpret_cast<int32_t*>(packed + layout.sums_offset);
  std::fill_n(packed + layout.sums_offset, layout.bytes - layout.sums_offset, std::byte{0});
  for (int64_t group = 0; group < geometry.group; ++group) {
    for (int64_t panel = 0; panel < layout.panels; ++panel, packed += layout.panel_bytes) {
      const int64_t column = panel * layout.panel_columns;
      const int64_t used = std::min(layout.panel_columns, geometry.out_per_group() - column);
      const int64_t first = group * geometry.out_per_group() + column;
      PackPanel(geometry, layout, weights, shift, first, used, packed, sums + first);
    }
  }
}

void PackPlain(const ConvGeometry& geometry, const IntegerWeights& weights, std::byte* packed) {
  const auto* from = static_cast<const std::byte*>(weights.data);
  for (int64_t m = 0; m < geometry.out_channels; ++m) {
    for (int64_t c = 0; c < geometry.in_per_group(); ++c) {
      for (int64_t tap = 0; tap < geometry.taps(); ++tap) {
        *packed++ = from[m * weights.out + c * weights.in + tap * weights.tap];
      }
    }
  }
}

}  // namespace

IntegerMethod IntegerMethodOf(Isa isa, const ConvGeometry& geometry) {
  if (isa == Isa::kReference) return IntegerMethod::kPlain;
  if (HasIntegerDepthwise(isa, geometry)) return IntegerMethod::kDepthwise;
  const IntegerRuns runs = IntegerRunsOf(geometry);
  const bool fits =
      geometry.taps() <= kIntegerPointers && (!runs.copied() || runs.depth <= kCopiedBytes);
  return fits ? IntegerMethod::kTiles : IntegerMethod::kPlain;
}

IntegerRuns IntegerRunsOf(const ConvGeometry& geometry) {
  const int64_t channels = geometry.in_per_group();
  const int64_t taps = geometry.taps();
  if (taps > 1 && channels < kShortRun) {
    return {1, taps * channels, IntegerRuns::Place::kCopied};
  }
  return {taps, channels};
}

IntegerPackLayout::IntegerPackLayout(Isa isa, const ConvGeometry& geometry) {
  const IntegerRuns runs = IntegerRunsOf(geometry);
  panel_columns = IntegerTileKernelFor(isa, ByteSigns::kUnsignedA).panel_columns;
  panel_bytes = runs.taps * CeilDiv(runs.depth, kDotBytes) * kDotBytes * panel_columns;
  panels = CeilDiv(geometry.out_per_group(), panel_columns);
  sums_offset = AlignUp(static_cast<size_t>(geometry.group * panels * panel_bytes));
  const int64_t sums = geometry.out_channels + kColumnSlack;
  bytes = sums_offset + AlignUp(static_cast<size_t>(sums) * sizeof(int32_t));
}

int32_t PackedShift(DType x, DType w) {
  if (x == DType::kUint8) return w == DType::kUint8 ? -128 : 0;
  return w == DType::kUint8 ? 0 : 128;
}

IntegerWeights NativeIntegerWeights(const ConvGeometry& geometry, DType dtype, const void* data) {
  const int64_t taps = geometry.taps();
  return {dtype, data, geometry.in_per_group() * taps, taps, 1};
}

IntegerWeights MatrixWeights(DType dtype, const void* data, int64_t n) {
  return {dtype, data, 1, n, 0};
}

const char* IntegerFormat(Isa isa, const ConvGeometry& geometry) {
  switch (IntegerMethodOf(isa, geometry)) {
    case IntegerMethod::kTiles:
      return IntegerRunsOf(geometry).copied() ? "conv.integer.copied" : "conv.integer";
    case IntegerMethod::kDepthwise:
      return "conv.integer.depthwise";
    case IntegerMethod::kPlain:
      return "conv.integer.plain";
  }
  return "";
}

size_t PackedIntegerBytes(Isa isa, const ConvGeometry& geometry) {
  switch (IntegerMethodOf(isa, geometry)) {
    case IntegerMethod::kTiles:
      return IntegerPackLayout(isa, geometry).bytes;
    case IntegerMethod::kDepthwise:
      return PackedIntegerDepthwiseBytes(isa, geometry);
    case IntegerMethod::kPlain:
      break;
  }
  return static_cast<size_t>(geometry.out_channels * geometry.in_per_group() * geometry.taps());
}

void PackIntegerWeights(Isa isa, DType x, const ConvGeometry& geometry,
                        const IntegerWeights& weights, std::byte* packed) {
  switch (IntegerMethodOf(isa, geometry)) {
    case IntegerMethod::kTiles:
      return PackTiles(isa, x, geometry, weights, packed);
    case IntegerMethod::kDepthwise:
      return PackIntegerDepthwise(isa, geometry, weights, packed);
    case IntegerMethod::kPlain:
      return PackPlain(geometry, weights, packed);
  }
}

}  // namespace tandem::kernels
