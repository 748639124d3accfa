#include <algorithm>
#include <atomic>
#include <cmath>

#include "engine/kernels/amx_registers.h"
#include "engine/kernels/gemm/amx.h"
#include "engine/kernels/gemm/amx_parts.h"

namespace tandem::kernels {
namespace amx {
namespace {

constexpr int64_t kPieceSteps = 10;   // of A, which stay in a first-level cache
constexpr int64_t kExactFloats = 64;  // of a row and of columns, at a time, that are put together
constexpr int64_t kFinishedColumns = 128;  // at a time

TANDEM_AMX inline void LoadRows(const std::byte* a) {
  _tile_loadd(4, a, 64);
  _tile_loadd(5, a + kTileBytes, 64);
}
TANDEM_AMX inline void LoadUpperRows(const std::byte* a) { _tile_loadd(4, a, 64); }
TANDEM_AMX inline void LoadColumns(const std::byte* b) {
  _tile_loadd(6, b, 64);
  _tile_loadd(7, b + kTileBytes, 64);
}

// Both tiles of rows, or the upper one only.
struct BothRows : BothSums {
  static TANDEM_AMX void Load(const std::byte* a) { LoadRows(a); }
  static TANDEM_AMX void Multiply() {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
};
struct UpperRows : UpperSums {
  static TANDEM_AMX void Load(const std::byte* a) { LoadUpperRows(a); }
  static TANDEM_AMX void Multiply() {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
  }
};

// The products of one step: the least first, each part loaded as seldom as four registers allow.
template <int kParts, class Rows>
TANDEM_AMX inline void MultiplyStep(const std::byte* a, const std::byte* b) {
  LoadColumns(b);
  for (int part = kParts - 1; part >= 0; --part) {
    Rows::Load(a + part * kPartBytes);
    Rows::Multiply();
  }
  if constexpr (kParts > 1) {
    LoadColumns(b + kPartBytes);
    Rows::Multiply();
  }
  if constexpr (kParts > 2) {
    Rows::Load(a + kPartBytes);
    Rows::Multiply();
    Rows::Load(a);
    LoadColumns(b + 2 * kPartBytes);
    Rows::Multiply();
  }
}

// A piece of the sums of two tiles of columns.
struct Block {
  const std::byte* a;
  const std::byte* b;
  int64_t steps;
  float* c;
  int64_t c_row_stride;
  TileStart start;
};

template <int kParts, class Rows>
TANDEM_AMX void Multiply(const Block& block) {
  const auto bytes = static_cast<int64_t>(block.c_row_stride * sizeof(float));
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (block.start == TileStart::kZero) {
    Rows::Clear();
  } else {
    Rows::LoadSums(block.c, bytes);
  }
  for (int64_t step = 0; step < block.steps; ++step) {
    MultiplyStep<kParts, Rows>(block.a + step * StepBytes(kParts),
                               block.b + step * StepBytes(kParts));
  }
  Rows::StoreSums(block.c, bytes);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

template <int kParts>
void Multiply(const Block& block, int rows) {
  if (rows > kSide) return Multiply<kParts, BothRows>(block);
  Multiply<kParts, UpperRows>(block);
}

// The same with sums that are fewer than a block's columns, or of which `exact` rows stay as they
// are.
template <int kParts>
void MultiplyBeside(Block block, const Tile& tile, int64_t columns, uint32_t exact) {
  alignas(64) float sums[kRows * kColumns];
  float* c = block.c;
  block.c = sums;
  block.c_row_stride = kColumns;
  std::fill_n(sums, tile.row_count * kColumns, 0.0f);
  for (int r = 0; r < tile.row_count && block.start == TileStart::kResume; ++r) {
    if ((exact >> r & 1) != 0) continue;
    std::copy_n(c + r * tile.c_row_stride, columns, sums + r * kColumns);
  }
  Multiply<kParts>(block, tile.row_count);
  for (int r = 0; r < tile.row_count; ++r) {
    if ((exact >> r & 1) != 0) continue;
    std::copy_n(sums + r * kColumns, columns, c + r * tile.c_row_stride);
  }
}

// Rows [row, row + count) and columns [column, column + columns) of a tile.
struct Part {
  int row = 0;
  int count = 0;
  int64_t column = 0;
  int64_t columns = 0;
};
Tile PartOf(const Tile& tile, const Part& part) {
  Tile result = tile;
  result.rows += part.row;
  result.row_count = part.count;
  result.columns = part.columns;
  result.c += part.row * tile.c_row_stride + part.column;
  result.row += part.row * tile.row_step_of_operands;
  result.column += part.column;
  return result;
}

// Calls visit(first, count) for runs of set bits, `most` long.
template <typename Visit>
void ForRunsOf(uint32_t rows, int most, const Visit& visit) {
  for (int first = 0; first < kRows;) {
    int count = 0;
    while (first + count < kRows && count < most && (rows >> (first + count) & 1) != 0) ++count;
    if (count > 0) visit(first, count);
    first += std::max(1, count);
  }
}

uint32_t AllRows(const Tile& tile) {
  return static_cast<uint32_t>((uint64_t{1} << tile.row_count) - 1);
}

// One tile, on panels that are alike.
template <int kParts>
class Run {
 public:
  Run(const Tile& tile, const TileKernel& plain) : tile_(tile), plain_(plain) {}

  // By the plain kernel, on panels in its format.
  void Plain() const {
    ForRunsOf(AllRows(tile_), plain_.max_rows, [&](int row, int count) {
      for (int64_t column = 0; column < tile_.columns; column += kColumns) {
        Tile part = PartOf(tile_, {row, count, column, Columns(column)});
        part.b = Panel(column) + kHeadFloats;
        plain_.run(part);
      }
    });
  }

  // In pieces, which are about equal. `exact` rows are multiplied in float32.
  void InParts(uint32_t exact) const {
    alignas(64) std::byte steps[kPieceSteps * StepBytes(kParts)];
    const int64_t total = tile_.taps * tile_.depth;
    const int64_t all_steps = Piece{0, total}.Steps(tile_);
    const int64_t pieces = std::max<int64_t>(1, (all_steps + kPieceSteps - 1) / kPieceSteps);
    const int64_t most = (all_steps + pieces - 1) / pieces * kStep;
    Piece piece;
    TileStart start = tile_.start;
    do {
      piece.count = std::min(most - piece.Lead(tile_), total - piece.first);
      const RowsFound found = CutRows<kParts>(tile_, piece, steps);
      const uint32_t small = start == TileStart::kResume ? SmallSums(found.zero) : 0;
      MultiplyPiece(piece, start, exact | found.outside | small, steps);
      start = TileStart::kResume;
      piece.first += piece.count;
    } while (piece.first < total);
    if (tile_.end == TileEnd::kFinal && tile_.epilogue != nullptr) Finish();
  }

 private:
  int64_t Columns(int64_t column) const { return std::min(kColumns, tile_.columns - column); }
  const float* Panel(int64_t column) const {
    return tile_.b + column / kColumns * tile_.panel_floats;
  }
  const std::byte* Parts(int64_t column, const Piece& piece) const {
    return PartsOf(Panel(column)) + (tile_.k + piece.first) / kStep * StepBytes(kParts);
  }

  // Those of the rows whose sums the registers would take for zeros.
  uint32_t SmallSums(uint32_t rows) const {
    uint32_t small = 0;
    for (int r = 0; r < tile_.row_count; ++r) {
      if ((rows >> r & 1) == 0) continue;
      const float* c = tile_.c + r * tile_.c_row_stride;
      const bool some = std::any_of(c, c + tile_.columns,
                                    [](float sum) { return std::fpclassify(sum) == FP_SUBNORMAL; });
      if (some) small |= 1u << r;
    }
    return small;
  }

  void MultiplyPiece(const Piece& piece, TileStart start, uint32_t exact,
                     const std::byte* steps) const {
    for (int64_t column = 0; column < tile_.columns && exact != AllRows(tile_);
         column += kColumns) {
      const Block block{
          steps, Parts(column, piece), piece.Steps(tile_), tile_.c + column, tile_.c_row_stride,
          start};
      if (exact == 0 && Columns(column) == kColumns) {
        Multiply<kParts>(block, tile_.row_count);
      } else {
        MultiplyBeside<kParts>(block, tile_, Columns(column), exact);
      }
    }
    if (exact == 0) return;
    for (Piece some = piece; some.first < piece.first + piece.count; some.first += some.count) {
      some.count =
          std::min(kExactFloats - some.Lead(tile_), piece.first + piece.count - some.first);
      MultiplyExactly(some, start, exact);
      start = TileStart::kResume;
    }
  }

  // By the plain kernel, on columns that are put together from their parts.
  void MultiplyExactly(const Piece& piece, TileStart start, uint32_t exact) const {
    alignas(64) float a[kRows * kExactFloats];
    alignas(64) float b[kExactFloats * kColumns];
    const float* rows[kRows];
    for (int r = 0; r < tile_.row_count; ++r) {
      rows[r] = a + r * kExactFloats;
      if ((exact >> r & 1) != 0) CopyRow(tile_, piece, r, a + r * kExactFloats);
    }
    Tile some = tile_;
    some.rows = rows;
    some.taps = 1;
    some.depth = piece.count;
    some.k = piece.Lead(tile_);
    some.prologue = nullptr;
    some.start = start;
    some.end = TileEnd::kPartial;
    some.b = b;
    for (int64_t column = 0; column < tile_.columns; column += kColumns) {
      PutTogether(Parts(column, piece), kParts, piece.Steps(tile_), b);
      ForRunsOf(exact, plain_.max_rows, [&](int row, int count) {
        plain_.run(PartOf(some, {row, count, column, Columns(column)}));
      });
    }
  }

  // The epilogue of sums in C: a product of no depth that goes on from there.
  void Finish() const {
    Tile sums = tile_;
    sums.taps = 1;
    sums.depth = 0;
    sums.k = 0;
    sums.panel_floats = 0;
    sums.start = TileStart::kResume;
    for (int64_t column = 0; column < tile_.columns; column += kFinishedColumns) {
      const int64_t columns = std::min(kFinishedColumns, tile_.columns - column);
      for (int row = 0; row < tile_.row_count; row += plain_.max_rows) {
        const int count = std::min(plain_.max_rows, tile_.row_count - row);
        plain_.run(PartOf(sums, {row, count, column, columns}));
      }
    }
  }

  const Tile& tile_;
  const TileKernel& plain_;
};

template <int kParts>
void RunTile(const Tile& tile) {
  const TileKernel plain = PlainTileKernel(Isa::kAvx512);
  const auto kind = [&](int64_t column) {
    return KindOf(tile.b + column / kColumns * tile.panel_floats);
  };
  Configure(TileConfig(tile.row_count, kSide));
  for (int64_t first = 0; first < tile.columns;) {
    int64_t last = std::min(first + kColumns, tile.columns);
    while (last < tile.columns && kind(last) == kind(first)) {
      last = std::min(last + kColumns, tile.columns);
    }
    Tile alike = PartOf(tile, {0, tile.row_count, first, last - first});
    alike.b += first / kColumns * tile.panel_floats;
    const Run<kParts> run(alike, plain);
    if (kind(first) == PanelKind::kPlain) {
      run.Plain();
    } else {
      run.InParts(kind(first) == PanelKind::kParts ? 0 : AllRows(tile));
    }
    first = last;
  }
  Release();
}

template <int kParts>
TileKernel MakeKernel(std::string_view name) {
  TileKernel kernel;
  kernel.name = name;
  kernel.max_rows = kRows;
  kernel.panel_columns = kColumns;
  kernel.head_floats = kHeadFloats;
  kernel.step = kStep;
  kernel.step_floats = StepBytes(kParts) / static_cast<int64_t>(sizeof(float));
  kernel.pack = &PackPanel<kParts>;
  kernel.depth = kPieceSteps * kStep;
  kernel.group_floats = int64_t{1} << 18;  // half of an L2 cache of 2 MiB
  kernel.run = &RunTile<kParts>;
  kernel.cut = &CutRun<kParts>;
  kernel.cut_head_floats = kCutHeadFloats;
  kernel.cut_step_floats = kParts * kLineBytes / static_cast<int64_t>(sizeof(float));
  return kernel;
}

}  // namespace
}  // namespace amx

bool IsWorthAmx(int64_t k, int64_t n) { return k >= 32 && n >= 16; }

TileKernel AmxTileKernel(Precision precision) {
  switch (precision) {
    case Precision::kF32Strict:
      return amx::MakeKernel<3>("bf16x6");
    case Precision::kBf16:
      return amx::MakeKernel<1>("bf16x1");
    default:
      return amx::MakeKernel<2>("bf16x3");
  }
}

TileKernel TileKernelFor(Arithmetic arithmetic, int64_t k, int64_t n) {
  if (arithmetic.weights == Weights::kBytes) return ByteTileKernel(arithmetic.isa);
  const bool sums = arithmetic.precision != Precision::kF32Plain;
  if (arithmetic.isa < Isa::kAmx || !sums || !IsWorthAmx(k, n)) {
    return PlainTileKernel(arithmetic.isa);
  }
  return AmxTileKernel(arithmetic.precision);
}

}  // namespace tandem::kernels
