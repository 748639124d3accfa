// CHECK: a condition that only a bug in this program can break. Active in every build; prints the
// condition, an fmt-formatted explanation and the place, then aborts. Bad input is never a CHECK.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace tandem {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view message);

}  // namespace tandem

#define CHECK(condition, ...)                                                            \
  do {                                                                                   \
    if (!(condition)) [[unlikely]]                                                       \
      ::tandem::CheckFailed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
