// What is counted, without locks: a recording is one or two relaxed atomic additions.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem::server {

// Only rises. Thread-safe.
class Counter {
 public:
  void Add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// Rises and falls. Thread-safe.
class Gauge {
 public:
  void Add(int64_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
  void Set(int64_t n) { value_.store(n, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

// Counts of values by bucket, and their sum, in an integer unit. Thread-safe; a reader may see a
// value in the buckets shortly before it sees it in the sum.
class Histogram {
 public:
  static constexpr size_t kMaxBounds = 24;

  // `bounds` are inclusive upper bounds, rising, at most kMaxBounds, and outlive the histogram.
  explicit Histogram(std::span<const int64_t> bounds) : bounds_(bounds) {}

  void Observe(int64_t value);

  std::span<const int64_t> bounds() const { return bounds_; }
  // Values in bucket i alone: above bounds()[i - 1], up to bounds()[i]; i == bounds().size() has no
  // upper bound.
  uint64_t bucket(size_t i) const { return buckets_[i].load(std::memory_order_relaxed); }
  uint64_t count() const;
  int64_t sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::span<const int64_t> bounds_;
  std::array<std::atomic<uint64_t>, kMaxBounds + 1> buckets_{};
  std::atomic<int64_t> sum_{0};
};

// Bounds in nanoseconds, 50 us to 60 s, about three a decade.
std::span<const int64_t> DurationBounds();
// Bounds in items, the powers of two to 4096.
std::span<const int64_t> ItemBounds();

}  // namespace tandem::server
