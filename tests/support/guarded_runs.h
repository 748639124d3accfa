// Runs of bytes beside memory that nobody may touch: whoever goes beyond a run ends the process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::test {

class GuardedRuns {
 public:
  // Places for `count` runs of up to `most_bytes`.
  GuardedRuns(int64_t count, int64_t most_bytes);
  ~GuardedRuns();
  GuardedRuns(const GuardedRuns&) = delete;
  GuardedRuns& operator=(const GuardedRuns&) = delete;

  // Where run i begins if it has `bytes`: right behind guarded memory or right before it.
  enum class Side : uint8_t { kBehind, kBefore };
  std::byte* At(int64_t i, int64_t bytes, Side guard) const;

 private:
  int64_t count_;
  int64_t place_bytes_;  // whole pages
  std::byte* memory_;    // a guard before each place and behind the last
};

}  // namespace tandem::test
