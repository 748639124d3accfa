// The tile registers of Intel AMX and what its instructions do to them. Source: the operation
// sections of Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/support/amx_instruction.h"

namespace tandem::test {

// Of one thread, as it starts: not configured.
class AmxState {
 public:
  // False, and nothing happens, where a processor would raise an exception: instructions on tiles
  // that are not configured or whose extents do not match, and invalid configurations. Start rows
  // other than 0, where a processor goes on after an interrupt, count as such.
  bool Execute(const AmxInstruction& instruction);

 private:
  static constexpr int kTiles = 8;
  static constexpr int kMaxRows = 16;
  static constexpr int kMaxRowBytes = 64;

  // Rows and bytes beyond the extents are 0. Without extents it is not configured.
  struct Tile {
    int rows = 0;
    int row_bytes = 0;
    alignas(64) std::byte bytes[kMaxRows][kMaxRowBytes] = {};

    bool configured() const { return rows != 0; }
    int words() const { return row_bytes / 4; }
    void Clear();
  };

  bool LoadConfig(const std::byte* memory);
  void Release();
  static void Load(Tile& tile, const AmxInstruction& from);
  static void Store(const Tile& tile, const AmxInstruction& to);
  // Whether `left` times `right` has the form of `sums`.
  bool AreFactors(const AmxInstruction& dot) const;
  // Left and Right are int8_t or uint8_t; sums are int32.
  template <typename Left, typename Right>
  static void AddBytes(Tile& sums, const Tile& left, const Tile& right);
  static void AddBfloat16(Tile& sums, const Tile& left, const Tile& right);

  Tile tiles_[kTiles];
};

}  // namespace tandem::test
