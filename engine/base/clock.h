// Time as a parameter: code that waits or measures takes a Clock, so that tests decide what time it
// is. Monotonic; never the wall clock.
#pragma once

#include <chrono>

namespace tandem {

// Thread-safe.
class Clock {
 public:
  using Duration = std::chrono::nanoseconds;
  using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
};

// std::chrono::steady_clock.
class SteadyClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
};

}  // namespace tandem
