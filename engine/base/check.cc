#include "engine/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tandem {

void CheckFailed(const char* file, int line, const char* condition, std::string_view message) {
  fmt::print(stderr, "{}:{}: check failed: {}: {}\n", file, line, condition, message);
  std::fflush(stderr);
  std::abort();
}

}  // namespace tandem
