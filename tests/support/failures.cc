#include "tests/support/failures.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

namespace tandem::test {

std::string FailuresOf(const std::function<void()>& run) {
  testing::TestPartResultArray results;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    run();
  }
  std::string failures;
  for (int i = 0; i < results.size(); ++i) {
    const testing::TestPartResult& result = results.GetTestPartResult(i);
    if (result.failed()) failures += std::string(result.message()) + "\n";
  }
  return failures;
}

}  // namespace tandem::test
