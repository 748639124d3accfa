#include "tests/support/isa_limit.h"

#include <algorithm>
#include <cstdlib>

#include "engine/base/check.h"
#include "tests/support/amx_emulator.h"

namespace tandem::test {
namespace {

Isa Level() {
  const Isa machine = RealDetectIsa();
  const char* name = std::getenv("TANDEM_TEST_CPU");
  if (name == nullptr) return machine;
  const StatusOr<Isa> isa = ParseIsa(name);
  CHECK(isa.ok(), "TANDEM_TEST_CPU: {}", Message(isa.status()));
  // Besides AMX the level stands for the vectors of bfloat16 that prepare its tiles.
  const bool only_amx_lacks = machine == Isa::kVnni && __builtin_cpu_supports("avx512bf16");
  if (*isa == Isa::kAmx && only_amx_lacks) {
    EmulateAmx();
    return Isa::kAmx;
  }
  return std::min(machine, *isa);
}

}  // namespace

Isa LimitedDetectIsa() {
  static const Isa level = Level();
  return level;
}

}  // namespace tandem::test
