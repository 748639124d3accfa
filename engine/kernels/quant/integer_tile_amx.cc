// The tile on Intel AMX, whose products of bytes are exact in int32 (tdpbusd, tdpbsud). The rows of
// A are copied side by side, 32 KiB of them at a time; panels of B are read in place. Of the vector
// instructions it wants none: tests run it with instructions of AMX alone emulated.
#include <algorithm>
#include <cstring>

#include "engine/kernels/amx_registers.h"
#include "engine/kernels/ceil_div.h"
#include "engine/kernels/quant/integer_tile.h"

#define TANDEM_AMX_INT8 __attribute__((target("amx-tile,amx-int8")))

namespace tandem::kernels {
namespace {

constexpr int64_t kStep = amx::kSide;                  // k-groups that one instruction multiplies
constexpr int64_t kPieceSteps = 16;                    // of A, which stay in a first-level cache
constexpr int64_t kColumns = 2 * amx::kSide;           // of one panel
constexpr int64_t kGroupBytes = kColumns * kDotBytes;  // of one panel
constexpr int64_t kStepBytes = kStep * kDotBytes;      // of a row of A
constexpr int64_t kRowBytes = kPieceSteps * kStepBytes;
constexpr int64_t kMaxRows = 2 * amx::kSide;

// The k-groups of all taps in a row, in steps. The last step ends where they end: those that it has
// in common with the step before are zeros of A there, and nothing behind a panel is read.
struct Steps {
  int64_t run;    // k-groups of one tap
  int64_t total;  // k-groups
  int64_t count;  // steps

  explicit Steps(const IntegerTile& tile)
      : run(CeilDiv(tile.depth, kDotBytes)), total(tile.taps * run), count(CeilDiv(total, kStep)) {}

  // The first k-group that is multiplied in `step`.
  int64_t First(int64_t step) const {
    return std::max<int64_t>(0, std::min(step * kStep, total - kStep));
  }
  // What a register is configured for; registers of no extent do not exist.
  int64_t Width() const { return std::clamp<int64_t>(total, 1, kStep); }
};

// K-groups [first, last) of a row of A.
void CopyGroups(const IntegerTile& tile, const Steps& steps, int row, int64_t first, int64_t last,
                std::byte* to) {
  int64_t tap = first / steps.run;
  int64_t begin = first % steps.run;
  while (first < last) {
    const int64_t count = std::min(steps.run - begin, last - first);
    const int64_t bytes = std::min(count * kDotBytes, tile.depth - begin * kDotBytes);
    std::memcpy(to, tile.rows[tap * tile.row_step + row] + begin * kDotBytes,
                static_cast<size_t>(bytes));
    std::fill(to + bytes, to + count * kDotBytes, std::byte{0});
    to += count * kDotBytes;
    first += count;
    begin = 0;
    ++tap;
  }
}

// Steps [first, last) of the rows of A, kRowBytes apart.
void CopyRows(const IntegerTile& tile, const Steps& steps, int64_t first, int64_t last,
              std::byte* to) {
  const int64_t whole = std::min(last, steps.total / kStep);
  const int64_t rest = steps.total % kStep;
  for (int r = 0; r < tile.row_count; ++r, to += kRowBytes) {
    if (first < whole) CopyGroups(tile, steps, r, first * kStep, whole * kStep, to);
    if (whole == last) continue;
    std::byte* groups = to + (whole - first) * kStepBytes;
    const int64_t again = whole * kStep - steps.First(whole);
    std::fill_n(groups, again * kDotBytes, std::byte{0});
    CopyGroups(tile, steps, r, steps.total - rest, steps.total, groups + again * kDotBytes);
  }
}

template <ByteSigns kSigns>
struct UpperRows : amx::UpperSums {
  static TANDEM_AMX_INT8 void Multiply(const std::byte* a, const std::byte* b) {
    _tile_loadd(6, b, kGroupBytes);
    _tile_loadd(7, b + kGroupBytes / 2, kGroupBytes);
    _tile_loadd(4, a, kRowBytes);
    if constexpr (kSigns == ByteSigns::kUnsignedA) {
      _tile_dpbusd(0, 4, 6);
      _tile_dpbusd(1, 4, 7);
    } else {
      _tile_dpbsud(0, 4, 6);
      _tile_dpbsud(1, 4, 7);
    }
  }
};
template <ByteSigns kSigns>
struct BothRows : amx::BothSums {
  static TANDEM_AMX_INT8 void Multiply(const std::byte* a, const std::byte* b) {
    UpperRows<kSigns>::Multiply(a, b);
    _tile_loadd(5, a + amx::kSide * kRowBytes, kRowBytes);
    if constexpr (kSigns == ByteSigns::kUnsignedA) {
      _tile_dpbusd(2, 5, 6);
      _tile_dpbusd(3, 5, 7);
    } else {
      _tile_dpbsud(2, 5, 6);
      _tile_dpbsud(3, 5, 7);
    }
  }
};

// Steps [first, last) of every panel, with the rows as CopyRows leaves them.
template <class Rows>
TANDEM_AMX_INT8 void MultiplyPanels(const IntegerTile& tile, const Steps& steps, int64_t first,
                                    int64_t last, const std::byte* rows) {
  const auto sums_bytes = static_cast<int64_t>(tile.sums_stride * sizeof(int32_t));
  std::atomic_signal_fence(std::memory_order_seq_cst);
  for (int64_t panel = 0; panel < tile.panels; ++panel) {
    int32_t* sums = tile.sums + panel * kColumns;
    const std::byte* b = tile.b + panel * tile.panel_bytes;
    if (first == 0) {
      Rows::Clear();
    } else {
      Rows::LoadSums(sums, sums_bytes);
    }
    for (int64_t step = first; step < last; ++step) {
      Rows::Multiply(rows + (step - first) * kStepBytes, b + steps.First(step) * kGroupBytes);
    }
    Rows::StoreSums(sums, sums_bytes);
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

template <ByteSigns kSigns>
void RunTile(const IntegerTile& tile) {
  alignas(64) std::byte rows[kMaxRows * kRowBytes];
  const Steps steps(tile);
  const auto multiply = tile.row_count > amx::kSide ? &MultiplyPanels<BothRows<kSigns>>
                                                    : &MultiplyPanels<UpperRows<kSigns>>;
  amx::Configure(amx::TileConfig(tile.row_count, steps.Width()));
  int64_t first = 0;
  do {
    const int64_t last = std::min(first + kPieceSteps, steps.count);
    CopyRows(tile, steps, first, last, rows);
    multiply(tile, steps, first, last, rows);
    first = last;
  } while (first < steps.count);
  amx::Release();
}

}  // namespace

IntegerTileKernel AmxIntegerTileKernel(ByteSigns signs) {
  const bool unsigned_a = signs == ByteSigns::kUnsignedA;
  return {kMaxRows, kColumns,
          unsigned_a ? &RunTile<ByteSigns::kUnsignedA> : &RunTile<ByteSigns::kSignedA>,
          VnniTileKernel(signs).sum};
}

}  // namespace tandem::kernels
