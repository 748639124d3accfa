// Failures that are expected: of a comparison that is shown something wrong.
#pragma once

#include <functional>
#include <string>

namespace tandem::test {

// What fails while `run` runs in this thread, one message behind the other; the test itself does
// not fail by it. "" where all is well.
std::string FailuresOf(const std::function<void()>& run);

}  // namespace tandem::test
