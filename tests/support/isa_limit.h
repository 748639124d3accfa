// Tests run as on another machine where the environment variable TANDEM_TEST_CPU names a level: as
// on a lesser one, or, where it names amx and a machine lacks nothing else, with AMX emulated. The
// linker hands every call of DetectIsa from other files over to LimitedDetectIsa, so that neither
// the engine nor a test knows of it.
#pragma once

#include "engine/base/cpu.h"

namespace tandem::test {

// The names that the linker's option --wrap gives to the function and to what takes its place.
Isa RealDetectIsa() __asm__("__real__ZN6tandem9DetectIsaEv");
Isa LimitedDetectIsa() __asm__("__wrap__ZN6tandem9DetectIsaEv");

}  // namespace tandem::test
