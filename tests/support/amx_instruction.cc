#include "tests/support/amx_instruction.h"

#include <bit>
#include <cstring>

namespace tandem::test {
namespace {

enum class Prefix : uint8_t { kNone, k66, kF3, kF2 };  // as VEX numbers them

// What follows the opcode.
enum class Form : uint8_t {
  kMemory,      // ModRM of an address, whose reg is 0
  kNothing,     // ModRM C0
  kTile,        // reg is a tile
  kTileMemory,  // reg is a tile, the address has a SIB, whose index is the stride
  kThreeTiles,  // reg, rm and vvvv are tiles
};

struct Row {
  uint8_t opcode;
  Prefix prefix;
  Form form;
  AmxOperation operation;
};
constexpr Row kRows[] = {
    {0x49, Prefix::kNone, Form::kMemory, AmxOperation::kLoadConfig},
    {0x49, Prefix::kNone, Form::kNothing, AmxOperation::kRelease},
    {0x49, Prefix::kF2, Form::kTile, AmxOperation::kZero},
    {0x4B, Prefix::kF2, Form::kTileMemory, AmxOperation::kLoad},
    {0x4B, Prefix::k66, Form::kTileMemory, AmxOperation::kLoad},
    {0x4B, Prefix::kF3, Form::kTileMemory, AmxOperation::kStore},
    {0x5E, Prefix::kF2, Form::kThreeTiles, AmxOperation::kDotSignedSigned},
    {0x5E, Prefix::kF3, Form::kThreeTiles, AmxOperation::kDotSignedUnsigned},
    {0x5E, Prefix::k66, Form::kThreeTiles, AmxOperation::kDotUnsignedSigned},
    {0x5E, Prefix::kNone, Form::kThreeTiles, AmxOperation::kDotUnsignedUnsigned},
    {0x5C, Prefix::kF3, Form::kThreeTiles, AmxOperation::kDotBfloat16},
};

// The bytes up to ModRM. R, X and B are fourth bits of numbers of registers; they and vvvv lie in
// memory inverted.
struct Start {
  static constexpr int64_t kBytes = 5;

  int r, x, b;
  int vvvv;
  Prefix prefix;
  uint8_t opcode;
  int mod, reg, rm;
};
std::optional<Start> StartAt(const uint8_t* code) {
  constexpr int kMap0F38 = 2;
  if (code[0] != 0xC4 || (code[1] & 31) != kMap0F38) return std::nullopt;
  if ((code[2] & 0x84) != 0) return std::nullopt;  // W and L
  const int first = ~code[1];
  return Start{first >> 7 & 1,
               first >> 6 & 1,
               first >> 5 & 1,
               ~code[2] >> 3 & 15,
               static_cast<Prefix>(code[2] & 3),
               code[3],
               code[4] >> 6,
               code[4] >> 3 & 7,
               code[4] & 7};
}

bool Fits(Form form, const Start& start) {
  constexpr int kRegister = 3;  // of mod
  constexpr int kSib = 4;       // of rm
  const bool memory = start.mod != kRegister;
  switch (form) {
    case Form::kMemory:
      return memory && start.reg == 0 && start.vvvv == 0;
    case Form::kNothing:
      return !memory && start.reg == 0 && start.rm == 0 && start.vvvv == 0;
    case Form::kTile:
      return !memory && start.r == 0 && start.rm == 0 && start.vvvv == 0;
    case Form::kTileMemory:
      return memory && start.r == 0 && start.rm == kSib && start.vvvv == 0;
    case Form::kThreeTiles:
      return !memory && start.r == 0 && start.b == 0 && start.vvvv < 8;
  }
  return false;
}

struct Address {
  uint64_t base = 0;
  uint64_t index = 0;
  int64_t bytes = 0;  // that tell it, behind ModRM
};
Address AddressAt(const Start& start, const uint8_t* code, const GeneralRegisters& registers) {
  constexpr int kNoBase = 5;  // with mod 0
  constexpr int kNoIndex = 4;
  Address address;
  const uint8_t* next = code + Start::kBytes;
  int base = start.rm;
  const bool sib = start.rm == 4;
  if (sib) {
    base = *next & 7;
    const int index = (*next >> 3 & 7) + 8 * start.x;
    if (index != kNoIndex) address.index = registers.values[index] << (*next >> 6);
    ++next;
  }
  const bool no_base = start.mod == 0 && base == kNoBase;
  if (!no_base) address.base = registers.values[base + 8 * start.b];
  if (start.mod == 1) {
    address.base += static_cast<uint64_t>(int64_t{static_cast<int8_t>(*next)});
    ++next;
  } else if (start.mod == 2 || no_base) {
    int32_t displacement;
    std::memcpy(&displacement, next, sizeof(displacement));
    address.base += static_cast<uint64_t>(int64_t{displacement});
    next += sizeof(displacement);
  }
  // Without a SIB, no base is the next instruction.
  if (no_base && !sib) address.base += reinterpret_cast<uint64_t>(next);
  address.bytes = next - (code + Start::kBytes);
  return address;
}

}  // namespace

std::optional<AmxInstruction> DecodeAmx(const uint8_t* code, const GeneralRegisters& registers) {
  const std::optional<Start> start = StartAt(code);
  if (!start) return std::nullopt;
  for (const Row& row : kRows) {
    if (row.opcode != start->opcode || row.prefix != start->prefix) continue;
    if (!Fits(row.form, *start)) continue;
    AmxInstruction instruction{row.operation, start->reg, start->rm, start->vvvv};
    instruction.bytes = Start::kBytes;
    if (row.form == Form::kMemory || row.form == Form::kTileMemory) {
      const Address address = AddressAt(*start, code, registers);
      const bool strided = row.form == Form::kTileMemory;
      const uint64_t memory = strided ? address.base : address.base + address.index;
      instruction.memory = std::bit_cast<std::byte*>(memory);
      instruction.stride = strided ? static_cast<int64_t>(address.index) : 0;
      instruction.bytes += address.bytes;
    }
    return instruction;
  }
  return std::nullopt;
}

}  // namespace tandem::test
