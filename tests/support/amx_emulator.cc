#include "tests/support/amx_emulator.h"

#include <signal.h>
#include <ucontext.h>

#include <bit>

#include "engine/base/check.h"
#include "tests/support/amx_instruction.h"
#include "tests/support/amx_state.h"
#include "tests/support/isa_limit.h"

namespace tandem::test {
namespace {

constinit thread_local AmxState state;

GeneralRegisters RegistersOf(const mcontext_t& machine) {
  constexpr int kOrder[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                            REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  GeneralRegisters registers;
  for (int i = 0; i < 16; ++i) {
    registers.values[i] = static_cast<uint64_t>(machine.gregs[kOrder[i]]);
  }
  return registers;
}

void OnIllegalInstruction(int, siginfo_t*, void* context) {
  mcontext_t& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
  const auto* code = std::bit_cast<const uint8_t*>(machine.gregs[REG_RIP]);
  const std::optional<AmxInstruction> instruction = DecodeAmx(code, RegistersOf(machine));
  if (instruction && state.Execute(*instruction)) {
    machine.gregs[REG_RIP] += instruction->bytes;
  } else {
    signal(SIGILL, SIG_DFL);  // and the instruction is met again
  }
}

}  // namespace

void EmulateAmx() {
  RealDetectIsa();  // asks for leave to use what there is
  struct sigaction action = {};
  action.sa_sigaction = OnIllegalInstruction;
  action.sa_flags = SA_SIGINFO;
  CHECK(sigaction(SIGILL, &action, nullptr) == 0, "SIGILL takes no handler");
}

}  // namespace tandem::test
