// The inner kernel of every product of 8-bit integers: a few rows of A, given as pointers, times
// panels of packed B, in int32. One of a product's two elements is unsigned and one signed,
// whatever the types of A and B are: B is packed so (integer_pack.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/cpu.h"

namespace tandem::kernels {

// Elements of one k-group: neighbours along k that lie side by side in a column of packed B.
inline constexpr int64_t kDotBytes = 4;

enum class ByteSigns : uint8_t { kUnsignedA, kSignedA };  // B has the other sign

struct IntegerTile {
  // Run `tap` of row r starts at rows[tap * row_step + r] and is `depth` bytes long; none is read
  // beyond that.
  const std::byte* const* rows = nullptr;
  int64_t row_step = 0;
  int row_count = 0;  // 1 to IntegerTileKernel::max_rows
  int64_t taps = 1;
  int64_t depth = 0;
  // Packed panels, of which the first starts at `b`; `panel_bytes` from one to the next. A panel
  // holds for each tap and each k-group of its depth (the last one filled up with zeros) kDotBytes
  // of each of its columns.
  const std::byte* b = nullptr;
  int64_t panel_bytes = 0;
  int64_t panels = 0;
  int32_t* sums = nullptr;  // row_count rows of whole panels
  int64_t sums_stride = 0;
};

struct IntegerTileKernel {
  int max_rows = 0;
  int panel_columns = 0;
  void (*run)(const IntegerTile& tile) = nullptr;
  // The sum of the elements of a run of A.
  int32_t (*sum)(const std::byte* run, int64_t depth) = nullptr;
};

// The kernel for `isa`, which is not kReference.
IntegerTileKernel IntegerTileKernelFor(Isa isa, ByteSigns signs);
// The tile of the kernels for AVX-512 VNNI.
IntegerTileKernel VnniTileKernel(ByteSigns signs);
// The tile of the kernels for AMX; its `sum` is that of VNNI.
IntegerTileKernel AmxIntegerTileKernel(ByteSigns signs);

}  // namespace tandem::kernels
