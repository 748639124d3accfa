// The formats of packed 8-bit weights, and which of them a convolution takes.
#pragma once

#include "engine/kernels/quant/integer.h"
#include "engine/kernels/quant/integer_tile.h"

namespace tandem::kernels {

enum class IntegerMethod : uint8_t {
  kTiles,      // indirect product: panels for integer_tile.h, then sums of columns
  kDepthwise,  // one channel a group: integer_depthwise.h
  kPlain,      // windows too large for pointers on the stack: as the reference has them
};
IntegerMethod IntegerMethodOf(Isa isa, const ConvGeometry& geometry);

inline ByteSigns SignsOf(DType x) {
  return x == DType::kUint8 ? ByteSigns::kUnsignedA : ByteSigns::kSignedA;
}

// How the elements of one sum lie in memory for kTiles: `taps` runs of `depth` neighbours. With few
// channels the taps of a pixel are copied side by side to make one run.
struct IntegerRuns {
  int64_t taps = 1;
  int64_t depth = 0;
  enum class Place : uint8_t { kInX, kCopied } place = Place::kInX;

  bool copied() const { return place == Place::kCopied; }
};
IntegerRuns IntegerRunsOf(const ConvGeometry& geometry);

// Most pointers and copied bytes of one tile, on the stack.
inline constexpr int64_t kIntegerPointers = 2048;
inline constexpr int64_t kCopiedBytes = 16384;

// Packed weights of kTiles: for each group its panels; then one int32 for each filter, rounded up
// to kBufferAlignment bytes and followed by slack: the sum of the filter as it is packed.
struct IntegerPackLayout {
  int64_t panel_columns = 0;
  int64_t panel_bytes = 0;
  int64_t panels = 0;  // of one group
  size_t sums_offset = 0;
  size_t bytes = 0;

  IntegerPackLayout(Isa isa, const ConvGeometry& geometry);
};

// What is added to the elements and zero points of weights so that their sign is the other than
// that of x.
int32_t PackedShift(DType x, DType w);

}  // namespace tandem::kernels
