#include "tests/support/guarded_runs.h"

#include <sys/mman.h>

#include "engine/base/check.h"

namespace tandem::test {
namespace {

constexpr int64_t kPage = 4096;

size_t MemoryBytes(int64_t count, int64_t place_bytes) {
  return static_cast<size_t>(kPage + count * (place_bytes + kPage));
}

}  // namespace

GuardedRuns::GuardedRuns(int64_t count, int64_t most_bytes)
    : count_(count), place_bytes_((most_bytes + kPage - 1) / kPage * kPage) {
  void* memory = mmap(nullptr, MemoryBytes(count_, place_bytes_), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED, "no memory for {} runs of {} bytes", count_, place_bytes_);
  memory_ = static_cast<std::byte*>(memory);
  for (int64_t i = 0; i < count_; ++i) {
    const auto bytes = static_cast<size_t>(place_bytes_);
    CHECK(mprotect(At(i, 0, Side::kBehind), bytes, PROT_READ | PROT_WRITE) == 0, "run {}", i);
  }
}

GuardedRuns::~GuardedRuns() { munmap(memory_, MemoryBytes(count_, place_bytes_)); }

std::byte* GuardedRuns::At(int64_t i, int64_t bytes, Side guard) const {
  CHECK(i < count_ && bytes <= place_bytes_, "run {} of {} bytes", i, bytes);
  std::byte* place = memory_ + kPage + i * (place_bytes_ + kPage);
  return guard == Side::kBehind ? place : place + place_bytes_ - bytes;
}

}  // namespace tandem::test
