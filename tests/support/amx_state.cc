#include "tests/support/amx_state.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace tandem::test {
namespace {

template <typename T>
T Read(const std::byte* row, int i) {
  T value;
  std::memcpy(&value, row + i * static_cast<int>(sizeof(T)), sizeof(T));
  return value;
}
template <typename T>
void Write(T value, std::byte* row, int i) {
  std::memcpy(row + i * static_cast<int>(sizeof(T)), &value, sizeof(T));
}

float Widened(uint16_t bfloat16) { return std::bit_cast<float>(uint32_t{bfloat16} << 16); }

// A row of sums: those of the first and of the second elements of pairs apart, then both together.
// Rounding and zeros for denormals are what MXCSR asks for. Not inline, so that nothing of it is
// moved to where MXCSR asks for something else.
[[gnu::noinline, gnu::target("fma")]] void AddPairs(const std::byte* left, int pairs,
                                                    const std::byte (*right)[64], int columns,
                                                    std::byte* sums) {
  float first[16] = {};
  float second[16] = {};
  for (int k = 0; k < pairs; ++k) {
    const float left_first = Widened(Read<uint16_t>(left, 2 * k));
    const float left_second = Widened(Read<uint16_t>(left, 2 * k + 1));
    for (int n = 0; n < columns; ++n) {
      const float right_first = Widened(Read<uint16_t>(right[k], 2 * n));
      const float right_second = Widened(Read<uint16_t>(right[k], 2 * n + 1));
      first[n] = __builtin_fmaf(left_first, right_first, first[n]);
      second[n] = __builtin_fmaf(left_second, right_second, second[n]);
    }
  }
  for (int n = 0; n < columns; ++n) {
    Write(Read<float>(sums, n) + (first[n] + second[n]), sums, n);
  }
}

}  // namespace

bool AmxState::Execute(const AmxInstruction& instruction) {
  if (instruction.operation == AmxOperation::kLoadConfig) return LoadConfig(instruction.memory);
  if (instruction.operation == AmxOperation::kRelease) {
    Release();
    return true;
  }
  Tile& tile = tiles_[instruction.tile];
  if (!tile.configured()) return false;
  const Tile& left = tiles_[instruction.left];
  const Tile& right = tiles_[instruction.right];
  switch (instruction.operation) {
    case AmxOperation::kZero:
      tile.Clear();
      return true;
    case AmxOperation::kLoad:
      Load(tile, instruction);
      return true;
    case AmxOperation::kStore:
      Store(tile, instruction);
      return true;
    default:
      break;
  }
  if (!AreFactors(instruction)) return false;
  switch (instruction.operation) {
    case AmxOperation::kDotSignedSigned:
      AddBytes<int8_t, int8_t>(tile, left, right);
      return true;
    case AmxOperation::kDotSignedUnsigned:
      AddBytes<int8_t, uint8_t>(tile, left, right);
      return true;
    case AmxOperation::kDotUnsignedSigned:
      AddBytes<uint8_t, int8_t>(tile, left, right);
      return true;
    case AmxOperation::kDotUnsignedUnsigned:
      AddBytes<uint8_t, uint8_t>(tile, left, right);
      return true;
    case AmxOperation::kDotBfloat16:
      AddBfloat16(tile, left, right);
      return true;
    default:
      return false;
  }
}

void AmxState::Tile::Clear() { std::fill_n(bytes[0], sizeof(bytes), std::byte{0}); }

void AmxState::Release() { std::fill_n(tiles_, kTiles, Tile()); }

bool AmxState::LoadConfig(const std::byte* memory) {
  // Palette, start row, 14 bytes reserved; 16 bit for each of 16 tiles; 8 bit for each of them.
  constexpr int kRowBytesAt = 16;
  constexpr int kRowsAt = 48;
  const auto palette = std::to_integer<int>(memory[0]);
  if (palette == 0) {
    Release();
    return true;
  }
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  if (palette != 1 || !std::all_of(memory + 1, memory + kRowBytesAt, is_zero)) return false;
  int rows[16];
  int row_bytes[16];
  for (int i = 0; i < 16; ++i) {
    rows[i] = std::to_integer<int>(memory[kRowsAt + i]);
    row_bytes[i] = Read<uint16_t>(memory + kRowBytesAt, i);
    if (rows[i] > (i < kTiles ? kMaxRows : 0) || row_bytes[i] > (i < kTiles ? kMaxRowBytes : 0)) {
      return false;
    }
    if ((rows[i] == 0) != (row_bytes[i] == 0)) return false;
  }
  for (int i = 0; i < kTiles; ++i) {
    tiles_[i] = Tile();
    tiles_[i].rows = rows[i];
    tiles_[i].row_bytes = row_bytes[i];
  }
  return true;
}

void AmxState::Load(Tile& tile, const AmxInstruction& from) {
  for (int r = 0; r < tile.rows; ++r) {
    std::memcpy(tile.bytes[r], from.memory + r * from.stride, static_cast<size_t>(tile.row_bytes));
  }
}

void AmxState::Store(const Tile& tile, const AmxInstruction& to) {
  for (int r = 0; r < tile.rows; ++r) {
    std::memcpy(to.memory + r * to.stride, tile.bytes[r], static_cast<size_t>(tile.row_bytes));
  }
}

bool AmxState::AreFactors(const AmxInstruction& dot) const {
  const Tile& sums = tiles_[dot.tile];
  const Tile& left = tiles_[dot.left];
  const Tile& right = tiles_[dot.right];
  if (dot.tile == dot.left || dot.tile == dot.right || dot.left == dot.right) return false;
  if (!left.configured() || !right.configured()) return false;
  if (sums.row_bytes % 4 != 0 || left.row_bytes % 4 != 0) return false;
  return sums.rows == left.rows && left.words() == right.rows && sums.row_bytes == right.row_bytes;
}

template <typename Left, typename Right>
void AmxState::AddBytes(Tile& sums, const Tile& left, const Tile& right) {
  for (int m = 0; m < sums.rows; ++m) {
    uint32_t row[kMaxRowBytes / 4];
    std::memcpy(row, sums.bytes[m], kMaxRowBytes);
    for (int k = 0; k < left.words(); ++k) {
      for (int n = 0; n < sums.words(); ++n) {
        int32_t dot = 0;
        for (int i = 0; i < 4; ++i) {
          dot += int32_t{Read<Left>(left.bytes[m], 4 * k + i)} *
                 int32_t{Read<Right>(right.bytes[k], 4 * n + i)};
        }
        row[n] += static_cast<uint32_t>(dot);
      }
    }
    std::memcpy(sums.bytes[m], row, kMaxRowBytes);
  }
}

void AmxState::AddBfloat16(Tile& sums, const Tile& left, const Tile& right) {
  // No exceptions, rounding to even, and zeros for denormals that are read or come out.
  constexpr unsigned kMasked = 0x1F80;
  const unsigned before = _mm_getcsr();
  _mm_setcsr(kMasked | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
  for (int m = 0; m < sums.rows; ++m) {
    AddPairs(left.bytes[m], left.words(), right.bytes, sums.words(), sums.bytes[m]);
  }
  _mm_setcsr(before);
}

}  // namespace tandem::test
