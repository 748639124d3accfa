#include "tests/support/linearity.h"

#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <vector>

namespace tandem::test {

// From the scheduler's clock: the times that getrusage tells are estimated from ticks, which other
// programs bend.
double SecondsOfThread() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double RatioOfTwice(const std::function<double(int)>& seconds, int size) {
  // Memory that is freed stays with the process: whether the kernel has to find fresh pages the
  // next time is not a matter of what is measured.
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  seconds(2 * size);
  std::vector<double> ratios;
  for (int i = 0; i < 7; ++i) {
    const double once = seconds(size);
    ratios.push_back(seconds(2 * size) / once);
  }
  std::ranges::sort(ratios);
  return ratios[1];
}

}  // namespace tandem::test
