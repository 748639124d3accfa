// Runs of this program on a lesser instruction set (tests/support/isa_limit.cc) see no other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "engine/base/cpu.h"
#include "tests/support/op_runner.h"

namespace tandem {
namespace {

TEST(IsaLimit, NothingBeyondItIsRun) {
  const Isa highest = test::IsaLevels().back();
  EXPECT_EQ(highest, std::min(Isa::kVnni, DetectIsa()));
  const char* name = std::getenv("TANDEM_TEST_CPU");
  if (name == nullptr) return;
  EXPECT_LE(DetectIsa(), ParseIsa(name).value());
  EXPECT_EQ(test::OpCall().isa, DetectIsa());
}

}  // namespace
}  // namespace tandem
