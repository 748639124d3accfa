// Intel AMX on machines that have none, so that tests run its kernels everywhere: an instruction of
// AMX raises SIGILL there, whose handler does what the instruction would have done.
#pragma once

namespace tandem::test {

// From here on every thread executes the instructions of amx_instruction.h: the machine does where
// it has AMX. Any other illegal instruction, and one of these that a processor would refuse, ends
// the process with SIGILL as ever. Products of bfloat16 are emulated with FMA, which every
// machine has that runs the engine's kernels of them. May be called again, from any thread.
void EmulateAmx();

}  // namespace tandem::test
