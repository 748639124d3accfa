#include "server/metrics/instruments.h"

#include <algorithm>

namespace tandem::server {

void Histogram::Observe(int64_t value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  buckets_[static_cast<size_t>(bucket - bounds_.begin())].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

uint64_t Histogram::count() const {
  uint64_t count = 0;
  for (size_t i = 0; i <= bounds_.size(); ++i) count += bucket(i);
  return count;
}

std::span<const int64_t> DurationBounds() {
  static constexpr int64_t kUs = 1'000;
  static constexpr int64_t kMs = 1'000'000;
  static constexpr int64_t kS = 1'000'000'000;
  static constexpr auto kBounds =
      std::to_array<int64_t>({50 * kUs, 100 * kUs, 250 * kUs, 500 * kUs, 1 * kMs, 2'500 * kUs,
                              5 * kMs, 10 * kMs, 25 * kMs, 50 * kMs, 100 * kMs, 250 * kMs,
                              500 * kMs, 1 * kS, 2500 * kMs, 5 * kS, 10 * kS, 30 * kS, 60 * kS});
  static_assert(kBounds.size() <= Histogram::kMaxBounds);
  return kBounds;
}

std::span<const int64_t> ItemBounds() {
  static constexpr auto kBounds =
      std::to_array<int64_t>({1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096});
  static_assert(kBounds.size() <= Histogram::kMaxBounds);
  return kBounds;
}

}  // namespace tandem::server
