// What the machine offers to this process: instruction sets and CPUs.
#pragma once

#include <string_view>

#include "engine/base/status.h"

namespace tandem {

// Instruction-set levels in rising order. A level includes those below it; kernels that have no
// version for a level use the next lower one they have. kReference means the scalar reference
// kernels.
enum class Isa { kReference, kBaseline, kAvx2, kAvx512, kVnni, kAmx };

// "reference", "baseline", "avx2", "avx512", "vnni", "amx".
std::string_view IsaName(Isa isa);

// The inverse of IsaName; InvalidArgument names the text and the names that exist.
StatusOr<Isa> ParseIsa(std::string_view name);

// The highest level this machine executes. Where it has AMX, the first call asks the kernel for
// leave to use it, which all threads of the process then have.
Isa DetectIsa();

// CPUs this process may keep busy: the least of the affinity mask, the cgroups' quotas (v1 or v2,
// rounded up) and the physical cores of the machine; >= 1. `root` is prefixed to /proc and /sys,
// for tests.
int AvailableCpus(std::string_view root = "");

}  // namespace tandem
