// The instructions of Intel AMX that the engine's kernels use, as they lie in memory. Source: Intel
// 64 and IA-32 Architectures Software Developer's Manual, volume 2: chapter 2 for the prefix VEX,
// ModRM and SIB, the pages of the instructions for the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace tandem::test {

enum class AmxOperation : uint8_t {
  kLoadConfig,           // LDTILECFG
  kRelease,              // TILERELEASE
  kZero,                 // TILEZERO
  kLoad,                 // TILELOADD, TILELOADDT1
  kStore,                // TILESTORED
  kDotSignedSigned,      // TDPBSSD
  kDotSignedUnsigned,    // TDPBSUD
  kDotUnsignedSigned,    // TDPBUSD
  kDotUnsignedUnsigned,  // TDPBUUD
  kDotBfloat16,          // TDPBF16PS
};

struct AmxInstruction {
  AmxOperation operation;
  int tile = 0;  // that is written, or stored
  int left = 0;  // of a dot product
  int right = 0;
  std::byte* memory = nullptr;
  int64_t stride = 0;  // bytes from one row in memory to the next
  int64_t bytes = 0;   // of the instruction
};

// What general registers hold, in the order of their numbers: rax, rcx, rdx, rbx, rsp, rbp, rsi,
// rdi, r8 to r15.
struct GeneralRegisters {
  uint64_t values[16];
};

// Nothing if there is another instruction, of which not all bytes may be read, at `code`.
std::optional<AmxInstruction> DecodeAmx(const uint8_t* code, const GeneralRegisters& registers);

}  // namespace tandem::test
