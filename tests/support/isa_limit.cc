// Tests run as on a lesser machine where the environment variable TANDEM_TEST_CPU names a level:
// the linker hands every call of DetectIsa from other files over to the function below, so that
// neither the engine nor a test knows of it.
#include <algorithm>
#include <cstdlib>

#include "engine/base/check.h"
#include "engine/base/cpu.h"

namespace tandem::test {

// The names that the linker's option --wrap gives to the function and to what takes its place.
Isa RealDetectIsa() __asm__("__real__ZN6tandem9DetectIsaEv");
Isa LimitedDetectIsa() __asm__("__wrap__ZN6tandem9DetectIsaEv");

namespace {

Isa Limit() {
  const char* name = std::getenv("TANDEM_TEST_CPU");
  if (name == nullptr) return Isa::kAmx;
  const StatusOr<Isa> isa = ParseIsa(name);
  CHECK(isa.ok(), "TANDEM_TEST_CPU: {}", Message(isa.status()));
  return *isa;
}

}  // namespace

Isa LimitedDetectIsa() {
  static const Isa limit = Limit();
  return std::min(RealDetectIsa(), limit);
}

}  // namespace tandem::test
