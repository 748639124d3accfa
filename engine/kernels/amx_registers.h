// The tile registers of Intel AMX as kernels use them for a product of up to 32 rows and 32
// columns: 0 to 3 hold its sums, of two tiles of 16 rows by two of 16 columns, 4 and 5 the rows, 6
// and 7 the columns, 16 words deep or less; a word is 32 bits and holds neighbours in k. Numbers of
// registers must be literals. Compilers do not see what the instructions read and write, so fences
// stand around them. Source: Intel Architecture Instruction Set Extensions, chapter AMX.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#define TANDEM_AMX_TILE __attribute__((target("amx-tile")))

namespace tandem::kernels::amx {

inline constexpr int64_t kSide = 16;  // rows, columns and words of a register

// Extents of the registers, as the processor reads them.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  // For 1 to 32 rows and 1 to 16 words. With 16 rows or fewer the lower registers are not used.
  TileConfig(int row_count, int64_t words) {
    const auto upper = static_cast<uint8_t>(std::min<int64_t>(row_count, kSide));
    const auto lower = static_cast<uint8_t>(std::max<int64_t>(1, row_count - kSide));
    const auto depth = static_cast<uint8_t>(words);
    const uint8_t extents[] = {upper, upper, lower, lower, upper, lower, depth, depth};
    for (int i = 0; i < 8; ++i) {
      const bool holds_rows = i == 4 || i == 5;
      row_bytes[i] = static_cast<uint16_t>(4 * (holds_rows ? words : kSide));
      rows[i] = extents[i];
    }
  }
};

// Registers hold zeros from here to Release().
TANDEM_AMX_TILE inline void Configure(const TileConfig& config) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  _tile_loadconfig(&config);
}
TANDEM_AMX_TILE inline void Release() { _tile_release(); }

// The sums of both tiles of rows, or of the upper one only; `c` is the first of those in memory,
// whose rows lie `bytes` apart.
struct BothSums {
  static TANDEM_AMX_TILE void Clear() {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  static TANDEM_AMX_TILE void LoadSums(const void* c, int64_t bytes) {
    const auto* upper = static_cast<const std::byte*>(c);
    const std::byte* lower = upper + kSide * bytes;
    _tile_loadd(0, upper, bytes);
    _tile_loadd(1, upper + 64, bytes);
    _tile_loadd(2, lower, bytes);
    _tile_loadd(3, lower + 64, bytes);
  }
  static TANDEM_AMX_TILE void StoreSums(void* c, int64_t bytes) {
    auto* upper = static_cast<std::byte*>(c);
    std::byte* lower = upper + kSide * bytes;
    _tile_stored(0, upper, bytes);
    _tile_stored(1, upper + 64, bytes);
    _tile_stored(2, lower, bytes);
    _tile_stored(3, lower + 64, bytes);
  }
};
struct UpperSums {
  static TANDEM_AMX_TILE void Clear() {
    _tile_zero(0);
    _tile_zero(1);
  }
  static TANDEM_AMX_TILE void LoadSums(const void* c, int64_t bytes) {
    const auto* upper = static_cast<const std::byte*>(c);
    _tile_loadd(0, upper, bytes);
    _tile_loadd(1, upper + 64, bytes);
  }
  static TANDEM_AMX_TILE void StoreSums(void* c, int64_t bytes) {
    auto* upper = static_cast<std::byte*>(c);
    _tile_stored(0, upper, bytes);
    _tile_stored(1, upper + 64, bytes);
  }
};

}  // namespace tandem::kernels::amx
